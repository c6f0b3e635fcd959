"""The agents' answers against the known facts of the folders."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from callboard.demo.agents import MODULES_MAX
from callboard.demo.tools import Folder
from tests.demo.folders import NAMES, Truth, build
from tests.demo.play import Ending, Play

TURNS_MAX = 8
AGENTS = ("tester", "packager", "reader", "surveyor", "host")


class Stage(NamedTuple):
    """A folder, its known facts, and the ending of every agent that looked at it."""

    name: str
    truth: Truth
    root: Path
    plays: Mapping[str, Play]
    endings: Mapping[str, Ending]

    def report(self, agent: str) -> Mapping[str, object]:
        found = self.endings[agent].report
        assert found is not None, f"{agent} did not report"
        return found


@pytest.fixture(scope="module", params=NAMES)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    root = tmp_path_factory.mktemp("folder") / "root"
    truth = build(request.param, root)
    tools = Folder(root)
    plays = {agent: Play(tools.tools()) for agent in AGENTS}
    return Stage(request.param, truth, root, plays, {agent: plays[agent].run(agent) for agent in AGENTS})


def listed(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def test_the_tester_names_the_framework_that_is_really_used(stage: Stage) -> None:
    found = stage.report("tester")
    assert (found["answer"], found["basis"]) == (stage.truth.framework, stage.truth.basis), found


def test_the_tester_names_the_other_frameworks_too_and_no_more(stage: Stage) -> None:
    found = stage.report("tester")
    assert found["also"] == list(stage.truth.also)


def test_the_tester_notes_the_remarkable_facts(stage: Stage) -> None:
    assert stage.truth.says in " ".join(map(str, listed(stage.report("tester")["notes"])))


@pytest.mark.parametrize("agent", ["tester", "packager", "reader"])
def test_the_evidence_stands_on_the_line_that_it_names(agent: str, stage: Stage) -> None:
    raw = {place.path: place.raw for place in Folder(stage.root).places}
    for place in listed(stage.report(agent)["evidence"]):
        file, line, why = raw[str(place["file"])], place["line"], str(place["text"])
        quotes = re.findall("`(.+?)…?`", why)
        assert isinstance(line, int)
        assert len(quotes) == (line > 0), why
        if quotes:
            assert quotes[0] in (stage.root / file).read_text().split("\n")[line - 1]


@pytest.mark.parametrize("agent", ["packager", "reader"])
def test_both_racers_name_a_true_entry_point(agent: str, stage: Stage) -> None:
    assert stage.report(agent)["answer"] in stage.truth.entry


def test_the_surveyor_has_every_module_summarised_within_its_bound(stage: Stage) -> None:
    found = stage.report("surveyor")
    paths = [str(each["path"]) for each in listed(found["modules"])]
    assert {*paths, *map(str, listed(found["left_out"]))} == set(stage.truth.modules)
    assert len(paths) == min(MODULES_MAX, len(stage.truth.modules))
    assert not [each for each in listed(found["modules"]) if str(each["summary"]).startswith("No summary")]


def test_the_host_sums_up_in_printable_text(stage: Stage) -> None:
    text = stage.endings["host"].text
    assert f"Testing framework: {stage.truth.framework}" in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert "iteration_cap" in text
    assert "3 levels of diggers, then refused" in text


def test_every_agent_but_the_runaway_ends_within_its_turns(stage: Stage) -> None:
    for play in stage.plays.values():
        turns = {agent: count for agent, count in play.turns.items() if agent != "runaway"}
        assert max(turns.values()) <= TURNS_MAX, turns


def test_no_tool_fails(stage: Stage) -> None:
    assert not [error for play in stage.plays.values() for error in play.errors]
