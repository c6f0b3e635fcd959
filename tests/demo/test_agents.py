"""The cast as a whole: it fits together, it repeats itself, and no answer of a tool breaks it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.demo.agents import CAST
from callboard.demo.inquiry import schema_of
from callboard.demo.tools import Folder
from tests.demo.folders import build
from tests.demo.play import Play, validator_of
from tests.tables import table

REPORTERS = [name for name, role in CAST.items() if role.report]
TOOL_NAMES = ["list_folders", "count_code", "parse_python", "read_config"]
TURNS_MAX = 8
NONSENSE: tuple[object, ...] = (
    None,
    7,
    "text",
    [],
    {},
    {"files": 10**18, "languages": {"\x1b": -1, "Python": 3}, "is_counted": True},
    [{"path": "\x1b", "files": 1, "own": -1}],
    [{"file": "../x", "line": -5, "text": "pytest"}, {"file": "", "line": 0, "text": ""}],
    [{"file": "\n", "imports": {"pytest": 0}, "tests": {"test_x": 10**9}, "main_line": 3}],
    [{"file": "pyproject.toml", "key": "project.scripts.x", "value": " = \x00", "line": 1}],
)


def raising(**arguments: object) -> object:
    raise OSError("it is not there")


def test_every_tool_and_agent_of_the_cast_exists(tmp_path: Path) -> None:
    assert list(Folder(tmp_path).tools()) == TOOL_NAMES
    for name, role in CAST.items():
        assert set(role.tools.split()) <= set(TOOL_NAMES), name
        assert set(role.agents.split()) <= set(CAST), name
        assert role.job.endswith(".")


@table("name", REPORTERS)
def test_where_every_tool_fails_the_report_matches_its_schema_and_claims_nothing(name: str) -> None:
    play = Play(dict.fromkeys(TOOL_NAMES, raising))
    report = play.run(name).report
    assert report is not None
    assert report.get("answer", "unknown") == "unknown"
    assert play.turns[name] <= TURNS_MAX


@table("name", REPORTERS)
@table("seed", range(20))
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
    first, second = (Play(Folder(tmp_path / "root").tools()).run(name) for _ in range(2))
    assert first == second


def test_the_runaway_is_stopped_by_its_cap_alone(tmp_path: Path) -> None:
    play = Play(Folder(tmp_path).tools())
    ending = play.run("runaway")
    assert ending.is_error
    assert play.turns["runaway"] == play.tool_calls["list_folders"] == CAST["runaway"].turns


@pytest.mark.parametrize("first", [0, 1])
def test_either_racer_may_win(first: int, tmp_path: Path) -> None:
    truth = build("pytest_with_a_console_script", tmp_path / "root")
    play = Play(Folder(tmp_path / "root").tools(), first)
    text = play.run("host").text
    assert f"Entry point: {truth.entry[0]} (console script)" in text
    assert ("reader" if first else "packager") in play.turns


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("tester", {"answer": "pytest", "basis": "used", "evidence": []}),
        ("tester", {"answer": "none", "basis": "used", "evidence": []}),
        ("packager", {"answer": "main.py", "basis": "none", "evidence": []}),
        ("packager", {"answer": "main.py", "more": 1}),
    ],
)
def test_no_schema_takes_an_answer_without_evidence(
    name: str, report: dict[str, object], tmp_path: Path
) -> None:
    complete = Play(Folder(tmp_path).tools()).run(name).report
    assert complete is not None
    kind = CAST[name].report
    assert kind is not None
    schema = schema_of(kind)
    assert validator_of(schema).is_valid(complete)
    assert not validator_of(schema).is_valid({**complete, **report})
