"""Orchestrators whose budget is used up in mid-route, and specialists that end themselves."""

import asyncio
from typing import Any, Final

import pytest

from callboard import Limits, Outcome, Runtime, ScriptedModel
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.usage import Usage
from callboard.log import MemoryLog
from callboard.orchestrator import Orchestrator, Specialist
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Reply
from callboard.runtime.orchestrator.route import Mode
from tests.effort import effort
from tests.runtime.orchestrator.kit import answering, gives_up, questions

MODEL: Final = ScriptedModel(lambda request: Reply("Row 7.", usage=Usage(output_tokens=900)))
FIRST, SECOND = (
    Specialist(name, keywords=("table",), priority=priority, policy=questions)
    for name, priority in (("first", 2), ("second", 1))
)
LAST: Final = Specialist("last", policy=answering("never asked"))


def poor(mode: Mode = "sequential") -> Orchestrator:
    """Return an orchestrator that can pay for one question."""
    return Orchestrator([FIRST, SECOND, LAST], mode=mode, limits=Limits(tokens=1_900))


async def ran(host: Orchestrator, log: MemoryLog, session_id: str = "s") -> Outcome[Any]:
    async with Runtime(log, model=MODEL) as runtime:
        session = await runtime.open(host, session_id=session_id, resume=True)
        outcome = await session.ask("Which table?", request_id="one")
        await session.close()
    return outcome


def events_of(log: MemoryLog, session_id: str = "s") -> list[Event]:
    recording = Recording.open(MemoryReader(log), session_id)
    recording.verify().check()
    events = list(recording.events)
    assert check_log(events) == []
    return events


def asked(events: list[Event]) -> list[str]:
    bodies = [one.body for one in events if one.sender == "host" and isinstance(one.body, Delegate)]
    return [body.profiles[0] for body in bodies]


def test_a_used_up_budget_ends_the_route_and_keeps_what_was_found() -> None:
    log, host = MemoryLog(), poor()
    outcome = asyncio.run(ran(host, log))
    assert (outcome.kind, outcome.is_ok) == ("budget", False)
    words = host.text_of(outcome)
    assert words.startswith("Row 7.\n\nWithout an answer: second (budget: the budget of host is too small")
    assert "last (budget: Given up" in words
    assert asked(events_of(log)) == ["first", "second"]


def test_a_used_up_budget_gives_up_the_specialists_beside() -> None:
    log = MemoryLog()
    outcome = asyncio.run(ran(poor("parallel"), log))
    assert outcome.kind == "budget"
    assert {one.kind for one in outcome.delegations if one.profile == "second"} == {"budget"}
    events_of(log)


def test_a_kill_at_any_event_of_such_a_route_changes_neither_its_end_nor_its_words() -> None:
    async def live() -> None:
        log, host = MemoryLog(), poor()
        expected = host.text_of(await ran(host, log))
        events = events_of(log)
        second = [one.seq for one in events if isinstance(one.body, Delegate) and one.sender == "host"][1]
        for length in range(second, len(events), effort(6, 1)):
            left = MemoryLog()
            await left.open()
            epoch = await left.create("s", 0, "go")
            await left.append([Append("s", 0, epoch, events[:length])])
            await left.close()
            outcome = await ran(poor(), left)
            assert (outcome.kind, host.text_of(outcome)) == ("budget", expected), f"after event {length}"
            assert asked(events_of(left)) == ["first", "second"]

    asyncio.run(live())


@pytest.mark.parametrize("effects", ["recorded", "ask", "live"])
def test_a_fork_of_such_a_route_ends_alike(effects: Any) -> None:
    async def live() -> None:
        log, host = MemoryLog(), poor()
        expected = host.text_of(await ran(host, log))
        async with Runtime(log, model=MODEL) as runtime:
            forked = await runtime.fork("s", poor(), at=2, effects=effects, fork_id="f")
            outcome = await forked.outcome
            await forked.close()
        assert (outcome.kind, host.text_of(outcome)) == ("budget", expected)
        events_of(log, "f")

    asyncio.run(live())


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_the_own_end_of_a_specialist_is_a_finding_with_its_kind_and_reason(mode: Any) -> None:
    log = MemoryLog()
    quits = Specialist("quits", keywords=("table",), priority=3, policy=gives_up)
    sure = Specialist("sure", keywords=("table",), policy=answering("Row 8."))
    host = Orchestrator([quits, sure], mode=mode)
    outcome = asyncio.run(ran(host, log))
    assert outcome.kind == "answered"
    assert host.text_of(outcome) == "Row 8.\n\nWithout an answer: quits (no_report: no source is left)."
    events_of(log)


@pytest.mark.parametrize("words", ["", "not a result", "{}", '{"success":1}'])
def test_an_ask_that_ended_without_a_result_has_the_words_that_it_has(words: str) -> None:
    outcome = Outcome("budget", words, None, Usage(), "s", "one", (1, ""))
    assert poor().text_of(outcome) == words
