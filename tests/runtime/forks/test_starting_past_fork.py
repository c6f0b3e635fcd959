"""A fork that another process began goes on by what the log holds."""

import asyncio
from typing import Any

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, PORTS, SUPERVISOR
from callboard.actors.protocol.client_messages import Ask, Forked
from callboard.actors.protocol.port_messages import CallModel, CallTool, ToolStarted
from callboard.runtime.forks.starting import PastFork, past_fork
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.resuming import RecordedSession, read_session
from tests.runtime.forks.kit import Counted, forked, host_of, recorded, reporting

CHANGE: Any = {("host.1", 1, 0): "999 degrees"}


async def fork_left(log: MemoryLog, **wish: Any) -> None:
    """Record a session, fork it, and leave the fork in the middle."""
    await recorded(log, reporting)
    async with Runtime(log, model=Counted(reporting)) as runtime:
        session = await runtime.fork("origin", host_of(), fork_id="f", **wish)
        await session.detach(0)


def past(log: MemoryLog, session_id: str = "f", **changed: Any) -> tuple[RecordedSession, PastFork | None]:
    async def work() -> tuple[RecordedSession, PastFork | None]:
        await log.open()
        found = (await read_session(log, session_id))._replace(**changed)
        return found, await past_fork(log, found)

    return asyncio.run(work())


def test_a_session_that_was_not_forked_has_no_past() -> None:
    log = MemoryLog()
    asyncio.run(fork_left(log))
    assert past(log, "origin")[1] is None


def test_the_past_has_the_changes_effects_and_inputs_of_the_fork() -> None:
    log = MemoryLog()
    asyncio.run(fork_left(log, at=2, changes=CHANGE, effects="ask"))
    found, made = past(log)
    assert made is not None
    forked = next(one.body for one in found.events if isinstance(one.body, Forked))
    assert made.playback.effects == forked.effects == "ask"
    changed = [one for known in made.playback.recorded.answers.values() for one in known]
    assert b"999 degrees" in b"".join(bytes(getattr(one.body, "output", b"")) for one in changed)
    assert made.playback.asks_left() == sum(isinstance(one.body, Ask) for one in found.events) - 1


def test_inputs_that_the_fork_has_are_not_posted_again() -> None:
    log = MemoryLog()
    asyncio.run(fork_left(log, at=1))
    found, made = past(log)
    assert made is not None
    posted = sum(isinstance(one.body, Ask) for one in found.events)
    assert made.playback.asks_left() == 1 - posted


def test_a_closed_fork_posts_no_input() -> None:
    log = MemoryLog()
    asyncio.run(fork_left(log, at=1, until=1_000))
    _, made = past(log, is_closed=True)
    assert made is not None
    assert made.playback.inputs == []


def test_open_requests_of_an_unchanged_fork_all_have_a_recorded_answer() -> None:
    log = MemoryLog()
    asyncio.run(fork_left(log, at=5))
    found, made = past(log)
    assert made is not None
    answers = [one for one in found.events if one.sender in PORTS and not isinstance(one.body, ToolStarted)]
    answered = {one.cause for one in answers}
    requests = {one.seq for one in found.events if isinstance(one.body, CallModel | CallTool)}
    assert made.answered == requests - answered != set()


def test_a_call_that_had_begun_and_has_a_recorded_answer_ends_no_reuse_of_reads() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    asyncio.run(forked(log, at=2, fork_id="f"))
    whole = past(log)[0].events
    (begun,) = (one.seq for one in whole if isinstance(one.body, ToolStarted))
    found, made = past(log, events=whole[:begun], is_closed=False)
    assert made is not None
    assert found.events[-1].cause in made.answered
    assert not made.playback.is_after_effect


def test_a_call_with_a_recorded_answer_that_waits_for_it_ends_no_reuse_of_reads() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    asyncio.run(forked(log, at=2, fork_id="f", effects="ask"))
    whole = past(log)[0].events
    (sent,) = (one for one in whole if isinstance(one.body, CallTool) and one.body.effect == "write")
    unannounced = replace(sent, body=replace(sent.body, effect="idempotent"))
    found, made = past(log, events=(*whole[: sent.seq - 1], unannounced), is_closed=False)
    assert made is not None
    assert found.events[-1].seq in made.answered
    assert not made.playback.is_after_effect


def test_a_fork_whose_origin_is_gone_goes_on_with_the_events_that_it_shares() -> None:
    log = MemoryLog()
    asyncio.run(fork_left(log, at=2))

    async def forget() -> None:
        await log.open()
        await log.delete("origin", keep_forks=True)

    asyncio.run(forget())
    found, made = past(log)
    assert made is not None
    assert not [one for known in made.playback.recorded.answers.values() for one in known]
    assert [one for one in found.events if one.sender == CLIENT and one.recipient == SUPERVISOR]
