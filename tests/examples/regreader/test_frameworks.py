"""The specialists as agents of other frameworks: the same answers as those of callboard's own."""

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace
from regreader import frameworks
from regreader.frameworks import FRAMEWORKS
from regreader.importing import read_file
from regreader.index import Index
from regreader.reader import Reader, Settings

from callboard.errors import MissingExtra
from callboard.orchestrator import OrchestratorResult, OrchestratorUsage
from tests.examples.regreader.test_tools import TEXT

QUESTIONS = (
    "What does note * of Table 1-1 say?",
    "How many hours do gas lamps burn?",
    "What does section 1.1.1 say?",
    "What does section 9.9 say?",
    "Who is the mayor?",
)

FILES = sorted(Path(frameworks.__path__[0]).glob("[a-z]*_*.py"))
LINES_MAX = 70
ALL_LINES_MAX = 300


@pytest.fixture
def index(tmp_path: Path) -> str:
    (tmp_path / "lamps.md").write_text(TEXT)
    index = Index(tmp_path / "regs.db")
    index.put(read_file(tmp_path / "lamps.md", "lamps", "lamps.md"))
    index.close()
    return str(tmp_path / "regs.db")


def answers(settings: Settings, questions: tuple[str, ...]) -> list[OrchestratorResult]:
    async def ask() -> list[OrchestratorResult]:
        async with Reader(settings) as reader:
            return [await reader.chat(one) for one in questions]

    found = asyncio.run(ask())
    assert all(one.usage.total.calls for one in found) == bool(settings.framework)
    return [replace(one, usage=OrchestratorUsage()) for one in found]


@pytest.mark.parametrize(
    ("framework", "mode", "count"),
    [
        ("pydantic", "sequential", 5),
        ("pydantic", "parallel", 2),
        ("langgraph", "sequential", 5),
        ("langgraph", "parallel", 2),
        pytest.param("claude", "sequential", 2, marks=pytest.mark.slow),
    ],
)
def test_the_same_decisions_give_the_same_answers(
    index: str, framework: str, mode: Literal["sequential", "parallel"], count: int
) -> None:
    if framework == "claude" and (sys.platform != "linux" or not find_spec("claude_agent_sdk")):
        pytest.skip("the client of callboard[claude] is not installed")
    own = Settings(index, orchestrate=True, mode=mode)
    expected = answers(own, QUESTIONS[:count])
    assert [one.success for one in expected] == [True, True, True, False, False][:count]
    assert answers(replace(own, framework=framework), QUESTIONS[:count]) == expected


def test_a_framework_that_is_not_installed_names_its_extra(
    index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    monkeypatch.delitem(sys.modules, "regreader.frameworks.claude_clients", raising=False)
    with pytest.raises(MissingExtra, match=r"claude_agent_sdk: pip install 'regreader\[claude\]'"):
        answers(Settings(index, framework=FRAMEWORKS[0]), QUESTIONS[:1])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_orchestrator_of_a_framework_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX


def test_the_orchestrators_of_all_frameworks_are_short() -> None:
    folder = Path(frameworks.__path__[0])
    assert sum(len(path.read_text().splitlines()) for path in folder.glob("*.py")) <= ALL_LINES_MAX
