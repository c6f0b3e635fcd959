import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.scheduling import run_queue as loop_parts
from callboard.runtime.scheduling.run_queue import (
    LET_IN_MAX,
    PASS_MESSAGES_MAX,
    Gate,
    LeanInbox,
    LoopInbox,
    StopFlag,
    loop_for,
    run_queue_of,
)


def take_all(queue: deque[Any], messages_max: int) -> int:
    taken = min(len(queue), messages_max)
    for _ in range(taken):
        queue.popleft()()
    return taken


def raised_in_the_loop() -> list[object]:
    """Collect the exceptions that callbacks of the running loop raise from now on."""
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    return told


def test_a_loop_has_one_rota_and_a_closed_loop_none() -> None:
    async def main() -> None:
        run_queue = run_queue_of(asyncio.get_running_loop())
        assert run_queue_of(asyncio.get_running_loop()) is run_queue

    for _ in range(3):
        asyncio.run(main())
        assert len([loop for loop in loop_parts._run_queues if loop.is_closed()]) == 1


def test_an_inbox_is_in_order_and_waits_until_it_is_opened() -> None:
    async def main() -> None:
        inbox, seen = LoopInbox(), list[int]()
        for number in range(3):
            inbox.put(lambda number=number: seen.append(number))
        await asyncio.sleep(0)
        assert (inbox.empty(), seen) == (False, [])
        inbox.open(asyncio.get_running_loop(), take_all)
        await asyncio.sleep(0)
        assert (inbox.empty(), seen) == (True, [0, 1, 2])

    asyncio.run(main())


def test_turns_without_messages_are_bounded_too() -> None:
    async def main() -> None:
        turns = list[int]()

        def start(queue: deque[Any], messages_max: int) -> int:
            turns.append(messages_max)
            return 0

        for _ in range(PASS_MESSAGES_MAX + 1):
            LoopInbox().open(asyncio.get_running_loop(), start)
        await asyncio.sleep(0)
        assert turns == list(range(PASS_MESSAGES_MAX, 0, -1))
        await asyncio.sleep(0)
        assert len(turns) == PASS_MESSAGES_MAX + 1

    asyncio.run(main())


def test_a_worker_that_raises_is_called_again_for_the_messages_left() -> None:
    async def main() -> None:
        loop, reported, seen = asyncio.get_running_loop(), raised_in_the_loop(), list[str]()
        inbox, other = LoopInbox(), LoopInbox()
        inbox.open(loop, take_all)
        other.open(loop, take_all)

        def fail() -> None:
            raise ValueError("no")

        inbox.put(fail)
        inbox.put(lambda: seen.append("rest"))
        other.put(lambda: seen.append("other"))
        await asyncio.sleep(0.001)
        assert ([str(error) for error in reported], seen) == (["no"], ["other", "rest"])

    asyncio.run(main())


def test_a_post_of_another_thread_wakes_an_idle_loop() -> None:
    async def main() -> None:
        inbox, woken = LoopInbox(), asyncio.get_running_loop().create_future()
        inbox.open(asyncio.get_running_loop(), take_all)
        threading.Timer(0.01, inbox.put, [lambda: woken.set_result(threading.current_thread())]).start()
        assert await asyncio.wait_for(woken, 5) is threading.main_thread()

    asyncio.run(main())


class Foreign:
    """The loop of another thread, which is so quick that a pass is over when the call returns."""

    def __init__(self) -> None:
        self.passes = 0
        self.has_ended = False

    def is_closed(self) -> bool:
        return self.has_ended

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        self.passes += 1
        call()


class Watched(deque[Any]):
    """A queue beside which another thread acts, just when it is looked at for the nth time."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        super().__init__()
        self.looks, self.at, self.act = 0, at, act

    def __bool__(self) -> bool:
        was_filled = len(self) > 0
        self.looks += 1
        if self.looks == self.at:
            self.act()
        return was_filled


@pytest.fixture
def foreign() -> Iterator[Any]:
    loop = Foreign()
    yield loop
    loop.has_ended = True


def test_a_post_to_the_loop_of_another_thread_is_handled_however_quick_that_is(foreign: Any) -> None:
    inbox, seen = LoopInbox(), list[int]()
    inbox.open(foreign, take_all)
    for number in (1, 2):
        inbox.put(partial(seen.append, number))
        assert seen[-1:] == [number]


def test_a_post_at_the_end_of_a_turn_or_of_a_pass_is_handled(foreign: Any) -> None:
    inbox, other, seen = LoopInbox(), LoopInbox(), list[str]()
    inbox.open(foreign, take_all)
    inbox._queue = Watched(1, lambda: inbox.put(partial(seen.append, "turn")))
    inbox.put(partial(seen.append, "first"))
    assert seen == ["first", "turn"]
    other.open(foreign, take_all)
    run_queue = run_queue_of(foreign)
    run_queue._passed = Watched(2, lambda: other.put(partial(seen.append, "pass")))
    inbox.put(partial(seen.append, "last"))
    assert seen[2:] == ["last", "pass"]


def test_a_run_queue_that_is_held_makes_its_pass_when_it_is_released(foreign: Any) -> None:
    inbox, seen, run_queue = LoopInbox(), list[int](), run_queue_of(foreign)
    inbox.open(foreign, take_all)
    assert [run_queue.hold(), run_queue.hold()] == [True, False]
    made = foreign.passes
    inbox.put(partial(seen.append, 1))
    assert (seen, foreign.passes) == ([], made)
    run_queue.release()
    assert (seen, foreign.passes) == ([1], made)
    assert run_queue.hold() is True


def test_a_post_that_makes_an_inbox_ready_on_a_closed_loop_raises() -> None:
    async def main() -> LoopInbox:
        inbox = LoopInbox()
        inbox.open(asyncio.get_running_loop(), take_all)
        await asyncio.sleep(0)
        return inbox

    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(main()).put(print)


def test_a_stop_flag_wakes_the_threads_that_wait_for_it_and_no_other() -> None:
    flag, other = StopFlag(), StopFlag()
    woken = list[bool]()
    thread = threading.Thread(target=lambda: woken.append(flag.wait(5)))
    thread.start()
    other.set()
    assert not flag.is_set()
    assert flag.wait(0.01) is False
    flag.set()
    thread.join()
    assert woken == [True]
    assert flag.wait() is True
    flag.clear()
    assert flag.wait(0) is False
    assert "unset" in repr(flag)


def test_a_gate_lets_all_through_once_it_is_open() -> None:
    async def main() -> None:
        gate = Gate()

        async def wait() -> bool:
            await gate
            return gate.is_open

        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        gate.open()
        assert await asyncio.gather(*waiting, wait()) == [True] * 4
        assert not gate._waiters

    asyncio.run(main())


def test_a_task_that_gives_up_while_a_gate_opens_elsewhere_does_no_harm() -> None:
    async def main() -> None:
        reported = list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        gate = Gate()

        async def wait() -> None:
            await gate

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        opener = threading.Thread(target=gate.open)
        opener.start()
        opener.join()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (waiting.cancelled(), reported) == (True, [])

    asyncio.run(main())


def test_a_gate_forgets_the_tasks_of_a_loop_that_is_closed() -> None:
    gate = Gate()
    loop = asyncio.new_event_loop()
    waiting = gate.__await__()
    loop.run_until_complete(_step(waiting))
    loop.close()
    gate.open()
    waiting.close()
    assert gate.is_open


async def _step(waiting: Any) -> None:
    next(waiting)


def test_a_loop_is_found_where_one_runs_and_asked_for_where_none_does() -> None:
    async def main() -> None:
        assert loop_for(object, None) is asyncio.get_running_loop()

    asyncio.run(main())
    with pytest.raises(
        MisuseError, match="object: no event loop is running here; start the actor inside one"
    ):
        loop_for(object, None)


def test_what_can_wait_is_done_when_no_actor_has_a_message_and_in_its_order() -> None:
    async def main() -> None:
        run_queue, inbox, seen = run_queue_of(asyncio.get_running_loop()), LoopInbox(), list[str]()
        inbox.open(asyncio.get_running_loop(), take_all)
        await asyncio.sleep(0)
        run_queue.when_idle(lambda: seen.append("at once"))
        assert seen == ["at once"]

        def more() -> None:
            seen.append("let in")
            inbox.put(lambda: seen.append("what it led to"))

        inbox.put(lambda: seen.append("first"))
        run_queue.when_idle(more)
        for _ in range(LET_IN_MAX - 1):
            run_queue.when_idle(lambda: seen.append("as well"))
        run_queue.when_idle(lambda: seen.append("last"))
        inbox.put(lambda: seen.append("second"))
        await asyncio.sleep(0)
        as_well = ["as well"] * (LET_IN_MAX - 1)
        assert seen[1:] == ["first", "second", "let in", *as_well, "what it led to", "last"]

    asyncio.run(main())


def test_what_waits_is_not_done_all_in_one_pass() -> None:
    async def main() -> None:
        run_queue, inbox, done = run_queue_of(asyncio.get_running_loop()), LoopInbox(), list[int]()
        inbox.open(asyncio.get_running_loop(), take_all)
        for number in range(PASS_MESSAGES_MAX + 10):
            run_queue.when_idle(partial(done.append, number))
        await asyncio.sleep(0)
        assert len(done) == PASS_MESSAGES_MAX - 1  # the actor's start took a turn
        await asyncio.sleep(0)
        assert done == list(range(PASS_MESSAGES_MAX + 10))

    asyncio.run(main())


def test_what_waits_is_done_though_something_before_it_raised() -> None:
    async def main() -> None:
        told = raised_in_the_loop()
        run_queue, inbox, done = run_queue_of(asyncio.get_running_loop()), LoopInbox(), list[str]()
        inbox.open(asyncio.get_running_loop(), take_all)
        run_queue.when_idle(lambda: done.append(str(1 // 0)))
        run_queue.when_idle(lambda: done.append("behind it"))
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == ["behind it"]
        assert [type(error) for error in told] == [ZeroDivisionError]

    asyncio.run(main())


def test_the_end_of_a_pass_is_when_no_actor_has_a_message_and_before_anything_is_let_in() -> None:
    async def main() -> None:
        run_queue, inbox, seen = run_queue_of(asyncio.get_running_loop()), LoopInbox(), list[str]()
        inbox.open(asyncio.get_running_loop(), take_all)
        await asyncio.sleep(0)

        def handled(name: str, leads_to: str = "") -> None:
            seen.append(name)
            run_queue.at_end(lambda: seen.append(f"said by {name}"))
            if leads_to:
                inbox.put(partial(handled, leads_to))

        inbox.put(partial(handled, "first", "third"))
        inbox.put(partial(handled, "second"))
        run_queue.when_idle(lambda: seen.append("let in"))
        await asyncio.sleep(0)
        assert seen[:3] == ["first", "second", "third"]
        assert seen[3:] == ["said by first", "said by second", "said by third", "let in"]
        run_queue.at_end(lambda: seen.append("said by a port"))
        assert len(seen) == 7, "in the next pass, not at once"
        await asyncio.sleep(0)
        assert seen[7:] == ["said by a port"]

    asyncio.run(main())


def test_a_pass_that_has_handled_enough_ends_though_there_are_more_messages() -> None:
    async def main() -> None:
        run_queue, inbox, seen = run_queue_of(asyncio.get_running_loop()), LoopInbox(), list[int]()
        inbox.open(asyncio.get_running_loop(), take_all)
        await asyncio.sleep(0)
        for _ in range(PASS_MESSAGES_MAX + 1):
            inbox.put(lambda: seen.append(0))
        run_queue.at_end(lambda: seen.append(1))
        await asyncio.sleep(0)
        assert seen == [0] * PASS_MESSAGES_MAX + [1]
        await asyncio.sleep(0)
        assert seen[-1] == 0

    asyncio.run(main())


def test_an_end_that_raises_keeps_no_other_from_its_own() -> None:
    async def main() -> None:
        told = raised_in_the_loop()
        run_queue, done = run_queue_of(asyncio.get_running_loop()), list[str]()
        run_queue.at_end(lambda: done.append("before it"))
        run_queue.at_end(lambda: done.append(str(1 // 0)))
        run_queue.at_end(lambda: done.append("behind it"))
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == ["before it", "behind it"]
        assert [type(error) for error in told] == [ZeroDivisionError]

    asyncio.run(main())


# --- LeanInbox ------------------------------------------------------------------------


def test_a_lean_inbox_hands_over_messages_from_any_thread_in_order_and_is_empty_afterwards() -> None:
    async def run() -> None:
        inbox, seen = LeanInbox(), list[object]()

        def work(queue: deque[object], messages_max: int) -> int:
            count = min(len(queue), messages_max)
            seen.extend(queue.popleft() for _ in range(count))
            return count

        inbox.put(0)
        inbox.open(asyncio.get_running_loop(), work)
        inbox.put(1)
        await asyncio.to_thread(lambda: deque(map(inbox.put, range(2, 200)), maxlen=0))
        await asyncio.sleep(0)  # the calls of the other thread come first
        await asyncio.sleep(0)  # then the turns that they asked for
        await asyncio.sleep(0)
        assert seen == list(range(200))
        assert inbox.empty()
        assert inbox._queue is LeanInbox()._queue, "all empty ones share one queue"

    asyncio.run(run())
