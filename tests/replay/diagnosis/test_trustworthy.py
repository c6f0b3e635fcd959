"""The diagnosis: no fact about a healthy session, few guesses, and planted causes are named."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from callboard.actors.protocol.port_messages import CallTool
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.recording import Recording
from tests.golden import golden, recorded
from tests.replay.diagnosis.healthy import healthy
from tests.replay.diagnosis.healthy_programs import healthy_programs
from tests.replay.diagnosis.planted import PLANTED, Planted
from tests.replay.diagnosis.trajectories import played, sessions_of
from tests.replay.diagnosis.user_stories import STORIES, Story
from tests.tables import table

RUNS = Path(__file__).parents[2] / "data" / "runs"
GUESSES_MAX = 1 / 20
FAILED = "tau-bench-airline-gpt4o 2"
"""A recorded run that its benchmark counts as failed: the same booking was refused three times."""


def healthy_sessions() -> Iterator[tuple[str, Recording]]:
    for name, make in healthy():
        yield name, make()
    yield from healthy_programs()
    for name in ("report", "flaky"):
        yield name, recorded(golden(name))
    for path in sorted(RUNS.glob("*.json")):
        for place, agents in enumerate(sessions_of(json.loads(path.read_text("utf-8")))):
            yield f"{path.stem} {place}", played(agents)


@cache
def alarms() -> tuple[int, dict[str, list[Finding]]]:
    """Return the number of healthy sessions, and the findings about them."""
    found = {name: recording.diagnose() for name, recording in healthy_sessions()}
    (failed,) = found.pop(FAILED)
    assert (failed.kind, "book_reservation gave host the same error" in failed.says) == (
        "repeated_error",
        True,
    )
    return len(found), {name: findings for name, findings in found.items() if findings}


def test_no_fact_is_told_about_a_healthy_session() -> None:
    count, found = alarms()
    assert count >= 60
    assert {
        name: [one.says for one in findings if not one.is_maybe] for name, findings in found.items()
    } == {}


def test_guesses_about_healthy_sessions_are_rare() -> None:
    count, found = alarms()
    assert len(found) <= GUESSES_MAX * count


@table("story", STORIES, ids=lambda one: one.name)
def test_the_cause_of_a_users_story_is_named_once_with_its_agent(story: Story) -> None:
    (finding,) = story.make().diagnose()
    assert (finding.kind, finding.agent) == (story.kind, story.agent)
    assert story.words in finding.says


@table("planted", PLANTED, ids=lambda one: one.name)
def test_a_planted_cause_is_named_once_with_its_agent(planted: Planted) -> None:
    (finding,) = planted.make().diagnose()
    assert (finding.kind, finding.agent) == (planted.kind, planted.agent)
    assert planted.words in finding.says
    assert finding.command.format(at="s#1", session="s", seq=1)


def test_the_command_of_a_stale_read_shows_the_read_and_the_write() -> None:
    (stale,) = (planted for planted in PLANTED if planted.name == "a stale file")
    recording = stale.make()
    (finding,) = recording.diagnose()
    words = finding.command.split()
    first, last = int(words[words.index("--from") + 1]), int(words[words.index("--to") + 1])
    shown = [
        event.body.tool for event in recording.events.between(first, last) if isinstance(event.body, CallTool)
    ]
    assert (shown[0], "save" in shown, recording.event(last).kind) == ("look", True, "ToolReturned")


def test_every_sentence_names_the_agent_that_it_is_about() -> None:
    found = [one.make().diagnose() for one in (*PLANTED, *STORIES)]
    nameless = [
        one.says
        for (one,) in found
        if one.agent not in one.says and one.kind != "failed_ask"  # its agent is the host
    ]
    assert nameless == []


def test_the_planted_causes_are_of_twelve_kinds_and_more() -> None:
    assert len({planted.kind for planted in PLANTED}) >= 12
