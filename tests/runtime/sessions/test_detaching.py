"""A polite end of a process loses nothing: its sessions are detached, and a resume goes on with them."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Ask, AskEnded, Resumed, SessionClosed
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import (
    MisuseError,
    SessionBusy,
    SessionDetached,
    SessionEnded,
    StoreFailed,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied, SchemaChecked, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, Head, Stored
from callboard.runtime.models.finishes import tell_usage
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import ScriptedModel, Step, call, fail, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.live_sessions import Opening
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.tool import Tool, tool
from tests.tables import table
from tests.virtual_clock import run_virtually
from tests.waiting import until

NAME = "one"
HOST = Agent("host")
DONE = Json(b'[{"type":"text","text":"done"}]')


def events_of(log: MemoryLog, name: str = NAME) -> list[Event]:
    """Return the events of a session, which must verify and break no rule."""
    recording = Recording.open(MemoryReader(log), name)
    recording.verify().check()
    events = list(recording.events)
    assert check_log(events) == []
    return events


def of(log: MemoryLog, kind: type, name: str = NAME) -> list[Event]:
    return [event for event in events_of(log, name) if isinstance(event.body, kind)]


class Slow:
    """A model that tells 7 tokens and then takes its time, unless `is_quick`."""

    def __init__(self, is_quick: bool = False, wait_s: float = 60.0) -> None:
        self.spec = ModelSpec("slow", 1_024)
        self.is_quick = is_quick
        self.wait_s = wait_s
        self.calls = 0
        self.began = asyncio.Event()

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        self.calls += 1
        self.began.set()
        tell_usage(on_text, Usage(input_tokens=7))
        if not self.is_quick:
            await asyncio.sleep(self.wait_s)
        return ModelAnswer(DONE, "end_turn", Usage(input_tokens=10, output_tokens=5))

    async def aclose(self) -> None: ...


def quick(**more: Any) -> ScriptedModel:
    return ScriptedModel(lambda request: say("done"), name="slow", **more)


async def goes_on(log: MemoryLog, model: object | None = None, host: Agent = HOST) -> Outcome:
    """Resume the session in another runtime, to the outcome of its unfinished ask."""
    async with (
        Runtime(log, model=model or quick()) as runtime,  # type: ignore[arg-type]  # any model of the test
        runtime.resume(NAME, host) as session,
    ):
        return await session.outcome


async def interrupted(log: MemoryLog, leave: Callable[[Runtime, Session], Awaitable[object]]) -> Slow:
    """Run an ask, and leave while the model works."""
    model = Slow()
    with contextlib.suppress(SessionDetached, asyncio.CancelledError, RuntimeError, ExceptionGroup):
        async with Runtime(log, model=model) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            asking = asyncio.ensure_future(session.ask("go", request_id="a"))
            await model.began.wait()
            await leave(runtime, session)
            await asking
    return model


async def _detach(runtime: Runtime, session: Session) -> None:
    await session.detach(grace_s=0)


async def _aclose(runtime: Runtime, session: Session) -> None:
    await runtime.aclose(grace_s=0)


async def _raise(runtime: Runtime, session: Session) -> None:
    raise RuntimeError("the block fails")


async def _cancel(runtime: Runtime, session: Session) -> None:
    asyncio.current_task().cancel()  # type: ignore[union-attr]  # there is one
    await asyncio.sleep(1)


async def _task_group(runtime: Runtime, session: Session) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(session.ask("go", request_id="a"))
        await asyncio.sleep(0)
        group.create_task(_raise(runtime, session))


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("leave", [_detach, _aclose, _raise, _cancel, _task_group])
def test_every_polite_end_of_a_process_leaves_a_session_that_goes_on(
    leave: Callable[[Runtime, Session], Awaitable[object]],
) -> None:
    async def scene() -> None:
        log = MemoryLog()
        task = asyncio.ensure_future(interrupted(log, leave))
        await asyncio.wait([task])
        (reply,) = of(log, ModelReplied)
        assert isinstance(reply.body, ModelReplied)
        assert (reply.body.status, reply.body.usage) == ("detached", Usage(input_tokens=7))
        assert not of(log, AskEnded) + of(log, SessionClosed)
        outcome = await goes_on(log)
        assert (outcome.kind, outcome.request_id, outcome.text) == ("answered", "a", "done")
        assert outcome.usage.unknown_calls == 0

    run_virtually(scene())


def test_a_normal_end_of_the_session_closes_it_and_of_the_runtime_does_not() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=quick()) as runtime:
            async with runtime.open(HOST, session_id="closed") as session:
                assert session.id == session.session_id == "closed"
            await runtime.open(HOST, session_id="idle")
        assert len(of(log, SessionClosed, "closed")) == 1
        assert not of(log, SessionClosed, "idle")

    run_virtually(scene())


@pytest.mark.parametrize("asks", [0, 1])
def test_an_idle_conversation_goes_on_in_another_process(asks: int) -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=quick()) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            for number in range(asks):
                await session.ask(f"{number}")
        async with Runtime(log, model=quick()) as runtime:
            session = await runtime.open(HOST, session_id=NAME, resume=True)
            assert (await session.ask("next")).is_ok
        assert len(of(log, Resumed)) == 1
        assert len(of(log, Ask)) == asks + 1

    run_virtually(scene())


@pytest.mark.parametrize("is_known", [False, True])
def test_callers_that_open_one_session_at_once_share_it(is_known: bool, tmp_path: Path) -> None:
    """A browser asks for its stream while its first question comes."""

    async def scene() -> None:
        log = tmp_path / "log.db"
        if is_known:
            async with Runtime(log, model=quick()) as runtime:
                await runtime.open(HOST, session_id=NAME)
        async with Runtime(log, model=quick()) as runtime:
            opening = [runtime.open(HOST, session_id=NAME, resume=True) for _ in range(5)]
            first, *others = await asyncio.gather(*opening)
            assert all(other is first for other in others)
            assert (await first.ask("hello")).is_ok
        kinds = [event.kind for event in Recording.open(log, NAME).events]
        assert (kinds.count("SessionOpened"), kinds.count("Resumed")) == (1, is_known)

    run_virtually(scene())


def test_a_caller_may_open_a_session_that_is_being_resumed(tmp_path: Path) -> None:
    """A service resumes all its sessions while the first requests come."""

    async def scene() -> None:
        async with Runtime(tmp_path / "log.db", model=Slow()) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            await session.submit("hello")
            await runtime.aclose(grace_s=0)
        async with Runtime(tmp_path / "log.db", model=quick()) as runtime:
            opening = runtime.resume(NAME, HOST), runtime.open(HOST, session_id=NAME, resume=True)
            resumed, opened = await asyncio.gather(*opening)
            assert resumed is opened
            assert (await opened.outcome).is_ok
            with pytest.raises(SessionBusy):
                await runtime.resume(NAME, HOST)

    run_virtually(scene())


# --- the grace ----------------------------------------------------------------------


def test_an_answer_within_the_grace_is_recorded_and_handled_by_the_resume() -> None:
    async def scene() -> None:
        log, model = MemoryLog(), Slow(wait_s=0.05)
        async with Runtime(log, model=model) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            asking = asyncio.ensure_future(session.ask("go"))
            await model.began.wait()
            head = await session.detach(grace_s=5)
        with pytest.raises(SessionDetached, match="await runtime"):
            await asking
        assert events_of(log)[-1].seq == head.seq
        (reply,) = of(log, ModelReplied)
        assert isinstance(reply.body, ModelReplied)
        assert reply.body.status == "ok"
        assert not of(log, AskEnded)
        assert (await goes_on(log, model)).is_ok
        assert model.calls == 1

    run_virtually(scene())


def acting(effect: Effect, ran: list[str]) -> tuple[Tool, ScriptedModel]:
    @tool(effect=effect)
    async def act() -> str:
        """Act."""
        ran.append("began")
        await asyncio.sleep(0.05)
        ran.append("ended")
        return "acted"

    def policy(request: ModelRequest) -> Step:
        return call("act") if request.turn == 1 else say(str(request.conversation[-1]))

    return act, ScriptedModel(policy)


@pytest.mark.parametrize(
    ("effect", "grace_s", "expected", "status"),
    [
        ("write", 5, ["began", "ended"], "ok"),
        ("write", 0, ["began"], "interrupted"),
        ("read", 0, ["began", "began", "ended"], "ok"),
        ("idempotent", 0, ["began", "began", "ended"], "ok"),
    ],
)
def test_a_tool_may_finish_within_the_grace_and_is_cut_off_after_it(
    effect: Effect, grace_s: float, expected: list[str], status: str
) -> None:
    async def scene() -> None:
        log, ran = MemoryLog(), list[str]()
        act, model = acting(effect, ran)
        host = Agent("host", tools=[act])
        async with Runtime(log, model=model) as runtime:
            session = await runtime.open(host, session_id=NAME)
            asking = asyncio.ensure_future(session.ask("go"))
            await until(lambda: ran)
            await runtime.aclose(grace_s=grace_s)
            with pytest.raises(SessionDetached):
                await asking
        assert (await goes_on(log, model, host)).is_ok
        assert ran == expected
        (returned,) = of(log, ToolReturned)
        assert isinstance(returned.body, ToolReturned)
        assert returned.body.status == status

    run_virtually(scene())


def test_an_impatient_second_cancellation_ends_the_grace() -> None:
    async def scene() -> None:
        log = MemoryLog()

        async def main() -> None:
            async with Runtime(log, model=Slow()) as runtime:
                session = await runtime.open(HOST, session_id=NAME)
                asyncio.ensure_future(session.ask("go")).add_done_callback(lambda task: task.exception())
                await asyncio.sleep(0.01)
                await runtime.aclose(grace_s=60)

        task = asyncio.ensure_future(main())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
        assert (await goes_on(log)).is_ok

    run_virtually(scene())


def test_a_detached_session_takes_no_further_call() -> None:
    async def scene() -> None:
        async with Runtime(":memory:", model=quick()) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            await session.detach()
            assert await session.cancel() is None
            for refused in (session.ask("go"), session.close()):
                with pytest.raises(SessionDetached, match=NAME):
                    await refused
            again = await runtime.resume(NAME, HOST)
            assert (await again.ask("go")).is_ok

    run_virtually(scene())


@pytest.mark.parametrize("grace_s", [-1, float("inf"), "soon", True])
def test_a_grace_that_is_no_time_is_refused(grace_s: object) -> None:
    async def scene() -> None:
        async with Runtime(":memory:", model=quick()) as runtime:
            session = await runtime.open(HOST)
            with pytest.raises(MisuseError, match="grace_s"):
                await session.detach(grace_s=grace_s)  # type: ignore[arg-type]  # a wrong value on purpose
            with pytest.raises(MisuseError, match="grace_s"):
                await runtime.aclose(grace_s=grace_s)  # type: ignore[arg-type]  # a wrong value on purpose

    run_virtually(scene())


# --- budgets and attempts -------------------------------------------------------------


def test_twenty_polite_stops_do_not_eat_the_budget() -> None:
    async def scene() -> None:
        def policy(request: ModelRequest) -> Step:
            return call("act") if request.turn < 3 else say("done")

        log, ran = MemoryLog(), list[str]()
        act, _ = acting("read", ran)
        host = Agent("host", tools=[act])
        needed = await _needs(host, ScriptedModel(policy, name="slow"))
        limits = Limits(tokens=needed * 11 // 10)
        for stop in range(20):
            async with Runtime(log, model=Slow()) as runtime:
                opening = (
                    runtime.resume(NAME, host) if stop else runtime.open(host, session_id=NAME, limits=limits)
                )
                session = await opening
                if not stop:
                    asyncio.ensure_future(session.ask("go")).add_done_callback(lambda task: task.exception())
                await asyncio.sleep(0.002)
                await runtime.aclose(grace_s=0)
        outcome = await goes_on(log, ScriptedModel(policy, name="slow"), host)
        assert outcome.status == "ok", outcome

    run_virtually(scene())


async def _needs(host: Agent, model: ScriptedModel) -> int:
    """Return the most tokens that the session needs at any time: spent, and the last bound."""
    log = MemoryLog()
    async with Runtime(log, model=model) as runtime:
        await runtime.run(host, "go", session_id=NAME)
    wishes = [event.body for event in of(log, TurnRequested)]
    replies = [event.body for event in of(log, ModelReplied)[:-1]]
    used = [reply.usage for reply in replies if isinstance(reply, ModelReplied)]
    spent = sum(usage.tokens for usage in used if usage)
    return spent + max(wish.need.tokens for wish in wishes if isinstance(wish, TurnRequested))


def test_five_stops_in_mid_call_and_then_an_overload_end_no_session() -> None:
    async def scene() -> None:
        log, said = MemoryLog(), list[int]()
        host = Agent("host", limits=Limits(max_model_attempts=2))
        for stop in range(5):
            async with Runtime(log, model=Slow()) as runtime:
                session = await (runtime.resume(NAME, host) if stop else runtime.open(host, session_id=NAME))
                if not stop:
                    asyncio.ensure_future(session.ask("go")).add_done_callback(lambda task: task.exception())
                await asyncio.sleep(0.002)
                await runtime.aclose(grace_s=0)

        def policy(request: ModelRequest) -> Step:
            said.append(request.attempt)
            return fail("overloaded_error", retry_after_s=0.001) if len(said) == 1 else say("done")

        outcome = await goes_on(log, ScriptedModel(policy, name="slow"), host)
        assert (outcome.kind, said) == ("answered", [6, 7])

    run_virtually(scene())


# --- callers ----------------------------------------------------------------------------


def test_a_run_that_its_caller_gives_up_leaves_no_session_open() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=Slow(), cancel_delay_s=0.02) as runtime:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(runtime.run(HOST, "go", session_id=NAME), 0.05)
            await until(lambda: not runtime._live.of(runtime._life))
        assert len(of(log, SessionClosed)) == 1
        (ended,) = of(log, AskEnded)
        assert isinstance(ended.body, AskEnded)
        assert ended.body.kind == "cancelled"

    run_virtually(scene())


async def _ask_and_cancel(session: Session, **how: Any) -> None:
    asking = asyncio.ensure_future(session.ask("go", **{"request_id": "a", **how}))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_an_ask_that_is_asked_again_in_time_goes_on() -> None:
    async def scene() -> None:
        async with Runtime(":memory:", model=Slow(wait_s=0.1), cancel_delay_s=0.03) as runtime:
            session = await runtime.open(HOST)
            await _ask_and_cancel(session)
            assert (await session.ask("go", request_id="a")).is_ok

    run_virtually(scene())


def test_an_ask_may_go_on_without_its_caller() -> None:
    async def scene() -> None:
        async with Runtime(":memory:", model=Slow(wait_s=0.1), cancel_delay_s=0) as runtime:
            session = await runtime.open(HOST)
            await _ask_and_cancel(session, on_cancel="detach")
            assert (await session.outcome).is_ok
            with pytest.raises(MisuseError, match="on_cancel"):
                await session.ask("go", on_cancel="stop")  # type: ignore[call-overload]  # a wrong value on purpose

    run_virtually(scene())


@pytest.mark.usefixtures("short_grace")
def test_a_runtime_that_stops_cancels_no_ask_of_a_cancelled_caller() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=Slow(), cancel_delay_s=0) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            runtime.stopping()
            await _ask_and_cancel(session)
            await asyncio.sleep(0.02)
        assert not of(log, AskEnded)
        assert (await goes_on(log)).is_ok

    run_virtually(scene())


def test_a_session_that_an_exception_leaves_is_closed_unless_it_is_used_again() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=quick(), cancel_delay_s=0.02) as runtime:
            for name in ("left", "kept"):
                with pytest.raises(RuntimeError):
                    async with runtime.open(HOST, session_id=name):
                        raise RuntimeError("the block fails")
            kept = await runtime.open(HOST, session_id="kept", resume=True)
            await asyncio.sleep(0.05)
            assert (await kept.ask("go")).is_ok
        assert len(of(log, SessionClosed, "left")) == 1
        assert not of(log, SessionClosed, "kept")

    run_virtually(scene())


# --- the end of the loop ----------------------------------------------------------------


FORGETFUL = """
import asyncio, sys
from callboard import Runtime
from tests.runtime.sessions.test_detaching import HOST, NAME, Slow

async def main():
    runtime = Runtime(sys.argv[1], model=Slow())
    await runtime.__aenter__()
    session = await runtime.open(HOST, session_id=NAME)
    asking = asyncio.ensure_future(session.ask("go"))
    await asyncio.sleep(0.05)
    return runtime, asking

asyncio.run(main())
"""
"""A program whose loop ends while an ask runs, and which never closes its runtime."""


@pytest.mark.slow
def test_the_end_of_the_loop_detaches_what_runs(tmp_path: Path) -> None:
    file = tmp_path / "log.db"
    command = [sys.executable, "-c", FORGETFUL, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")

    async def later() -> Outcome:
        async with Runtime(file, model=quick()) as runtime:
            session = await runtime.resume(NAME, HOST)
            return await session.outcome

    outcome = asyncio.run(later())
    assert outcome.is_ok
    assert outcome.usage.unknown_calls == 0
    assert outcome.usage.input_tokens > 7


@pytest.mark.usefixtures("short_grace")
def test_sigterm_ends_run_sync_politely(tmp_path: Path) -> None:
    class Stopping(Slow):
        async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
            signal.raise_signal(signal.SIGTERM)
            return await super().call(request, on_text)

    async def build() -> Stopping:
        return Stopping()

    with pytest.raises(SystemExit) as ended:
        Runtime(tmp_path / "log.db", model=asyncio.run(build())).run_sync(HOST, "go", session_id=NAME)
    assert ended.value.code == 143

    async def later() -> Outcome:
        async with Runtime(tmp_path / "log.db", model=quick()) as runtime:
            session = await runtime.resume(NAME, HOST)
            return await session.outcome

    assert asyncio.run(later()).is_ok


class Gated(MemoryLog):
    """A log that begins no session before it may; then it has been closed, if it `fails`."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.fails = fails
        self.asked, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.may_go_on.set()

    async def _wait(self) -> None:
        self.asked.set()
        await self.may_go_on.wait()
        if self.fails and self.asked.is_set():
            raise StoreFailed("the log is not open")

    async def create(self, *about: Any) -> int:
        await self._wait()
        return await super().create(*about)

    async def read(self, *about: Any) -> list[Stored]:
        await self._wait()
        return await super().read(*about)

    async def checked(self, *about: Any) -> list[Stored]:
        await self._wait()
        return await super().checked(*about)


OPENINGS: dict[str, Callable[[Runtime], Opening]] = {
    "open": lambda runtime: runtime.open(HOST),
    "open or resume": lambda runtime: runtime.open(HOST, session_id=NAME, resume=True),
    "resume": lambda runtime: runtime.resume(NAME, HOST),
    "reopen": lambda runtime: runtime.reopen(NAME, HOST),
    "fork": lambda runtime: runtime.fork(NAME, HOST, at=2),
}


@table("fails", [False, True])
@table("how", OPENINGS)
def test_a_session_that_is_opened_while_the_runtime_closes_is_detached(how: str, fails: bool) -> None:
    async def scene() -> None:
        log = Gated(False)
        async with Runtime(log, model=quick()) as runtime:
            await (await runtime.open(HOST, session_id=NAME)).ask("go")
        log.fails = fails
        log.asked.clear()
        log.may_go_on.clear()
        runtime = Runtime(log, model=quick())
        await runtime.__aenter__()
        opening = asyncio.ensure_future(OPENINGS[how](runtime))
        await log.asked.wait()
        closing = asyncio.create_task(runtime.aclose())
        if fails:
            await closing
        else:
            await asyncio.sleep(0)
        log.may_go_on.set()
        with pytest.raises(SessionDetached, match="was closed before"):
            await opening
        await closing
        log.fails = False
        assert (await goes_on_with_an_ask(log)).is_ok

    run_virtually(scene())


async def goes_on_with_an_ask(log: MemoryLog) -> Outcome:
    async with Runtime(log, model=quick()) as runtime:
        return await (await runtime.resume(NAME, HOST)).ask("again")


# --- closed sessions, places, deadlines -----------------------------------------------------


def test_a_closed_session_is_continued_by_reopen_only() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=quick()) as runtime:
            first = await runtime.run(HOST, "one", session_id=NAME)
            for refused in (runtime.resume(NAME, HOST), runtime.open(HOST, session_id=NAME, resume=True)):
                with pytest.raises(SessionEnded, match="reopen"):
                    await refused
            session = await runtime.reopen(NAME, HOST)
            assert (await session.ask("two")).is_ok
            head = await session.close()
        kinds = [event.kind for event in events_of(log)]
        assert kinds[first.head[0]] == "Resumed"
        assert kinds[first.head[0] - 1] == kinds[head.seq - 1] == "SessionClosed"
        ends = [event.body for event in of(log, SessionClosed)]
        first_end, last_end = (end.usage.tokens for end in ends if isinstance(end, SessionClosed))
        assert last_end > first_end > 0

    run_virtually(scene())


def test_a_session_stays_closed_when_a_late_answer_follows_its_end() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=quick()) as runtime:
            await runtime.run(HOST, "one", session_id=NAME)
        await log.open()
        epoch, head = await log.take_over(NAME)
        late = Event(head.seq + 1, 2**50, "schema", "supervisor", 1, SchemaChecked(1, "ok"))
        (added,) = await log.append([Append(NAME, head.seq, epoch, [late])])
        assert isinstance(added, Head)
        await log.close()
        async with Runtime(log, model=quick()) as runtime:
            for refused in (runtime.resume(NAME, HOST), runtime.open(HOST, session_id=NAME, resume=True)):
                with pytest.raises(SessionEnded, match="reopen"):
                    await refused
            assert [row.status async for row in runtime.sessions()] == ["closed"]
            session = await runtime.reopen(NAME, HOST)
            assert (await session.ask("two")).is_ok
            await asyncio.wait_for(session.close(), 5)

    run_virtually(scene())


def test_a_live_session_is_not_robbed_by_another_runtime_unless_it_is_told_to() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=quick()) as one, Runtime(log, model=quick()) as other:
            session = await one.open(HOST, session_id=NAME)
            with pytest.raises(SessionBusy, match="steal=True"):
                await other.resume(NAME, HOST)
            assert (await session.ask("mine")).is_ok
            stolen = await other.resume(NAME, HOST, steal=True)
            assert (await stolen.ask("theirs")).is_ok

    run_virtually(scene())


def test_a_session_that_was_fenced_frees_its_place() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=quick()) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            await session.ask("one")
            await log.take_over(NAME)
            with pytest.raises(Exception, match="resume"):
                await session.ask("two")
            again = await runtime.resume(NAME, HOST)
            assert (await again.ask("three")).is_ok
            await log.take_over(NAME)
            with pytest.raises(Exception, match="resume"):
                await again.ask("four")
            assert await runtime.delete(NAME) > 0  # it runs nowhere, so that nobody has to close it first

    run_virtually(scene())


@pytest.mark.parametrize(("counts", "kind"), [(True, "deadline"), (False, "answered")])
def test_downtime_counts_for_deadlines_unless_the_runtime_says_otherwise(counts: bool, kind: str) -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with Runtime(log, model=Slow()) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            asking = asyncio.ensure_future(session.ask("go", limits=Limits(deadline_s=0.5)))
            await asyncio.sleep(0.01)
            await session.detach(grace_s=0)
            with pytest.raises(SessionDetached):
                await asking
        await asyncio.sleep(0.5)
        async with Runtime(log, model=Slow(wait_s=0.02), deadline_counts_downtime=counts) as runtime:
            session = await runtime.resume(NAME, HOST)
            assert (await session.outcome).kind == kind

    run_virtually(scene())


def test_an_ask_whose_only_caller_leaves_is_cancelled_and_one_that_is_asked_again_is_not() -> None:
    async def run() -> list[str]:
        asked, ends = asyncio.Event(), list[str]()

        async def waits(request: ModelRequest) -> Step:
            asked.set()
            await asyncio.Event().wait()
            return say("never")

        async with Runtime(MemoryLog(), model=ScriptedModel(waits), cancel_delay_s=0.01) as runtime:
            for is_asked_again in (False, True):
                session = await runtime.open(Agent("host"))
                first = asyncio.create_task(session.ask("go", request_id="r"))
                asked.clear()
                await asked.wait()
                first.cancel()
                again = asyncio.create_task(session.ask("go", request_id="r")) if is_asked_again else None
                if is_asked_again:
                    await asyncio.sleep(0.03)
                else:
                    await until(lambda session=session: session.activity == "idle")  # type: ignore[misc]  # bound now
                ends.append(session.activity)
                await session.close()
                if again is not None:
                    ends.append((await again).kind)
                else:
                    ends.append((await session.outcome).kind)
        return ends

    assert run_virtually(run())[0] == ["idle", "cancelled", "running", "cancelled"]
