"""Work under way: given up, timed out, never begun."""

import asyncio
import contextvars
import gc
from collections.abc import Awaitable, Callable, Coroutine

import pytest

from callboard.runtime.ports import tasks
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.scheduling.run_queue import run_queue_of
from tests.virtual_clock import run_virtually


async def noted(work: Awaitable[None], seq: int, into: list[str]) -> None:
    try:
        await work
        into.append(f"{seq} done")
    except asyncio.CancelledError:
        into.append(f"{seq} cancelled")


def unlost(seq: int, error: BaseException) -> None:
    raise AssertionError(f"{seq} was lost: {error!r}")


def test_each_limit_expires_in_its_own_time_and_the_rest_goes_on() -> None:
    async def run() -> list[str]:
        seen: list[str] = []
        tasks = Tasks(unlost, lambda seq, limit_s: seen.append(f"{seq} expired after {limit_s}"))
        for seq, limit in ((1, 0.03), (2, 0.01), (3, None), (4, 0.01)):
            gate = asyncio.sleep(0.02 if seq == 4 else 0.05)
            tasks.spawn(seq, noted(gate, seq, seen), gate, limit)
        quick = asyncio.sleep(0)
        tasks.spawn(5, noted(quick, 5, seen), quick, 0.01)
        await asyncio.sleep(0.1)
        await tasks.aclose()
        return seen

    assert run_virtually(run())[0] == [
        "5 done",
        "2 expired after 0.01",
        "4 expired after 0.01",
        "2 cancelled",
        "4 cancelled",
        "1 expired after 0.03",
        "1 cancelled",
        "3 done",
    ]


def test_a_cancel_is_told_from_an_expiry_and_one_before_the_first_step_is_no_start() -> None:
    async def run() -> list[str]:
        tasks, seen = Tasks(unlost), list[str]()
        one, two = asyncio.sleep(1), asyncio.sleep(1)
        tasks.spawn(1, noted(one, 1, seen), one, 1.0)
        await asyncio.sleep(0)
        assert tasks.cancel(1)
        tasks.spawn(2, noted(two, 2, seen), two, 1.0)
        seen.append(f"2 began: {tasks.cancel(2)}")
        assert not tasks.cancel(3)
        await tasks.aclose()
        return seen

    seen = asyncio.run(run())
    assert "1 cancelled" in seen
    assert set(seen) <= {"1 cancelled", "2 began: False", "2 began: True", "2 cancelled"}


def test_calls_that_ended_long_ago_are_not_kept() -> None:
    async def run() -> int:
        tasks, seen = Tasks(unlost), list[str]()
        for seq in range(1_000):
            quick = asyncio.sleep(0)
            tasks.spawn(seq, noted(quick, seq, seen), quick, 600.0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        kept = sum(len(line) for line in tasks._limited.values())
        await tasks.aclose()
        return kept

    assert asyncio.run(run()) < 100


def test_work_that_ends_in_an_exception_is_told_and_lost_to_nobody() -> None:
    async def broken() -> None:
        await asyncio.sleep(0)
        raise GeneratorExit

    async def run() -> list[str]:
        seen: list[str] = []
        own = Tasks(lambda seq, error: seen.append(f"{seq} {type(error).__name__} {own.begun}"))
        done = asyncio.get_running_loop().create_future()
        own.spawn(7, broken(), done)
        await asyncio.sleep(0.01)
        await own.aclose()
        return seen

    assert asyncio.run(run()) == ["7 GeneratorExit []"]


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")
Work = Coroutine[object, None, None]


class Bench:
    """Pieces of work, their notes, and those that got lost."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.tasks = Tasks(lambda seq, error: self.seen.append(f"{seq} lost {type(error).__name__}"))
        self.on_task: dict[int, asyncio.Task[object] | None] = {}

    def spawn(self, seq: int, *steps: Awaitable[object]) -> None:
        self.tasks.spawn_shared(seq, self.work(seq, *steps), asyncio.get_running_loop().create_future())

    async def work(self, seq: int, *steps: Awaitable[object]) -> None:
        self.on_task[seq] = asyncio.current_task()
        before = WHO.get()
        WHO.set(f"piece {seq}")
        try:
            for step in steps:
                await step
        except asyncio.CancelledError:
            self.seen.append(f"{seq} cancelled")
        else:
            self.seen.append(f"{seq} done")
        assert (before, WHO.get()) == ("nobody", f"piece {seq}")
        assert asyncio.current_task() is self.on_task[seq]


async def passes(count: int = 8) -> None:
    """Let the loop go round so often that whoever can go on has done so."""
    for _ in range(count):
        await asyncio.sleep(0)


def seen_by(story: Callable[[Bench], Coroutine[object, None, None]]) -> list[str]:
    """Run a story, and return its notes. At its end no task may be left."""

    async def run() -> list[str]:
        bench = Bench()
        await story(bench)
        await bench.tasks.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return bench.seen

    return asyncio.run(run())


def test_what_never_waits_shares_one_task_and_what_waits_has_its_own() -> None:
    async def story(bench: Bench) -> None:
        gate = asyncio.Event()
        bench.spawn(1)
        bench.spawn(2, gate.wait())
        bench.spawn(3)
        bench.spawn(4)
        bench.spawn(5, gate.wait(), asyncio.sleep(0))
        await passes()
        assert bench.seen == ["1 done", "3 done", "4 done"]
        one, two, three, four, five = (bench.on_task[seq] for seq in range(1, 6))
        assert one is two
        assert three is four is five
        assert two is not three
        gate.set()
        await passes()

    assert seen_by(story) == ["1 done", "3 done", "4 done", "2 done", "5 done"]


def test_a_cancellation_reaches_the_piece_that_it_is_meant_for() -> None:
    async def story(bench: Bench) -> None:
        gate = asyncio.Event()
        for seq in (1, 2, 3):
            bench.spawn(seq, gate.wait())
        await passes()
        assert bench.tasks.cancel(2)
        await passes()
        assert not bench.tasks.cancel(2)
        gate.set()
        await passes()

    assert seen_by(story) == ["2 cancelled", "1 done", "3 done"]


def test_one_that_has_not_begun_never_does() -> None:
    async def story(bench: Bench) -> None:
        begun: list[str] = []

        async def inner() -> None:
            begun.append("inner")

        async def work(what: Coroutine[object, None, None]) -> None:
            begun.append("work")
            await what

        what = inner()
        bench.tasks.spawn_shared(1, work(what), what)
        assert not bench.tasks.cancel(1)
        await passes()
        assert begun == []

    assert seen_by(story) == []


def test_one_that_cancels_its_own_task_stops_nobody_behind_it() -> None:
    async def story(bench: Bench) -> None:
        async def selfish() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

        bench.spawn(1, selfish())
        bench.spawn(2, selfish(), asyncio.sleep(0))
        bench.spawn(3)
        await passes()

    assert seen_by(story) == ["1 done", "3 done", "2 cancelled"]


def test_one_that_gives_itself_up_in_its_first_step_is_cancelled_at_its_next_wait() -> None:
    async def story(bench: Bench) -> None:
        async def gives_up() -> None:
            assert bench.tasks.cancel(1)

        bench.spawn(1, gives_up(), asyncio.sleep(0))
        bench.spawn(2)
        await passes()

    assert sorted(seen_by(story)) == ["1 cancelled", "2 done"]


@pytest.mark.parametrize("waits", [False, True])
def test_one_that_raises_is_told_of_and_stops_nobody_behind_it(waits: bool) -> None:
    async def broken() -> None:
        if waits:
            await asyncio.sleep(0)
        raise GeneratorExit

    async def story(bench: Bench) -> None:
        bench.spawn(1, broken())
        bench.spawn(2)
        await passes()

    assert sorted(seen_by(story)) == ["1 lost GeneratorExit", "2 done"]


def test_closing_gives_up_what_waits_and_what_has_not_begun() -> None:
    async def story(bench: Bench) -> None:
        bench.spawn(1, asyncio.Event().wait())
        await asyncio.sleep(0)
        bench.spawn(2)

    assert seen_by(story) == ["1 cancelled"]


def test_closing_leaves_behind_what_ignores_that_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "GRACE_S", 0.001)

    async def run() -> None:
        bench, gate = Bench(), asyncio.Event()

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await gate.wait()

        bench.spawn(1, stubborn())
        await asyncio.sleep(0)
        await bench.tasks.aclose()
        gate.set()
        await asyncio.sleep(0)

    asyncio.run(run())
    assert "is left behind" in caplog.text


def test_when_every_task_is_cancelled_what_has_not_begun_is_closed_and_later_work_runs() -> None:
    async def story(bench: Bench) -> None:
        bench.spawn(1)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await passes()
        bench.spawn(2)
        await passes()

    assert seen_by(story) == ["2 done"]


@pytest.mark.parametrize("waits", [False, True])
def test_an_interrupt_ends_the_loop_and_not_the_pieces_behind_it(waits: bool) -> None:
    async def interrupted() -> None:
        if waits:
            await asyncio.sleep(0)
        raise KeyboardInterrupt

    complaints: list[object] = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    bench = Bench()

    async def story() -> None:
        bench.spawn(1, interrupted())
        bench.spawn(2)
        await passes()

    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(story())
    loop.run_until_complete(passes())
    assert sorted(bench.seen) == ["1 lost KeyboardInterrupt", "2 done"]
    bench.on_task.clear()
    gc.collect(1)  # an exception that was not looked at is told when its task goes
    assert complaints == []
    loop.run_until_complete(bench.tasks.aclose())
    loop.close()


# --- limits, orphans, and what is kept ------------------------------------------------------


def test_a_call_that_began_later_has_its_whole_time_and_one_after_all_others_expires_too() -> None:
    async def run() -> list[tuple[int, float]]:
        loop, seen = asyncio.get_running_loop(), list[tuple[int, float]]()
        begun = loop.time()
        tasks = Tasks(unlost, lambda seq, limit_s: seen.append((seq, round(loop.time() - begun, 2))))
        for seq, wait in ((1, 0.02), (2, 0.1), (3, 0.1)):
            gate = asyncio.sleep(9)
            tasks.spawn(seq, noted(gate, seq, []), gate, 0.03)
            await asyncio.sleep(wait)
        await tasks.aclose()
        return seen

    assert run_virtually(run())[0] == [(1, 0.03), (2, 0.05), (3, 0.15)]


def test_a_call_that_outlasts_hundreds_of_others_still_expires() -> None:
    async def run() -> list[str]:
        seen: list[str] = []
        tasks = Tasks(unlost, lambda seq, limit_s: seen.append(f"{seq} expired"))
        for seq in range(200):
            work = asyncio.sleep(0 if seq else 900)
            tasks.spawn(seq, noted(work, seq, []), work, 600.0)
            await passes(2)
        await asyncio.sleep(601)
        await tasks.aclose()
        return seen

    assert run_virtually(run())[0] == ["0 expired"]


def test_an_expiry_that_fails_lets_later_ones_come() -> None:
    complaints: list[object] = []

    async def run() -> list[int]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        seen: list[int] = []

        def expired(seq: int, limit_s: float) -> None:
            seen.append(seq)
            if seq == 1:
                raise OSError

        tasks = Tasks(unlost, expired)
        for seq in (1, 2):
            gate = asyncio.sleep(9)
            tasks.spawn(seq, noted(gate, seq, []), gate, 0.01)
            await asyncio.sleep(0.02)
        await tasks.aclose()
        return seen

    assert run_virtually(run())[0] == [1, 2]
    assert len(complaints) == 1


def test_nothing_expires_after_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "GRACE_S", 0.01)

    async def run() -> list[str]:
        seen: list[str] = []
        ours = Tasks(unlost, lambda seq, limit_s: seen.append(f"{seq} expired"))
        gate = asyncio.Event()

        async def stubborn() -> None:
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    seen.append("cancelled")

        ours.spawn(1, stubborn(), asyncio.get_running_loop().create_future(), 0.1)
        await asyncio.sleep(0)
        await ours.aclose()
        await asyncio.sleep(1)
        gate.set()
        return seen

    assert run_virtually(run())[0] == ["cancelled"]


def test_work_is_orphaned_if_others_cancel_it_and_not_if_it_is_given_up() -> None:
    async def run() -> list[object]:
        seen: list[object] = []
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: errors.append(about))
        ours = Tasks(unlost)

        async def work(seq: int) -> None:
            try:
                seen.append(ours.is_orphaned(seq))
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append((seq, ours.is_orphaned(seq), ours.is_orphaned(99)))
                raise

        for seq in (1, 2):
            ours.spawn(seq, work(seq), asyncio.get_running_loop().create_future())
        await passes()
        (mine,), (other,) = ours.of([1, 99]), ours.of([2])
        assert ours.running == {mine, other}
        assert {task.get_name() for task in ours.running} == {"callboard port"}
        mine.cancel()
        await passes()
        ours.cancel(2)
        await passes()
        assert (ours.begun, errors) == ([], [])
        return seen

    assert asyncio.run(run()) == [False, False, (1, True, False), (2, False, False)]


def test_what_stands_in_line_runs_in_one_task_that_counts_and_holds_no_answer_afterwards() -> None:
    async def story(bench: Bench) -> None:
        bench.spawn(1, asyncio.Event().wait())
        bench.spawn(2)
        assert len(bench.tasks.running) == 1
        assert bench.tasks.of([1, 2]) == set()
        await passes()
        queue = run_queue_of(asyncio.get_running_loop())
        assert queue.hold(), "nobody else holds it"
        queue.release()

    assert seen_by(story) == ["2 done", "1 cancelled"]


def test_what_a_cancelled_task_had_not_begun_is_no_longer_under_way() -> None:
    async def story(bench: Bench) -> None:
        bench.spawn(1)
        for task in bench.tasks.running:
            task.cancel()
        await passes()
        assert bench.tasks.begun == []

    assert seen_by(story) == []


def test_of_calls_with_a_limit_few_more_are_kept_than_are_under_way() -> None:
    async def run() -> list[int]:
        tasks, sizes = Tasks(unlost), list[int]()
        for seq in (1_001, 1_002):
            gate = asyncio.sleep(60)
            tasks.spawn(seq, noted(gate, seq, []), gate, 60.0)
        for seq in range(200):
            quick = asyncio.sleep(0)
            tasks.spawn(seq, noted(quick, seq, []), quick, 60.0)
            sizes.append(len(tasks._limited[60.0]))
            await asyncio.sleep(0.001)
        await tasks.aclose()
        return sizes

    sizes = run_virtually(run())[0]
    assert max(sizes) == 64 + 2 * 3
    assert min(sizes[80:]) == 3


def test_a_call_that_ended_before_its_time_is_passed_over_when_the_time_comes() -> None:
    complaints: list[object] = []

    async def run() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        seen: list[str] = []
        tasks = Tasks(unlost, lambda seq, limit_s: seen.append(f"{seq} expired"))
        for seq, wait_s in ((1, 0.0), (2, 0.05)):
            gate = asyncio.sleep(wait_s)
            tasks.spawn(seq, noted(gate, seq, seen), gate, 0.01)
        await asyncio.sleep(0.1)
        await tasks.aclose()
        return seen

    assert run_virtually(run())[0] == ["1 done", "2 expired", "2 cancelled"]
    assert complaints == []


def test_a_piece_that_cancels_itself_is_lost_to_nobody_and_those_behind_it_run() -> None:
    async def run() -> list[str]:
        seen: list[str] = []
        tasks = Tasks(lambda seq, error: seen.append(f"{seq} lost"))

        async def quits() -> None:
            raise asyncio.CancelledError

        for seq, work in ((1, quits()), (2, noted(asyncio.sleep(0), 2, seen))):
            tasks.spawn_shared(seq, work, work)
        await asyncio.sleep(0.01)
        assert tasks.begun == []
        assert not tasks._line
        return seen

    assert run_virtually(run())[0] == ["2 done"]
