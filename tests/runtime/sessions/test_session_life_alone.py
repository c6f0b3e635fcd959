"""The life of a session with parts that only record: who ends it, once, and who is told."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Close
from callboard.actors.protocol.errors import Diverged, MisuseError, SessionDetached, StoreFailed
from callboard.runtime.log.protocol import EMPTY, Head
from callboard.runtime.sessions import session_life
from callboard.runtime.sessions.board import PATIENCE_S
from callboard.runtime.sessions.detaching import Grace, ProcessLife
from callboard.runtime.sessions.session_life import SessionLife
from callboard.runtime.sessions.session_sleep import CUT_OFF_S, Rest, Slept

END = Head(7, b"end")


class Rounds:
    """Rounds that only record."""

    def __init__(self, done: list[Any]) -> None:
        self.done = done

    def add(self, look: object) -> None:
        self.done.append("idle")

    def remove(self, look: object) -> None:
        self.done.append("busy")


class Life(SessionLife):
    """A session of which nothing but its life is there. done: its actions, in order."""

    def __init__(self, cancel_delay_s: float = 0.0) -> None:
        self.done: list[Any] = []
        self.wakes: list[BaseException | None] = []
        self.woken: asyncio.Future[None] | None = None  # a wake waits for it
        self.running: set[asyncio.Task[Any]] = set()
        self.writing: set[asyncio.Task[Any]] = set()
        rest = Rest(Rounds(self.done), self._woken)  # type: ignore[arg-type]  # a stand-in
        super().__init__("s", rest, ProcessLife(cancel_delay_s))
        self._on_release = lambda: self.done.append("released")
        self._on_waits = self._note
        self._on_goes_on = self._goes_on

    def _check_open(self) -> None:
        self.done.append("checked")

    def begin(self) -> "Life":
        """Connect live parts."""
        board: Any = SimpleNamespace(
            error=None, waits=None, is_held=False, seq=7,
            gate=SimpleNamespace(open={}),
            running=lambda: self.running, writing=lambda: self.writing,
            stand_still=lambda: self.done.append("still"),
            cut_off=lambda: self.done.append("cut off"),
            submit_for_client=self._submit, durable=self._durable, aclose=self._aclose,
        )  # fmt: skip
        hub = SimpleNamespace(end=lambda: self.done.append("hub ends"))
        self._connect(SimpleNamespace(board=board, hub=hub))  # type: ignore[arg-type]  # a stand-in
        self.board: Any = board
        return self

    async def _woken(self, session: object) -> None:
        error = self.wakes.pop(0) if self.wakes else None
        if error is not None:
            raise error
        if self.woken is not None:
            await self.woken
        self.begin()

    def _submit(self, message: object) -> None:
        self.done.append(message)
        if isinstance(message, Close):
            assert self._is_closing, "what the close starts may ask"
            self._end_at(END)

    async def _durable(self) -> Head:
        return END

    async def _aclose(self, patience_s: float) -> None:
        self.done.append(patience_s)

    async def _note(self, error: Diverged) -> None:
        self.done.append(error)

    async def _goes_on(self) -> None:
        self.done.append("goes on")

    def fail(self) -> None:
        """Let the log fail."""
        self.board.error = StoreFailed("disk full")
        self.board.on_failure(self.board.error)


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


def elsewhere(work: Callable[[], Awaitable[object]]) -> Awaitable[None]:
    """Do something on another event loop."""

    async def main() -> None:
        with pytest.raises(MisuseError, match="belongs to the event loop"):
            await work()

    return asyncio.to_thread(asyncio.run, main())


# --- closing ----------------------------------------------------------------------


def test_a_close_ends_all_that_the_session_has_in_this_process() -> None:
    async def work() -> None:
        life = Life().begin()
        assert await life.close() == END
        assert life.done == [Close(), "busy", "hub ends", PATIENCE_S, "released"]
        assert (life._is_closing, life._is_over) == (True, True)
        assert await life.close() == END, "and nothing more happens"
        assert len(life.done) == 5

    run(work)


def test_a_session_that_an_earlier_process_was_closing_is_not_closed_twice() -> None:
    async def work() -> None:
        life = Life().begin()
        life._is_closing = True
        closing = asyncio.create_task(life.close())
        await passes()
        assert life.done == []
        life._end_at(END)
        assert await closing == END

    run(work)


def test_a_session_that_failed_is_closed_without_a_word_to_its_log() -> None:
    async def work() -> None:
        life = Life().begin()
        life.board.error = StoreFailed("disk full")
        assert await life.close() == Head(0, b"")
        assert life.done == ["busy", "hub ends", PATIENCE_S, "released"]
        assert not life._is_closing

    run(work)


def test_a_failure_ends_readers_and_waiters_and_counts_no_idle_time() -> None:
    async def work() -> None:
        life = Life().begin()
        life._running = "r"
        life.fail()
        assert life.done == ["busy", "hub ends"]
        assert life._closed.result() == Head(0, b"")
        with pytest.raises(StoreFailed):
            await life._last

    run(work)


def test_an_outcome_that_nobody_waits_for_fails_in_silence() -> None:
    async def work() -> None:
        life = Life().begin()
        life._running = "r"
        life.fail()
        life._last = asyncio.get_running_loop().create_future()
        gc.collect(1)

    assert run(work) == []


def test_a_close_that_cannot_wake_the_session_can_be_tried_again() -> None:
    async def work() -> None:
        life = Life()
        life.wakes = [OSError("no store")]
        with pytest.raises(OSError, match="no store"):
            await life.close()
        assert life._closing is None
        assert await life.close() == END

    run(work)


def test_close_and_detach_belong_to_the_loop_of_the_session_even_after_the_end() -> None:
    async def work() -> None:
        life = Life().begin()
        await elsewhere(life.close)
        await elsewhere(life.detach)
        await life.close()
        await elsewhere(life.close)
        await elsewhere(life.detach)

    run(work)


# --- the end of a block ---------------------------------------------------------------


async def leave(life: Life, error: Exception | None = None) -> None:
    await life.__aexit__(type(error) if error else None, error, None)


def test_a_block_that_ends_well_or_in_a_failed_session_closes_it_at_once() -> None:
    async def work() -> None:
        for error in (None, ValueError("mine")):
            life = Life(60).begin()
            if error:
                life.fail()
            await leave(life, error)
            assert life._is_over
            assert life._lingering is None

    run(work)


@pytest.mark.parametrize("way", ["close", "detach", "stay"])
def test_a_session_that_an_exception_left_is_not_closed_again_once_it_was_ended_or_used(way: str) -> None:
    async def work() -> None:
        life = Life(60).begin()
        await leave(life, ValueError("mine"))
        timer = life._lingering
        assert timer is not None
        await elsewhere(life.close)
        assert not timer.cancelled(), "a call that is refused changes nothing"
        if way == "stay":
            life._stay()
        else:
            await getattr(life, way)()
        assert timer.cancelled()
        assert life._lingering is None
        assert life._is_over == (way != "stay")

    run(work)


@pytest.mark.parametrize("unless", ["", "is_ending", "is_over", "is_closing"])
def test_the_delay_closes_a_session_that_has_not_ended_yet(unless: str) -> None:
    async def work() -> None:
        life = Life().begin()
        await leave(life, ValueError("mine"))
        life._life.is_ending = unless == "is_ending"
        life._is_over = unless == "is_over"
        if unless == "is_closing":
            life._closing = asyncio.create_task(life._durable())
        before = life._closing
        await asyncio.sleep(0.002)
        assert life._lingering is None
        assert (life._closing is before) == bool(unless)
        assert life._may_sleep() == (unless == "is_ending")

    run(work)


@pytest.mark.parametrize("ends", ["raises", "cancelled"])
def test_a_close_after_the_delay_fails_in_silence(ends: str) -> None:
    async def work() -> None:
        life = Life()
        life.wakes = [OSError("no store") if ends == "raises" else asyncio.CancelledError()]
        await leave(life, ValueError("mine"))
        await asyncio.sleep(0.002)
        await passes()
        assert life._closing is None
        gc.collect(1)

    assert run(work) == []


def test_a_session_sleeps_only_while_nothing_runs_or_ends_in_it() -> None:
    async def work() -> None:
        life = Life().begin()
        assert life._may_sleep() is True
        for name, value in [
            ("_running", "r"), ("_is_over", True), ("_is_closing", True), ("_closing", object()),
            ("_lingering", object()), ("_detaching", object()),
        ]:  # fmt: skip
            before = getattr(life, name)
            setattr(life, name, value)
            assert life._may_sleep() is False
            setattr(life, name, before)
        assert life._may_sleep() is True
        life.fail()
        assert life._may_sleep() is False

    run(work)


# --- leaving ----------------------------------------------------------------------


def test_a_detach_leaves_the_session_and_tells_its_callers_last() -> None:
    async def work() -> None:
        life = Life().begin()
        life._running = "r"
        life._last.add_done_callback(lambda last: life.done.append("told"))
        assert await life.detach() == END
        await passes()
        assert life.done == ["still", "cut off", "busy", "hub ends", CUT_OFF_S, "released", "told"]
        with pytest.raises(SessionDetached):
            await life._last
        with pytest.raises(SessionDetached):
            await life.close()

    run(work)


@pytest.mark.parametrize("why", ["failed", "diverged"])
def test_callers_of_a_session_that_is_left_hear_the_reason(why: str) -> None:
    async def work() -> None:
        life = Life().begin()
        life._running = "r"
        error: Exception = StoreFailed("disk full") if why == "failed" else Diverged("s")
        if why == "failed":
            life.board.error = error
        life._diverged = Diverged("s") if why == "failed" else error  # type: ignore[assignment]  # a stand-in
        await life._detach(Grace(0))
        assert life._last.exception() is error

    run(work)


def test_a_detach_while_the_session_wakes_waits_for_that() -> None:
    async def work() -> None:
        life = Life()
        life.woken = asyncio.get_running_loop().create_future()
        waking = asyncio.create_task(life._awake())
        await asyncio.sleep(0)
        leaving = asyncio.create_task(life.detach())
        await passes()
        assert life.done == ["checked"]
        life.woken.set_result(None)
        assert await leaving == END
        assert "still" in life.done
        await waking

    run(work)


def test_a_detach_during_a_close_waits_for_the_close_only_if_no_ask_runs() -> None:
    async def work() -> None:
        for is_over, is_running, is_left in [(False, True, True), (True, True, False), (False, False, False)]:
            life = Life().begin()
            life._is_over = is_over
            life._running = "r" if is_running else ""
            life._closing = asyncio.create_task(asyncio.sleep(0, Head(1, b"closed")))
            assert await life.detach() == (END if is_left else Head(1, b"closed"))
            assert (life._detaching is not None) == is_left

    run(work)


def test_a_detach_of_a_sleeping_session_has_its_head() -> None:
    async def work() -> None:
        life = Life()
        life._slept = Slept(Head(3, b"slept"))
        assert await life.detach() == Head(3, b"slept")
        assert life.done == ["busy", "released"]

    run(work)


@pytest.mark.parametrize("before", ["", "detaching", "over"])
def test_work_that_others_cancelled_detaches_the_session_if_its_loop_lives_on(
    before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_life, "_LOOP_END_S", 0)

    async def work() -> None:
        life = Life().begin()
        life.running = {asyncio.create_task(asyncio.sleep(60))}
        life.board.on_cut_off()
        life._is_over = before == "over"
        first = life._detaching = asyncio.create_task(life._durable()) if before == "detaching" else None
        await asyncio.sleep(0.002)
        assert (life._detaching is first) == bool(before)
        assert ("cut off" in life.done) == (not before)
        for task in life.running:
            task.cancel()

    run(work)


# --- waiting for its code -------------------------------------------------------------


def test_a_session_that_was_told_to_crash_goes_on() -> None:
    async def work() -> None:
        life = Life()
        life._when_diverged = "crash"
        life.begin()
        assert life.board.on_diverged("host", "why") is False
        assert (life._diverged, life._detaching, life.board.is_held) == (None, None, False)

    run(work)


@pytest.mark.parametrize("before", ["hold", "detaching", "closing"])
def test_a_session_that_is_held_or_ends_stands_still_without_a_second_detach(before: str) -> None:
    async def work() -> None:
        life = Life()
        life._when_diverged = "hold" if before == "hold" else "wait"
        life.begin()
        life._is_closing = before == "closing"
        first = life._detaching = asyncio.create_task(life._durable()) if before == "detaching" else None
        assert life.board.on_diverged("host", "why") is True
        assert life._detaching is first
        assert life._diverged is None
        if before == "hold":
            assert life.board.is_held
            life._may_start_again()
            assert (life._when_diverged, life.board.is_held) == ("wait", False)
        else:
            assert not life.board.is_held

    run(work)


def test_a_session_waits_for_its_code_until_its_writing_calls_end_or_somebody_detaches_it() -> None:
    async def work() -> None:
        life = Life().begin()
        life._running = "r"
        call = asyncio.create_task(asyncio.sleep(60))
        life.writing = {call}
        assert life.board.on_diverged("host", "why") is True
        error = life._diverged
        assert isinstance(error, Diverged)
        assert life.board.waits is error
        await passes()
        assert life.done == ["still", error, "still"], "it stands still before the note is made"
        assert not life._detaching.done()  # type: ignore[union-attr]  # it is there by now
        leaving = asyncio.create_task(life._detach_within(grace := Grace(60)))
        await passes()
        assert not leaving.done(), "the call has the grace of the one who detaches"
        grace.end()
        assert await leaving == END
        assert "cut off" in life.done
        assert life._last.exception() is error
        call.cancel()

    run(work)


def test_a_store_that_cannot_note_the_wait_does_not_stop_it() -> None:
    async def work() -> None:
        life = Life().begin()

        async def fails(error: Diverged) -> None:
            raise StoreFailed("disk full")

        life._on_waits = fails
        life.board.on_diverged("host", "why")
        await passes(20)
        assert life._detaching.result() == END  # type: ignore[union-attr]  # it is there by now

    run(work)


@pytest.mark.parametrize("ends", ["raises", "cancelled"])
def test_a_wait_for_code_that_fails_is_silent(ends: str) -> None:
    async def work() -> None:
        life = Life().begin()

        async def fails() -> Head:
            raise OSError("disk full") if ends == "raises" else asyncio.CancelledError

        life.board.durable = fails
        life.board.on_diverged("host", "why")
        await passes(20)
        life._detaching = None
        gc.collect(1)

    assert run(work) == []


def test_two_callers_take_up_a_session_that_waits_for_its_code_once() -> None:
    async def work() -> None:
        life = Life().begin()
        first = life.board
        life.board.on_diverged("host", "why")
        life.done.clear()
        both = [asyncio.create_task(life._take_up_to_end()) for _ in range(2)]
        await asyncio.gather(*both)
        assert life.done.count("checked") == 1, "it wakes once"
        assert life.board is not first
        assert life.board.is_held
        assert (life._slept.head, life._diverged, life._detaching, life._writes) == (END, None, None, None)
        assert not life._last.done()
        assert not life._is_over
        life.done.clear()
        assert await life.close() == END
        assert life.done == ["goes on", Close(), "busy", "hub ends", PATIENCE_S, "released"]

    run(work)


def test_a_session_that_does_not_wait_for_its_code_is_not_taken_up() -> None:
    async def work() -> None:
        life = Life()
        await life._take_up_to_end()
        assert (life.done, life._slept.head) == ([], EMPTY)

    run(work)
