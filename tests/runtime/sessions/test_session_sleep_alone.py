"""The sleep of a session with parts that only record: when it may sleep, and who waits for what."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError, StoreFailed
from callboard.actors.session.shared_state import NO_STATE
from callboard.runtime.log.protocol import EMPTY, Head
from callboard.runtime.sessions.session_sleep import CUT_OFF_S, Rest, SessionSleep, Slept
from tests.tables import table

END = Head(7, b"end")


class Sleeper(SessionSleep):
    """A session of which nothing but its sleep is there. done: its actions, in order."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.may_sleep = True
        self.durable: Callable[[], Awaitable[Head]] = self._durable
        self.wake: Callable[[Any], Awaitable[None]] = self._woken
        rounds = SimpleNamespace(
            add=lambda look: self.done.append("idle"), remove=lambda look: self.done.append("busy")
        )
        super().__init__("s", Rest(rounds, lambda session: self.wake(session)))  # type: ignore[arg-type]  # a stand-in
        self._on_sleep = lambda: self.done.append("asleep" if self._is_asleep else "awake")

    def _check_open(self) -> None:
        self.done.append("checked")

    def _may_sleep(self) -> bool:
        return self.may_sleep

    def begin(self) -> "Sleeper":
        """Connect live parts."""
        self.board = SimpleNamespace(
            error=None, seq=9, gate=SimpleNamespace(open={}, shared="shared"),
            running=set, stand_still=lambda: self.done.append("still"),
            cut_off=lambda: self.done.append("cut off"),
            durable=lambda: self.durable(), aclose=self._aclose, fail=self._fail,
        )  # fmt: skip
        approvals = SimpleNamespace(permissions=("permission",))
        self._connect(SimpleNamespace(board=self.board, hub="hub", approvals=approvals))  # type: ignore[arg-type]  # a stand-in
        return self

    async def _woken(self, session: object) -> None:
        assert session is self
        self.begin()

    async def _durable(self) -> Head:
        await asyncio.sleep(0)
        return END

    async def _aclose(self, patience_s: float) -> None:
        self.done.append(patience_s)

    def _fail(self, error: Exception) -> None:
        self.done.append(error)
        self.board.error = error


def run(work: Callable[[], Awaitable[None]]) -> list[str]:
    """Run a test. Return what the event loop complained of."""
    said: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: said.append(context["message"])
        )
        async with asyncio.timeout(20):
            await work()

    asyncio.run(main())
    return said


async def passes(count: int = 8) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_session_that_falls_asleep_leaves_memory_and_keeps_its_head() -> None:
    async def work() -> None:
        one = Sleeper()
        assert (one._slept, one._is_asleep, one.seq, one._has_failed) == (
            Slept(EMPTY, (), NO_STATE),
            True,
            0,
            False,
        )
        one.begin()
        parts = one._live
        assert parts is not None
        found: Any = (one._hub, one._approval_port, one._board)
        assert found == ("hub", parts.approvals, one.board)
        assert (one.id, one._is_asleep, one.seq) == ("s", False, 9)
        one._sleep_if_idle()
        await passes()
        assert one.done == ["busy", "still", "cut off", CUT_OFF_S, "asleep"]
        assert one._slept == Slept(END, ("permission",), "shared")  # type: ignore[arg-type]  # a stand-in
        assert (one._is_asleep, one.seq, one._moving) == (True, 7, None)
        one._sleep_if_idle()
        await passes()
        assert len(one.done) == 5, "it sleeps already"

    run(work)


@table("why", ["used", "may not", "open", "running", "on its way"])
def test_a_session_in_use_stays_awake(why: str) -> None:
    async def work() -> None:
        one = Sleeper().begin()
        one.may_sleep = why != "may not"
        one.board.gate.open = {1: "request"} if why == "open" else {}
        one.board.running = lambda: {"task"} if why == "running" else set()
        if why == "on its way":
            one._moving = one._moves(asyncio.sleep(0.001))
        if why == "used":
            async with one._in_use() as live:
                assert live is one._live
                one._sleep_if_idle()
                assert one._moving is None
            async with one._hub_in_use() as hub:
                assert hub is one._hub
                one._sleep_if_idle()
        else:
            one._sleep_if_idle()
        await passes()
        assert one.done == []
        one.may_sleep, one.board.running = True, set
        one.board.gate.open = {}
        await one._settled()
        one._sleep_if_idle()
        await passes()
        assert one._is_asleep

    run(work)


def test_a_wait_for_the_end_of_a_move_ends_with_it() -> None:
    async def work() -> None:
        one = Sleeper().begin()
        one._sleep_if_idle()
        assert not one._is_asleep
        await one._settled()
        assert one._is_asleep
        assert one._on_its_way is None
        await one._settled()

    run(work)


def test_a_session_wakes_once_for_all_callers_and_a_later_move_is_not_forgotten() -> None:
    async def work() -> None:
        one = Sleeper()
        await asyncio.gather(one._awake(), one._awake())
        assert (one.done, one._users) == (["checked"], 0)
        assert one._moving is None
        done = one._moves(asyncio.sleep(0))
        later = one._moving = one._moves(asyncio.sleep(0.001))
        await done
        await asyncio.sleep(0)
        assert one._moving is later
        await later

    run(work)


@pytest.mark.parametrize("ends", ["raises", "cancelled"])
def test_a_wake_that_nobody_waits_for_any_more_fails_in_silence(ends: str) -> None:
    async def work() -> None:
        one = Sleeper()

        async def fails(session: object) -> None:
            raise OSError("no store") if ends == "raises" else asyncio.CancelledError

        one.wake = fails
        waiting = asyncio.create_task(one._awake())
        await asyncio.sleep(0)
        waiting.cancel()
        await passes()
        assert (one._moving, one._users) == (None, 0)
        del waiting
        gc.collect(1)

    assert run(work) == []


def test_a_session_that_cannot_fall_asleep_fails() -> None:
    async def work() -> None:
        one = Sleeper().begin()

        async def fails() -> Head:
            raise StoreFailed("disk full")

        one.durable = fails
        one._sleep_if_idle()
        await passes()
        assert isinstance(one._error, StoreFailed)
        assert one._has_failed
        assert not one._is_asleep
        assert "asleep" not in one.done

    run(work)


def test_a_session_belongs_to_its_event_loop() -> None:
    async def work() -> None:
        one = Sleeper()
        one._check_loop()

        async def elsewhere() -> None:
            with pytest.raises(MisuseError, match="session s belongs to the event loop"):
                one._check_loop()

        await asyncio.to_thread(asyncio.run, elsewhere())

    run(work)


def test_a_session_that_never_sleeps_counts_no_idle_time() -> None:
    async def work() -> None:
        one = Sleeper()
        one._note_idle()
        one._note_busy()
        assert one.done == ["idle", "busy"]
        one._rest = Rest(None, one.wake)
        one._note_idle()
        one._note_busy()
        assert one.done == ["idle", "busy"]

    run(work)
