"""An idle session leaves memory, and comes back by itself when it is used again."""

import asyncio
import gc
import shutil
import tracemalloc
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.addresses import APPROVALS
from callboard.actors.protocol.client_messages import Ask, AskEnded, Resumed, SessionClosed
from callboard.actors.protocol.errors import (
    Fenced,
    MisuseError,
    SessionBusy,
    SessionDetached,
    SessionEnded,
    SessionFailed,
    SessionNotFound,
    StoreFailed,
    UnknownName,
)
from callboard.actors.protocol.events import Event
from callboard.actors.session.permissions import Permission
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Head
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.stream_items import Snapshot
from callboard.runtime.tools.tool import tool
from tests.tables import table
from tests.waiting import until

NAME = "one"
HOST = Agent("host")
IDLE_S = 0.03


def a_runtime(log: "MemoryLog | Path", idle_s: float | None = IDLE_S, **more: Any) -> Runtime:
    return Runtime(log, model=ScriptedModel(lambda request: say("done")), idle_s=idle_s, **more)


def kinds(log: MemoryLog, name: str = NAME) -> list[type]:
    """Return the kinds of the client's messages of a session, which must verify and break no rule."""
    recording = Recording.open(MemoryReader(log), name)
    recording.verify().check()
    events = list(recording.events)
    assert check_log(events) == []
    wanted = (Ask, AskEnded, Resumed, SessionClosed)
    return [type(event.body) for event in events if isinstance(event.body, wanted)]


async def sleeper(runtime: Runtime, asks: int = 1) -> Session:
    """Return a session that has fallen asleep."""
    session = await runtime.open(HOST, session_id=NAME)
    for number in range(asks):
        await session.ask("go", request_id=f"{number}")
    await until(lambda: session._is_asleep)
    return session


def test_a_session_that_came_back_asks_its_questions_at_its_new_board() -> None:
    async def scene() -> None:
        async with a_runtime(MemoryLog()) as runtime:
            session = await sleeper(runtime)
            await session.ask("next")
            assert session._board.ports[APPROVALS] is session._approval_port

    asyncio.run(scene())


@pytest.mark.parametrize("asks", [0, 1, 3])
def test_an_idle_session_leaves_memory_and_comes_back_with_the_next_ask(asks: int) -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            for number in range(asks):
                await session.ask("go", request_id=f"{number}")
            board = weakref.ref(session._board)
            assert runtime.stats().sessions == {"running": 0, "idle": 1, "asleep": 0, "failed": 0}
            await until(lambda: session._is_asleep)
            gc.collect()
            assert board() is None
            assert runtime.stats().sessions == {"running": 0, "idle": 0, "asleep": 1, "failed": 0}
            assert not runtime.live_sessions
            assert (session.id, session.activity) == (NAME, "asleep")
            assert kinds(log) == [Ask, AskEnded] * asks
            assert (await session.ask("next")).text == "done"
            assert runtime.live_sessions[NAME] is session
            assert kinds(log) == [*[Ask, AskEnded] * asks, Resumed, Ask, AskEnded]

    asyncio.run(scene())


def test_without_idle_s_a_session_stays() -> None:
    async def scene() -> None:
        async with a_runtime(MemoryLog(), None) as runtime:
            session = await runtime.open(HOST)
            await session.ask("go")
            await asyncio.sleep(3 * IDLE_S)
            assert session.activity == "idle"

    asyncio.run(scene())


@table("idle_s", [-1, 0, float("inf"), True, "1"])
def test_idle_s_is_a_number_of_seconds(idle_s: Any) -> None:
    with pytest.raises(MisuseError, match="idle_s"):
        a_runtime(MemoryLog(), idle_s)


def test_a_very_short_idle_time_holds_up_no_ask() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log, 0.000_1) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            for _ in range(5):
                assert (await session.ask("go")).is_ok
                await until(lambda: session._is_asleep)
            assert (await session.stream().__anext__()).kind == "snapshot"
        assert kinds(log).count(AskEnded) == 5

    asyncio.run(scene())


def test_a_sleeping_session_knows_its_outcomes_and_wakes_for_none_of_them() -> None:
    async def scene() -> None:
        async with a_runtime(MemoryLog()) as runtime:
            session = await sleeper(runtime, 2)
            assert (await session.ask("go", request_id="0")).request_id == "0"
            assert (await session.outcome).request_id == "1"
            assert not session.open_approvals
            assert not session.permissions()
            assert await session.cancel() is None
            assert session._is_asleep
            await session.ask("go", request_id="2")
            assert (await session.ask("go", request_id="0")).request_id == "0"
            assert (await session.outcome).request_id == "2"

    asyncio.run(scene())


# --- who keeps it awake -----------------------------------------------------------


def test_a_session_with_a_reader_a_running_ask_or_a_question_is_not_idle() -> None:
    async def scene() -> None:
        go_on = asyncio.Event()

        @tool(effect="write", approval="always")
        async def wait() -> str:
            """Wait."""
            await go_on.wait()
            return "done"

        model = ScriptedModel(lambda request: call("wait") if request.turn == 1 else say("done"))
        async with Runtime(MemoryLog(), model=model, idle_s=IDLE_S) as runtime:
            session = await runtime.open(Agent("host", tools=[wait]), session_id=NAME)
            for reader in (session.stream(), session.events(), session.text()):
                first = asyncio.ensure_future(anext(reader))
                await asyncio.sleep(3 * IDLE_S)
                assert session.activity == "idle"
                first.cancel()
                await asyncio.wait([first])
                await reader.aclose()  # type: ignore[union-attr]  # all three are generators
            asking = asyncio.ensure_future(session.ask("go"))
            await asyncio.sleep(3 * IDLE_S)
            assert session.activity == "running"
            assert await session.approve(session.open_approvals[0].seq)
            await asyncio.sleep(3 * IDLE_S)
            go_on.set()
            assert (await asking).is_ok
            await until(lambda: session._is_asleep)

    asyncio.run(scene())


async def _stream(session: Session) -> None:
    item = await anext(session.stream())
    assert isinstance(item, Snapshot)
    assert [ask.request_id for ask in item.asks] == ["0"]


async def _events(session: Session) -> None:
    assert isinstance((await anext(session.events())), Event)


async def _text(session: Session) -> None:
    text = asyncio.ensure_future(anext(session.text()))
    await until(lambda: not session._is_asleep)
    assert (await session.ask("next")).is_ok
    await text


async def _approvals(session: Session) -> None:
    asking = asyncio.ensure_future(anext(session.approvals()))
    await until(lambda: not session._is_asleep)
    asking.cancel()
    await asyncio.wait([asking])


async def _approve(session: Session) -> None:
    with pytest.raises(UnknownName):
        await session.approve(1)


async def _ask(session: Session) -> None:
    await session.ask("next")


async def _submit(session: Session) -> None:
    await session.submit("next")
    assert (await session.outcome).is_ok


@table("use", [_stream, _events, _text, _approvals, _approve, _submit])
def test_every_use_brings_it_back(use: Callable[[Session], Awaitable[None]]) -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log) as runtime:
            session = await sleeper(runtime)
            await use(session)
            assert kinds(log)[:3] == [Ask, AskEnded, Resumed]
            await until(lambda: session._is_asleep)

    asyncio.run(scene())


# --- at the same time ---------------------------------------------------------------


class SlowLog(MemoryLog):
    """A log whose reads and commits wait for `gate`, if there is one."""

    gate: asyncio.Event | None = None
    reads = 0

    async def checked(self, session_id: str, after: Head | None = None, limit: int = 10_000) -> list[Any]:
        self.reads += after is None
        if self.gate:
            await self.gate.wait()
        return await super().checked(session_id, after, limit)


def test_two_asks_at_once_wake_it_once() -> None:
    async def scene() -> None:
        log = SlowLog()
        async with a_runtime(log) as runtime:
            session = await sleeper(runtime)
            log.gate, log.reads = asyncio.Event(), 0
            same = [asyncio.ensure_future(session.ask("next", request_id="same")) for _ in range(2)]
            other = asyncio.ensure_future(session.ask("next"))
            gone = asyncio.ensure_future(session.ask("next"))
            await asyncio.sleep(IDLE_S)
            gone.cancel()
            log.gate.set()
            first, second = await asyncio.gather(*same)
            assert first is second
            with pytest.raises(SessionBusy, match="another ask"):
                await other
            assert log.reads == 1
        assert kinds(log) == [Ask, AskEnded, Resumed, Ask, AskEnded]

    asyncio.run(scene())


async def _set_tools(session: Session) -> None:
    await session.set_tools([], agent="host")


async def _revoke(session: Session) -> None:
    await session.revoke(7)


async def _tell(session: Session) -> None:
    await session.tell("host", "hurry")


async def _cancel_agent(session: Session) -> None:
    await session.cancel_agent("host")


@table("use", [_ask, _set_tools, _revoke, _tell, _cancel_agent])
def test_a_use_that_wakes_it_behind_a_close_says_that_it_has_ended(
    use: Callable[[Session], Awaitable[None]],
) -> None:
    async def scene() -> None:
        log = SlowLog()
        async with a_runtime(log) as runtime:
            session = await sleeper(runtime)
            session._slept = session._slept._replace(permissions=(Permission(7, "host", "pay"),))
            log.gate = asyncio.Event()
            closing = asyncio.ensure_future(session.close())
            await until(lambda: session._on_its_way is not None)
            using = asyncio.ensure_future(use(session))
            await asyncio.sleep(0)
            log.gate.set()
            with pytest.raises(SessionEnded):
                await using
            await closing
        assert kinds(log) == [Ask, AskEnded, Resumed, SessionClosed]

    asyncio.run(scene())


@table("passes", range(8))
def test_an_ask_while_it_falls_asleep_is_answered(passes: int) -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log, 60) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            await session.ask("go")
            session._sleep_if_idle()
            for _ in range(passes):
                await asyncio.sleep(0)
            assert (await session.ask("next")).is_ok
        assert kinds(log) == [Ask, AskEnded, Resumed, Ask, AskEnded]

    asyncio.run(scene())


@table("passes", range(0, 12, 2))
@table("is_waking", [False, True])
def test_a_detach_on_its_way_to_sleep_or_back_leaves_a_session_that_goes_on(
    passes: int, is_waking: bool
) -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log, 60) as runtime:
            session = await runtime.open(HOST, session_id=NAME)
            await session.ask("go")
            session._sleep_if_idle()
            if is_waking:
                await until(lambda: session._is_asleep)
            asking = asyncio.ensure_future(session.ask("next", request_id="next"))
            for _ in range(passes):
                await asyncio.sleep(0)
            await session.detach(grace_s=0)
            await asyncio.wait([asking])
            assert asking.exception() is None or isinstance(asking.exception(), SessionDetached)
            again = await runtime.resume(NAME, HOST)
            assert (await again.ask("next", request_id="next")).is_ok
        assert kinds(log).count(Ask) == 2

    asyncio.run(scene())


# --- its ends while it sleeps -------------------------------------------------------


def test_a_sleeping_session_is_detached_without_waking() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log) as runtime:
            session = await sleeper(runtime)
            head = await session.detach()
            assert head == await log.head(NAME)
            assert await session.detach() == head
            for use in (session.ask("next"), session.close(), anext(session.stream())):
                with pytest.raises(SessionDetached):
                    await use
            assert runtime.stats().sessions["asleep"] == 0
        assert kinds(log) == [Ask, AskEnded]

    asyncio.run(scene())


def test_a_sleeping_session_wakes_to_be_closed() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log) as runtime:
            async with runtime.open(HOST, session_id=NAME) as session:
                await session.ask("go")
                await until(lambda: session._is_asleep)
            assert await session.close() == await log.head(NAME)
            with pytest.raises(SessionEnded):
                await session.ask("next")
        assert kinds(log) == [Ask, AskEnded, Resumed, SessionClosed]

    asyncio.run(scene())


@pytest.mark.parametrize("cancel", [False, True])
def test_the_end_of_the_runtime_lets_it_sleep_on(cancel: bool) -> None:
    async def scene() -> None:
        log = MemoryLog()
        runtime = a_runtime(log)
        async with runtime:
            session = await sleeper(runtime)
            await runtime.aclose(cancel=cancel)
            with pytest.raises(SessionDetached):
                await session.ask("next")
        async with runtime, runtime.open(HOST, session_id=NAME, resume=True) as again:
            assert (await again.ask("next")).is_ok
        assert kinds(log) == [Ask, AskEnded, Resumed, Ask, AskEnded, SessionClosed]

    asyncio.run(scene())


def test_a_session_that_an_exception_has_left_is_closed_and_does_not_sleep() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log, cancel_delay_s=3 * IDLE_S) as runtime:
            with pytest.raises(RuntimeError):
                async with runtime.open(HOST, session_id=NAME):
                    raise RuntimeError("the block fails")
            await until(lambda: SessionClosed in kinds(log))
        assert kinds(log) == [SessionClosed]

    asyncio.run(scene())


def test_a_process_that_ends_while_it_sleeps_leaves_a_session_that_goes_on(tmp_path: Path) -> None:
    async def sleeps() -> None:
        async with a_runtime(tmp_path / "log.db") as runtime:
            await sleeper(runtime)
            for end in ("", "-wal"):  # what the disk has if the process ends now
                shutil.copy(f"{tmp_path / 'log.db'}{end}", f"{tmp_path / 'left.db'}{end}")

    async def goes_on() -> None:
        async with a_runtime(tmp_path / "left.db") as runtime, runtime.resume(NAME, HOST) as session:
            assert (await session.ask("go", request_id="0")).request_id == "0"
            assert (await session.ask("next")).is_ok

    asyncio.run(sleeps())
    asyncio.run(goes_on())


# --- it cannot come back ------------------------------------------------------------


async def _deleted(runtime: Runtime) -> type[Exception]:
    await runtime.delete(NAME)
    return SessionNotFound


async def _resumed_here(runtime: Runtime) -> type[Exception]:
    await runtime.resume(NAME, HOST)
    return SessionBusy


async def _resumed_and_left(runtime: Runtime) -> type[Exception]:
    await (await runtime.resume(NAME, HOST)).detach()
    return Fenced


async def _closed(runtime: Runtime) -> type[Exception]:
    await (await runtime.resume(NAME, HOST)).close()
    return SessionEnded


class Leases:
    """The leases of this process, as a log that several processes open keeps them. held: the sessions."""

    def __init__(self) -> None:
        self.held: set[str] = set()

    async def hold(self, session: str, host: str, *, steal: bool) -> str:
        """Take the lease of a session, which no other process has."""
        self.held.add(session)
        return ""

    def let_go(self, session: str) -> None:
        """Give the lease of a session back."""
        self.held.discard(session)

    def on_live(self, session: Session) -> None:
        """Keep a session that is live from now on: its lease holds."""


@pytest.mark.parametrize("happens", [_deleted, _resumed_here, _resumed_and_left, _closed])
def test_what_keeps_it_from_coming_back_is_raised_each_time(
    happens: Callable[[Runtime], Awaitable[type[Exception]]],
) -> None:
    async def scene() -> None:
        async with a_runtime(MemoryLog(), 60) as runtime:
            leases = runtime._live.leases = Leases()
            session = await runtime.open(HOST, session_id=NAME)
            await session.ask("go", request_id="0")
            session._sleep_if_idle()
            await until(lambda: session._is_asleep)
            error = await happens(runtime)
            for _ in range(2):
                with pytest.raises(error):
                    await session.ask("next")
                with pytest.raises(error):
                    await session.close()
                assert (NAME in leases.held) == (NAME in runtime._live), "another process may have it"
            assert (await session.ask("go", request_id="0")).is_ok

    asyncio.run(scene())


class FullLog(MemoryLog):
    """A log that takes nothing once it is full."""

    is_full = False

    async def append(self, batch: Any) -> list[Head | Exception]:
        if self.is_full:
            raise StoreFailed("the disk is full")
        return await super().append(batch)


def test_a_log_that_fails_when_it_wakes_fails_the_session() -> None:
    async def scene() -> None:
        log = FullLog()
        async with a_runtime(log) as runtime:
            session = await sleeper(runtime)
            log.is_full = True
            with pytest.raises(SessionFailed):
                await session.ask("next")
            assert session.activity == "failed"
            await asyncio.sleep(3 * IDLE_S)
            assert session.activity == "failed"

    asyncio.run(scene())


# --- open, and many ------------------------------------------------------------------


def test_open_returns_the_sleeping_session_and_one_that_nobody_holds_is_forgotten() -> None:
    async def scene() -> None:
        log = MemoryLog()
        async with a_runtime(log) as runtime:
            session = await sleeper(runtime)
            assert await runtime.open(HOST, session_id=NAME, resume=True) is session
            forgotten = weakref.ref(session)
            del session
            gc.collect()
            assert forgotten() is None
            assert runtime.stats().sessions["asleep"] == 0
            again = await runtime.open(HOST, session_id=NAME, resume=True)
            assert (await again.ask("go", request_id="0")).request_id == "0"
        assert kinds(log) == [Ask, AskEnded, Resumed]

    asyncio.run(scene())


def test_a_hundred_sleeping_sessions_cost_little() -> None:
    count = 100

    async def scene() -> int:
        async with a_runtime(MemoryLog(), 60) as runtime:

            async def asleep(number: int) -> list[Session]:
                sessions = [await runtime.open(HOST) for _ in range(number)]
                for session in sessions:
                    await session.ask("go")
                    session._sleep_if_idle()
                await until(lambda: all(one._is_asleep for one in sessions))
                gc.collect()
                return sessions

            await asleep(10)  # what the process makes once
            stored = tracemalloc.get_traced_memory()[0]
            held = await asleep(count)
            all_of_it = tracemalloc.get_traced_memory()[0] - stored
            assert runtime._starter is not None
            assert runtime._starter._rounds._timer is None  # type: ignore[union-attr]  # an open runtime has a starter
            assert len(held) == count
            held.clear()
            gc.collect()
            return all_of_it - (tracemalloc.get_traced_memory()[0] - stored)

    tracemalloc.start()
    try:
        each = asyncio.run(scene()) / count
    finally:
        tracemalloc.stop()
    assert each < 10_000, each
