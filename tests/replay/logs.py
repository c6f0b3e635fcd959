"""Recorded sessions for the tests of replay."""

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from callboard.actors.agent.decider import decide_agent
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.turns import Decision
from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AgentInput, DeciderFailed
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session import step as step_module
from callboard.actors.session.core import SessionCore, recorded_failure
from callboard.actors.session.step import ActorState
from callboard.replay.states import History, Output, States
from callboard.replay.steps import Steps
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.runtime import Runtime
from tests.cli.recorded import script, survey_host


def states_after(events: Sequence[Event]) -> dict[str, ActorState]:
    """Fold these events into the states of their actors."""
    core = SessionCore()
    failures = {event.cause: event.body.error for event in events if isinstance(event.body, DeciderFailed)}
    for event in events:
        if is_decider(event.recipient):
            core.decide(event, failures.get(event.seq, ""))
    return core.states


def history_in(events: Sequence[Event]) -> History:
    """Return the history in a list of events, from seq 1, without gaps."""

    def history(actor: str, first: int, last: int) -> Iterable[Event | Output]:
        for event in events[first - 1 : last]:
            if event.sender == actor:
                yield Output(event.cause, recorded_failure((event,)))
            if event.recipient == actor:
                yield event

    return history


def steps_of(events: Sequence[Event]) -> Steps:
    """Return the steps of a list of events, from seq 1, without gaps."""
    return Steps(events, States(history_in(events), len(events)))


def survey() -> MemoryLog:
    """Record the session `one`, in which a host delegates twice."""

    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=script()) as runtime:
            await runtime.run(survey_host(), "How many files?", session_id="one")
        return log

    return asyncio.run(main())


def crashed() -> MemoryLog:
    """Record the survey with a sub-agent's decider that raises when its tool answers (`DeciderFailed`)."""

    def raising(state: AgentState, seq: int, body: AgentInput) -> Decision:
        if state.address == "host.1" and type(body) is ToolReturned:
            raise ValueError("a fault that is mended later")
        return decide_agent(state, seq, body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "decide_agent", raising)
        return survey()
