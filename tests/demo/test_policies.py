"""The cast as a whole: it fits together, it repeats itself, and nothing that tools say breaks it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.demo.inquiry import TURNS_MAX
from callboard.demo.policies import CAST, RUNAWAY_ITERATIONS
from callboard.demo.tools import TOOL_NAMES, FolderTools
from tests.demo.folders import build
from tests.demo.play import Play, validator_of

REPORTERS = [name for name, role in CAST.items() if role.schema]
NONSENSE: tuple[object, ...] = (
    None,
    7,
    "text",
    [],
    {},
    {"path": 1, "entries": 2, "patterns": 3, "languages": 4},
    {"path": ".", "patterns": [{"pattern": "?", "count": 9, "files": 9, "paths": ["../x"], "hits": []}]},
    {
        "path": ".",
        "entries": [{"path": "\x1b", "kind": "folder", "files": 1}],
        "files": 10**18,
        "languages": [],
    },
    {"patterns": [{"pattern": "**/{test,tests,spec,__tests__}/**", "count": 3}, {"pattern": "conftest.py"}]},
    {"path": ".", "settings": [{"key": "project.scripts.x", "value": "\n\n = \x00"}]},
)


def raising(**arguments: object) -> object:
    raise OSError("it is not there")


def test_every_tool_and_agent_of_the_cast_exists() -> None:
    for name, role in CAST.items():
        assert set(role.tools) <= set(TOOL_NAMES), name
        assert set(role.agents) <= set(CAST), name
        assert role.description.endswith(".")
        assert role.instructions.endswith(".")


@pytest.mark.parametrize("name", REPORTERS)
def test_where_every_tool_fails_the_report_still_matches_its_schema(name: str) -> None:
    play = Play(dict.fromkeys(TOOL_NAMES, raising))
    assert play.run(name).report is not None
    assert play.turns[name] <= TURNS_MAX


@pytest.mark.parametrize("name", REPORTERS)
@pytest.mark.parametrize("seed", range(20))
def test_where_tools_talk_nonsense_the_report_still_matches_its_schema(name: str, seed: int) -> None:
    chance = random.Random(seed)

    def nonsense(**arguments: object) -> object:
        return chance.choice(NONSENSE)

    tools: dict[str, Callable[..., object]] = dict.fromkeys(TOOL_NAMES, nonsense)
    play = Play(tools)
    assert play.run(name).report is not None
    assert play.turns[name] <= TURNS_MAX


@pytest.mark.parametrize("name", REPORTERS)
def test_the_same_folder_gets_the_same_report(name: str, tmp_path: Path) -> None:
    build("two_languages", tmp_path / "root")
    first, second = (Play(FolderTools(tmp_path / "root").all()).run(name) for _ in range(2))
    assert first == second


def test_the_runaway_is_stopped_by_its_cap_alone(tmp_path: Path) -> None:
    play = Play(FolderTools(tmp_path).all())
    ending = play.run("runaway")
    assert ending.is_error
    assert (play.turns["runaway"], play.tool_calls["list_files"]) == (RUNAWAY_ITERATIONS, RUNAWAY_ITERATIONS)


@pytest.mark.parametrize("first", [0, 1])
def test_either_racer_may_win(first: int, tmp_path: Path) -> None:
    truth = build("pytest_with_a_console_script", tmp_path / "root")
    play = Play(FolderTools(tmp_path / "root").all(), first)
    text = play.run("host").text
    assert f"Entry point: {truth.entry[0]} (console script)" in text
    assert ("reader" if first else "packager") in play.turns


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("tester", {"framework": "pytest", "basis": "used", "evidence": []}),
        ("tester", {"framework": "none", "basis": "used", "evidence": []}),
        ("packager", {"entry_point": "main.py", "kind": "script", "evidence": []}),
        ("packager", {"entry_point": "main.py", "kind": "none", "evidence": []}),
    ],
)
def test_no_schema_takes_an_answer_without_evidence(
    name: str, report: dict[str, object], tmp_path: Path
) -> None:
    complete = Play(FolderTools(tmp_path).all()).run(name).report
    assert complete is not None
    schema = CAST[name].schema
    assert validator_of(schema).is_valid(complete)
    assert not validator_of(schema).is_valid({**complete, **report})
