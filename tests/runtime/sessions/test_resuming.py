"""Runtime.resume: one process leaves a session, another continues it, with real logs and real ports."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard import (
    Agent,
    Limits,
    Outcome,
    Runtime,
    ScriptedModel,
    Session,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.protocol.client_messages import RULES, AskEnded, Resumed, SessionClosed, SessionOpened
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import (
    AgentsChanged,
    CorruptLog,
    Diverged,
    MisuseError,
    SessionBusy,
    SessionEnded,
    SessionFailed,
    SessionNotFound,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, Finished
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.step import step
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.resuming import (
    RecordedSession,
    continuation,
)
from tests.effort import effort
from tests.golden import SESSIONS, golden
from tests.tables import table

NAME = "one"


async def log_of(events: list[Event], name: str = NAME) -> MemoryLog:
    """Make a log with these events and without an owner."""
    log = MemoryLog()
    await log.open()
    await log.create(name, 0, "")
    if events:
        (answer,) = await log.append([Append(name, 0, 1, events)])
        assert not isinstance(answer, Exception)
    await log.close()
    return log


def recording(log: MemoryLog) -> Recording:
    return Recording.open(MemoryReader(log), NAME)


async def goes_on(events: list[Event], host: Agent, model: ScriptedModel) -> tuple[Outcome, Recording]:
    """Resume a session after these events; return its outcome and its whole log."""
    log = await log_of(list(events))
    async with Runtime(log, model=model) as runtime:
        session = await runtime.resume(NAME, host)
        outcome = await session.outcome
        await session.close()
    found = recording(log)
    found.verify().check()
    return outcome, found


# --- from every prefix ------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_that_died_anywhere_ends_as_if_it_had_not(name: str) -> None:
    make, policy, _ = SESSIONS[name]
    events = golden(name)
    (end,) = [e.body for e in events if isinstance(e.body, AskEnded)]
    asked = next(e.seq for e in events if e.kind == "Ask")
    step = max(1, len(events) // effort(suite=5, campaign=1_000))
    for seq in [*range(asked, len(events), step), len(events) - 1]:
        outcome, found = asyncio.run(goes_on(events[:seq], make(), ScriptedModel(policy)))
        returned = [e.body.status for e in found.events if isinstance(e.body, ToolReturned)]
        # A lost call is charged in full, and the budget of `refused` has no room for that.
        if name not in ("flaky", "refused") and "interrupted" not in returned:
            assert (outcome.kind, outcome.text) == (end.kind, end.text), f"cut after {seq}"
        assert isinstance(found.events[-1].body, SessionClosed)


@pytest.mark.parametrize("rules", range(1, RULES + 1))
def test_a_session_keeps_the_rules_it_was_opened_with(rules: int) -> None:
    make, policy, _ = SESSIONS["everything"]
    events = golden("everything", rules)
    _, found = asyncio.run(goes_on(events[:20], make(), ScriptedModel(policy)))
    said = [e.body.rules for e in found.events if isinstance(e.body, SessionOpened | Resumed | Begin)]
    assert set(said) == {rules}
    assert any(isinstance(e.body, Resumed) for e in found.events)


@pytest.mark.parametrize("rules", range(1, RULES + 1))
def test_programs_leave_downtime_out_under_the_rules_that_have_it(rules: int) -> None:
    events = tuple(golden("everything", rules)[:20])
    opened = events[0].body
    assert isinstance(opened, SessionOpened)
    found = continuation(RecordedSession(events), opened, extend_ms=1, left_out_ms=5)
    assert isinstance(found, Resumed)
    assert (found.extend_ms, found.left_out_ms) == (6, 5 if rules >= 2 else 0)


# --- tools ------------------------------------------------------------------------


def deeds(effect: Effect) -> tuple[Agent, list[str], Callable[[ModelRequest], Step]]:
    """Make a host with one tool of this effect, a list of its runs, and a model that calls it once."""
    done: list[str] = []

    @tool(effect=effect)
    async def act(ctx: ToolContext) -> str:
        """Act."""
        done.append(ctx.idempotency_key)
        return "done"

    def policy(request: ModelRequest) -> Step:
        return call("act") if request.turn == 1 else say("ready")

    return Agent("host", tools=[act]), done, policy


async def recorded(host: Agent, model: ScriptedModel) -> list[Event]:
    log = MemoryLog()
    async with Runtime(log, model=model) as runtime:
        await runtime.run(host, "go", session_id=NAME)
    return list(recording(log).events)


@pytest.mark.parametrize(
    ("effect", "times"), [("read", 2), ("idempotent", 2), ("write", 1)], ids=["read", "idempotent", "write"]
)
def test_a_call_that_ran_when_the_process_died_is_repeated_only_if_it_may_be(
    effect: Effect, times: int
) -> None:
    host, done, policy = deeds(effect)
    events = asyncio.run(recorded(host, ScriptedModel(policy)))
    cut = next(e.seq for e in events if isinstance(e.body, ToolReturned)) - 1
    outcome, found = asyncio.run(goes_on(events[:cut], host, ScriptedModel(policy)))
    assert outcome.text == "ready"
    assert len(done) == times
    assert len(set(done)) == 1, "the key stays the same over a resume"
    (returned,) = [e.body for e in found.events if isinstance(e.body, ToolReturned)]
    assert returned.status == ("interrupted" if effect == "write" else "ok")


def test_a_write_tool_that_was_asked_for_and_had_not_started_runs_once() -> None:
    host, done, policy = deeds("write")
    events = asyncio.run(recorded(host, ScriptedModel(policy)))
    cut = next(e.seq for e in events if isinstance(e.body, CallTool))
    done.clear()
    outcome, found = asyncio.run(goes_on(events[:cut], host, ScriptedModel(policy)))
    assert outcome.is_ok
    assert len(done) == 1
    assert [e.kind for e in found.events if isinstance(e.body, ToolStarted | ToolReturned)] == [
        "ToolStarted",
        "ToolReturned",
    ]


# --- the session after it was resumed ---------------------------------------------


def echo(request: ModelRequest) -> Step:
    return say(f"turn {request.turn}")


async def left_after_two_asks() -> MemoryLog:
    """Make a session whose process died after the answer to its second ask."""
    log = MemoryLog()
    async with Runtime(log, model=ScriptedModel(echo)) as runtime:
        session = await runtime.open(Agent("host"), session_id=NAME)
        await session.ask("one", request_id="a")
        await session.ask("two", request_id="b")
    events = recording(log).events
    return await log_of(list(events))


def test_a_resumed_session_keeps_its_conversation_and_its_outcomes() -> None:
    async def scene() -> tuple[Outcome, Outcome, Outcome]:
        log = await left_after_two_asks()
        async with Runtime(log, model=ScriptedModel(echo)) as runtime:
            session = await runtime.resume(NAME, Agent("host"))
            last = await session.outcome
            again = await session.ask("one", request_id="a")
            return last, again, await session.ask("three")

    last, again, third = asyncio.run(scene())
    assert (last.request_id, last.text) == ("b", "turn 2")
    assert (again.request_id, again.text) == ("a", "turn 1"), "the same request gets the same outcome"
    assert third.text == "turn 3"


def test_events_of_a_resumed_session_come_whole_and_in_order() -> None:
    async def scene() -> list[Event]:
        log = await left_after_two_asks()
        async with Runtime(log, model=ScriptedModel(echo)) as runtime:
            session = await runtime.resume(NAME, Agent("host"))

            async def watch() -> list[Event]:
                return [event async for event in session.events()]

            watching = asyncio.create_task(watch())
            await session.ask("three")
            await session.close()
            return await watching

    events = asyncio.run(scene())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert sum(isinstance(event.body, Resumed) for event in events) == 1


def test_a_session_without_an_ask_has_no_outcome_to_wait_for() -> None:
    async def scene() -> Outcome:
        async with Runtime(await log_of([]), model=ScriptedModel(echo)) as runtime:
            session = await runtime.resume(NAME, Agent("host"))
            with pytest.raises(MisuseError, match="nothing was asked"):
                _ = session.outcome
            return await session.ask("hello")

    assert asyncio.run(scene()).text == "turn 1"


def test_cancelling_a_task_that_waits_for_the_outcome_does_not_cancel_the_ask() -> None:
    async def scene() -> Outcome:
        going = asyncio.Event()

        async def slow(request: ModelRequest) -> Step:
            await going.wait()
            return say("slowly")

        async with Runtime(":memory:", model=ScriptedModel(slow)) as runtime:
            session = await runtime.open(Agent("host"))
            asking = asyncio.create_task(session.ask("go"))
            await asyncio.sleep(0)
            waiting = asyncio.ensure_future(session.outcome)
            waiting.cancel()
            going.set()
            return await asking

    assert asyncio.run(scene()).text == "slowly"


# --- time and limits --------------------------------------------------------------


async def left_with_a_deadline(host: Agent) -> list[Event]:
    """Make a session with a deadline of five seconds that died long ago, in its first model call."""
    log = MemoryLog()
    async with Runtime(log, model=ScriptedModel(echo)) as runtime:
        session = await runtime.open(host, session_id=NAME)
        await session.ask("go", limits=Limits(deadline_s=5))
    events = recording(log).events
    cut = next(e.seq for e in events if isinstance(e.body, ModelReplied))
    return [Event(e.seq, 1_000, e.sender, e.recipient, e.cause, e.body) for e in events[: cut - 1]]


def test_a_deadline_counts_while_no_process_runs_the_session() -> None:
    async def never(request: ModelRequest) -> Step:
        await asyncio.Event().wait()
        raise AssertionError

    events = asyncio.run(left_with_a_deadline(Agent("host")))
    outcome, _ = asyncio.run(goes_on(events, Agent("host"), ScriptedModel(never)))
    assert outcome.kind == "deadline"


def test_a_deadline_can_be_extended() -> None:
    async def scene() -> Outcome:
        log = await log_of(await left_with_a_deadline(Agent("host")))
        async with Runtime(log, model=ScriptedModel(echo)) as runtime:
            session = await runtime.resume(NAME, Agent("host"), extend=10**9)
            return await session.outcome

    assert asyncio.run(scene()).text == "turn 1"


# --- other agents than before -----------------------------------------------------


def test_changed_agents_are_refused_with_their_differences() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    async def scene() -> tuple[str, ...]:
        log = await left_after_two_asks()
        changed = Agent("host", tools=[look], instructions="Be brief.", limits=Limits(max_iterations=7))
        async with Runtime(log, model=ScriptedModel(echo)) as runtime:
            before = await log.head(NAME)
            with pytest.raises(AgentsChanged, match="accept_changes") as refused:
                await runtime.resume(NAME, changed)
            assert await log.head(NAME) == before
            session = await runtime.resume(NAME, changed, accept_changes=True)
            await session.ask("three")
            await session.close()
        bodies = [event.body for event in recording(log).events]
        (resumed,) = [body for body in bodies if isinstance(body, Resumed)]
        assert b"Be brief." in bytes(resumed.profiles[0])
        recording(log).verify().check()
        return refused.value.differences

    assert asyncio.run(scene()) == (
        "host: its instructions changed",
        "host: has tools now: look",
        "host: limit max_iterations was None, is 7",
    )


def test_a_tool_that_is_gone_gives_the_running_agent_an_error_and_no_crash() -> None:
    host, _, policy = deeds("write")
    events = asyncio.run(recorded(host, ScriptedModel(policy)))
    cut = next(e.seq for e in events if isinstance(e.body, CallTool))

    async def scene() -> Outcome:
        log = await log_of(events[:cut])
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.resume(NAME, Agent("host"), accept_changes=True)
            return await session.outcome

    assert asyncio.run(scene()).text == "ready"


# --- what cannot be resumed -------------------------------------------------------


def assert_refused(events: list[Event] | None, match: str, error: type[Exception]) -> None:
    async def scene() -> None:
        log = await log_of(events or [])
        async with Runtime(log, model=ScriptedModel(echo)) as runtime:
            with pytest.raises(error, match=match):
                await runtime.resume(NAME if events is not None else "nobody", Agent("host"))

    asyncio.run(scene())


def test_an_unknown_session_is_refused() -> None:
    assert_refused(None, "callboard sessions", SessionNotFound)


def test_a_closed_session_is_refused() -> None:
    events = asyncio.run(recorded(Agent("host"), ScriptedModel(echo)))
    assert_refused(events, "is closed", SessionEnded)


def test_a_session_that_runs_here_is_refused() -> None:
    async def scene() -> None:
        async with Runtime(":memory:", model=ScriptedModel(echo)) as runtime:
            session = await runtime.open(Agent("host"))
            with pytest.raises(SessionBusy, match="runs in this process"):
                await runtime.resume(session.session_id, Agent("host"))

    asyncio.run(scene())


def test_a_session_is_resumed_once_at_a_time() -> None:
    async def scene() -> list[type]:
        log = await left_after_two_asks()
        async with Runtime(log, model=ScriptedModel(echo)) as runtime:
            both = (runtime.resume(NAME, Agent("host")), runtime.resume(NAME, Agent("host")))
            found = await asyncio.gather(*both, return_exceptions=True)
        return [type(one) for one in found]

    assert asyncio.run(scene()) == [Session, SessionBusy]


def test_a_log_that_the_code_contradicts_is_refused() -> None:
    events = asyncio.run(recorded(Agent("host"), ScriptedModel(echo)))
    at = next(place for place, e in enumerate(events) if isinstance(e.body, Finished))
    e = events[at]
    events[at] = Event(e.seq, e.at, e.sender, e.recipient, e.cause, Finished("answered", "something else"))
    assert_refused(events[: at + 1], "callboard verify", Diverged)


def test_a_supervisor_that_raises_again_is_reported_and_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(state: object, event: Event) -> object:
        if isinstance(event.body, Resumed):
            raise MemoryError("Boom")
        return step(state, event)  # type: ignore[arg-type]  # the state and the event of this step

    monkeypatch.setattr("callboard.actors.session.core.step", broken)
    events = asyncio.run(recorded(Agent("host"), ScriptedModel(echo)))
    assert_refused(events[:4], "MemoryError: Boom; nothing was added", SessionFailed)


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "log.db"

    async def scene() -> None:
        async with Runtime(path, model=ScriptedModel(echo)) as runtime:
            await runtime.run(Agent("host"), "go", session_id=NAME)
        with sqlite3.connect(path) as connection:
            connection.execute(
                "UPDATE events SET body = replace(body, 'go', 'no') WHERE body LIKE '%\"Ask\"%'"
            )
            connection.execute("DELETE FROM events WHERE body LIKE '%SessionClosed%'")
            connection.execute("UPDATE sessions SET head = head - 1")
        connection.close()
        async with Runtime(path, model=ScriptedModel(echo)) as runtime:
            with pytest.raises(CorruptLog, match="does not match its digest"):
                await runtime.resume(NAME, Agent("host"))

    asyncio.run(scene())


@table("extend", [-1, float("nan"), float("inf"), "1", True])
def test_an_extension_is_a_number_of_seconds(extend: float) -> None:
    async def scene() -> None:
        async with Runtime(":memory:", model=ScriptedModel(echo)) as runtime:
            with pytest.raises(MisuseError, match="seconds"):
                await runtime.resume(NAME, Agent("host"), extend=extend)

    asyncio.run(scene())


# --- strict spending --------------------------------------------------------------


def test_with_strict_spending_every_model_call_is_on_disk_before_it_is_made() -> None:
    async def scene() -> list[bool]:
        seen: list[bool] = []
        log = MemoryLog()

        async def policy(request: ModelRequest) -> Step:
            rows = await log.read(NAME)
            seen.append(sum(b'"CallModel"' in row.body for row in rows) == request.turn)
            return calls(call("nothing")) if request.turn < 3 else say("done")

        async with Runtime(log, model=ScriptedModel(policy), strict_spending=True) as runtime:
            await runtime.run(Agent("host"), "go", session_id=NAME)
        return seen

    assert asyncio.run(scene()) == [True, True, True]
