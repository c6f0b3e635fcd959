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
from tests.tables import table

TURNS_MAX = 8
AGENTS = ("tester", "packager", "reader", "surveyor", "host")


class Stage(NamedTuple):
    """The known facts of a folder, where it is, and the ending of every agent that looked at it."""

    truth: Truth
    root: Path
    plays: Mapping[str, Play]
    endings: Mapping[str, Ending]

    def report(self, agent: str) -> Mapping[str, object]:
        found = self.endings[agent].report
        assert found is not None, f"{agent} did not report"
        return found


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Stage]:
    return {name: staged(name, tmp_path_factory.mktemp("folder") / "root") for name in NAMES}


def staged(name: str, root: Path) -> Stage:
    truth = build(name, root)
    tools = Folder(root)
    plays = {agent: Play(tools.tools()) for agent in AGENTS}
    return Stage(truth, root, plays, {agent: plays[agent].run(agent) for agent in AGENTS})


def listed(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


@table("name", NAMES)
def test_the_tester_names_the_framework_that_is_really_used(name: str, stages: Mapping[str, Stage]) -> None:
    found = stages[name].report("tester")
    assert (found["answer"], found["basis"]) == (stages[name].truth.framework, stages[name].truth.basis), (
        found
    )


@table("name", NAMES)
def test_the_tester_names_the_other_frameworks_too_and_no_more(
    name: str, stages: Mapping[str, Stage]
) -> None:
    found = stages[name].report("tester")
    assert found["also"] == list(stages[name].truth.also)


@table("name", NAMES)
def test_the_tester_notes_the_remarkable_facts(name: str, stages: Mapping[str, Stage]) -> None:
    assert stages[name].truth.says in " ".join(map(str, listed(stages[name].report("tester")["notes"])))


@table("name", NAMES)
@table("agent", ["tester", "packager", "reader"])
def test_the_evidence_stands_on_the_line_that_it_names(
    agent: str, name: str, stages: Mapping[str, Stage]
) -> None:
    raw = {place.path: place.raw for place in Folder(stages[name].root).places}
    for place in listed(stages[name].report(agent)["evidence"]):
        file, line, why = raw[str(place["file"])], place["line"], str(place["text"])
        quotes = re.findall("`(.+?)…?`", why)
        assert isinstance(line, int)
        assert len(quotes) == (line > 0), why
        if quotes:
            assert quotes[0] in (stages[name].root / file).read_text().split("\n")[line - 1]


@table("name", NAMES)
@table("agent", ["packager", "reader"])
def test_both_racers_name_a_true_entry_point(agent: str, name: str, stages: Mapping[str, Stage]) -> None:
    assert stages[name].report(agent)["answer"] in stages[name].truth.entry


@table("name", NAMES)
def test_the_surveyor_has_every_module_summarised_within_its_bound(
    name: str, stages: Mapping[str, Stage]
) -> None:
    found = stages[name].report("surveyor")
    paths = [str(each["path"]) for each in listed(found["modules"])]
    assert {*paths, *map(str, listed(found["left_out"]))} == set(stages[name].truth.modules)
    assert len(paths) == min(MODULES_MAX, len(stages[name].truth.modules))
    assert not [each for each in listed(found["modules"]) if str(each["summary"]).startswith("No summary")]


@table("name", NAMES)
def test_the_host_sums_up_in_printable_text(name: str, stages: Mapping[str, Stage]) -> None:
    text = stages[name].endings["host"].text
    assert f"Testing framework: {stages[name].truth.framework}" in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert "iteration_cap" in text
    assert "3 levels of diggers, then refused" in text


@table("name", NAMES)
def test_every_agent_but_the_runaway_ends_within_its_turns(name: str, stages: Mapping[str, Stage]) -> None:
    for play in stages[name].plays.values():
        turns = {agent: count for agent, count in play.turns.items() if agent != "runaway"}
        assert max(turns.values()) <= TURNS_MAX, turns


@table("name", NAMES)
def test_no_tool_fails(name: str, stages: Mapping[str, Stage]) -> None:
    assert not [error for play in stages[name].plays.values() for error in play.errors]
