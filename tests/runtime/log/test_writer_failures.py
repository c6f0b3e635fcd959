"""GroupWriter when commits fail, sessions are taken over, or the loop ends: each caller hears it once."""

import asyncio
import gc
from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import pytest

from callboard.actors.protocol.errors import Fenced, StoreFailed, StoreLocked, WrongHead
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.writer import GroupWriter
from tests.runtime.log.kit import events, run
from tests.runtime.log.slow_log import SlowLog, passes, with_writer
from tests.waiting import until


def test_a_session_that_is_refused_dies_alone() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        await log.take_over("b")
        told: list[Exception] = []
        writer.on_durable("b", lambda head: None, told.append)
        writer.stage("a", 1, events(1, 2))
        writer.stage("b", 1, events(1, 2))
        writer.stage("c", 1, events(5, 6))
        waits = [asyncio.create_task(writer.wait(name, seq)) for name, seq in (("b", 1), ("b", 2), ("c", 6))]
        assert (await writer.wait("a", 2)).seq == 2
        results = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(result) for result in results] == [Fenced, Fenced, WrongHead]
        assert [type(error) for error in told] == [Fenced]
        with pytest.raises(Fenced):
            writer.stage("b", 1, events(3, 3))
        with pytest.raises(WrongHead):
            await writer.wait("c", 1)
        with pytest.raises(Fenced):
            writer.on_durable("b", lambda head: None)
        assert writer.undurable == 0

    with_writer(work)


def test_a_session_that_dies_while_its_batch_is_written_hears_nothing_more_of_it() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        told: list[Head] = []
        writer.on_durable("a", told.append)
        log.gate.clear()
        writer.stage("a", 1, events(1, 2))
        await passes(2)
        waiting = asyncio.create_task(writer.wait("a", 2))
        await passes()
        writer.attach("a", 2)
        with pytest.raises(Fenced):
            await waiting
        log.gate.set()
        await writer.flush()
        assert not told
        assert (await writer.wait("a", 0)).seq == 0
        assert (await log.head("a")).seq == 2

    with_writer(work)


def test_a_failed_commit_kills_every_session_of_its_batch_and_drops_their_staged_events() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        writer.stage("a", 1, events(1, 2))
        writer.stage("b", 1, events(1, 2))
        await passes(2)
        writer.stage("a", 1, events(3, 9))
        writer.stage("c", 1, events(1, 1))
        waits = [asyncio.create_task(writer.wait(name, seq)) for name, seq in (("a", 1), ("a", 9), ("b", 2))]
        await passes()
        log.error = StoreFailed("the disk is full")
        log.gate.set()
        results = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(result) for result in results] == [StoreFailed] * 3
        assert (await writer.wait("c", 1)).seq == 1
        assert log.batches[1:] == [[("c", [1])]]
        assert writer.undurable == 0

    with_writer(work)


async def failure(writer: GroupWriter) -> BaseException:
    with pytest.raises(StoreFailed) as caught:
        await writer.wait("a", 1)
    return caught.value


def test_the_same_error_can_be_raised_again_and_again_without_growing() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.error = StoreFailed("broken")
        writer.stage("a", 1, events(1, 1))
        errors = [await failure(writer) for _ in range(50)]
        depth, traceback = 0, errors[-1].__traceback__
        while traceback is not None:
            depth, traceback = depth + 1, traceback.tb_next
        assert depth < 6

    with_writer(work)


def test_a_log_that_gives_too_few_answers_fails_the_batch() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        async def mute(batch: Sequence[Append]) -> list[Head | Exception]:
            return []

        log.append = mute  # type: ignore[method-assign]  # a store without answers
        writer.stage("a", 1, events(1, 1))
        with pytest.raises(StoreFailed, match="0 answers to 1"):
            await writer.wait("a", 1)

    with_writer(work)


def test_a_failure_handler_hears_of_every_session_once() -> None:
    told: list[tuple[str, str]] = []

    def hear(name: str, error: Exception) -> None:
        told.append((name, type(error).__name__))

    async def work() -> None:
        log = SlowLog()
        await log.open()
        writer = GroupWriter(log)
        for name in ("nowhere", "elsewhere"):
            writer.on_durable(name, lambda head: None, partial(hear, name))
            writer.stage(name, 1, events(1, 1))
        await writer.aclose()

    run(work)
    assert sorted(told) == [("elsewhere", "SessionNotFound"), ("nowhere", "SessionNotFound")]


def test_a_failure_handler_that_raises_is_reported_and_stops_nothing() -> None:
    async def work() -> None:
        complaints: list[tuple[str, str]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: complaints.append((context["message"], type(context["exception"]).__name__))
        )
        log = SlowLog()
        await log.open()
        await log.create("a", 1, "")
        writer = GroupWriter(log)
        writer.on_durable("nowhere", lambda head: None, lambda error: 1 / 0)  # type: ignore[arg-type]  # its result
        writer.stage("nowhere", 1, events(1, 1))
        writer.stage("a", 1, events(1, 1))
        assert (await writer.wait("a", 1)).seq == 1
        await writer.aclose()
        said = "callboard: reporting the death of session nowhere raised"
        assert complaints == [(said, "ZeroDivisionError")]

    run(work)


# --- epochs ---------------------------------------------------------------------------


def test_a_session_that_is_attached_again_fences_its_former_writer() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        told: list[Exception] = []
        writer.on_durable("a", lambda head: None, told.append)
        writer.stage("a", 1, events(1, 2))
        await passes()
        writer.stage("a", 1, events(3, 4))
        waiting = asyncio.create_task(writer.wait("a", 4))
        await passes()
        log.gate.set()
        epoch, head = await log.take_over("a")
        writer.attach("a", epoch, head)
        with pytest.raises(Fenced):
            await waiting
        assert [type(error) for error in told] == [Fenced]
        with pytest.raises(Fenced, match="under epoch 2, not 1"):
            writer.stage("a", 1, events(3, 3))
        await writer.flush()
        assert writer.undurable == 0

    with_writer(work)


def test_a_session_that_was_taken_over_goes_on_from_its_head() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 2))
        await writer.flush()
        epoch, head = await log.take_over("a")
        writer.attach("a", epoch, head)
        assert await writer.wait("a", 0) == head
        assert await writer.wait("a", 2) == head
        writer.stage("a", epoch, events(3, 3))
        assert (await writer.wait("a", 3)).seq == 3

    with_writer(work)


def test_events_that_come_while_the_log_is_asked_about_a_cancelled_commit_are_written() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        head_of = log.head
        writer.on_durable("b", lambda head: None)

        async def head(session_id: str) -> Head:
            writer.stage("b", 1, events(1, 1))
            return await head_of(session_id)

        log.gate.clear()
        writer.stage("a", 1, events(1, 1))
        await passes(3)
        assert writer._task is not None
        writer._task.cancel()
        log.gate.set()
        with patch.object(log, "head", head):
            async with asyncio.timeout(5):
                assert (await writer.wait("b", 1)).seq == 1

    with_writer(work)


def test_a_task_that_is_cancelled_while_it_asks_about_a_commit_leaves_the_question_to_the_next() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        head_of, asked, may_answer = log.head, asyncio.Event(), asyncio.Event()

        async def head(session_id: str) -> Head:
            asked.set()
            await may_answer.wait()
            return await head_of(session_id)

        log.gate.clear()
        writer.stage("a", 1, events(1, 1))
        await passes(3)
        assert writer._task is not None
        writer._task.cancel()
        with patch.object(log, "head", head):
            await asked.wait()
            writer._task.cancel()
            may_answer.set()
            async with asyncio.timeout(5):
                with pytest.raises(StoreFailed):
                    await writer.wait("a", 1)

    with_writer(work)


# --- closing ----------------------------------------------------------------------------


def test_closing_writes_staged_events_and_accepts_no_more() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 30))
        early = asyncio.create_task(writer.wait("a", 30))
        never = asyncio.create_task(writer.wait("a", 31))
        await passes()
        await writer.aclose()
        assert (await early).seq == 30
        with pytest.raises(StoreFailed, match="closed"):
            await never
        with pytest.raises(StoreFailed, match="closed"):
            writer.stage("b", 1, events(1, 1))
        await writer.aclose()

    with_writer(work)


def test_a_writer_accepts_no_more_from_the_moment_it_begins_to_close() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        writer.stage("a", 1, events(1, 1))
        closing = asyncio.create_task(writer.aclose())
        await passes()
        with pytest.raises(StoreFailed, match="closed"):
            writer.stage("a", 1, events(2, 2))
        log.gate.set()
        await closing
        assert log.batches == [[("a", [1])]]

    with_writer(work)


def test_a_dead_session_tells_why_it_died_even_when_the_writer_is_closed() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.error = StoreFailed("the disk is full")
        writer.stage("a", 1, events(1, 1))
        await writer.flush()
        await writer.aclose()
        with pytest.raises(StoreFailed, match="the disk is full"):
            writer.stage("a", 2, events(1, 1))

    with_writer(work)


def test_closing_may_be_cancelled_without_stopping_the_commit() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        writer.stage("a", 1, events(1, 3))
        closing = asyncio.create_task(writer.aclose())
        await passes(3)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        log.gate.set()
        assert (await writer.wait("a", 3)).seq == 3

    with_writer(work)


def test_a_cancelled_commit_fails_its_sessions_only_if_the_log_does_not_have_it() -> None:
    heard: list[str] = []

    async def waiter(writer: GroupWriter, name: str) -> None:
        try:
            heard.append(f"{name} {(await writer.wait(name, 2)).seq}")
        except (StoreFailed, asyncio.CancelledError) as error:
            heard.append(f"{name} {type(error).__name__}")

    async def work() -> None:
        log = SlowLog()
        await log.open()
        for name in "abc":
            await log.create(name, 0, "")
        log.gate.clear()
        writer = GroupWriter(log)
        for name in "ab":
            writer.stage(name, 1, events(1, 1))
        await passes(2)
        writer.stage("c", 1, events(1, 2))
        writing = next(iter(task for task in asyncio.all_tasks() if "group writer" in task.get_name()))
        waits = [asyncio.create_task(waiter(writer, name)) for name in "abc"]
        await passes(2)
        writing.cancel()
        log.gate.set()
        await asyncio.gather(*waits)
        assert (await writer.wait("c", 1)).seq == 2

    run(work)
    assert sorted(heard) == ["a StoreFailed", "b StoreFailed", "c 2"]


def test_a_question_about_a_cancelled_commit_that_is_cancelled_too_is_asked_again() -> None:
    class Asked(SlowLog):
        def __init__(self) -> None:
            super().__init__()
            self.questions: list[asyncio.Future[None]] = []

        async def head(self, session_id: str) -> Head:
            self.questions.append(asyncio.get_running_loop().create_future())
            await self.questions[-1]
            return await super().head(session_id)

    def cancel() -> None:
        next(iter(task for task in asyncio.all_tasks() if "group writer" in task.get_name())).cancel()

    async def work() -> None:
        log = Asked()
        await log.open()
        await log.create("a", 0, "")
        log.gate.clear()
        writer = GroupWriter(log)
        writer.stage("a", 1, events(1, 2))
        waiting = asyncio.create_task(writer.wait("a", 2))
        await passes(4)
        cancel()
        log.gate.set()
        await until(lambda: len(log.questions) == 1)
        cancel()
        await until(lambda: len(log.questions) == 2)
        log.questions[1].set_result(None)
        async with asyncio.timeout(20):
            await asyncio.wait([waiting])
        assert isinstance(waiting.exception(), StoreFailed)

    run(work)


def test_a_session_whose_log_cannot_be_asked_about_a_cancelled_commit_fails() -> None:
    class Mute(SlowLog):
        async def head(self, session_id: str) -> Head:
            raise StoreFailed("the disk is gone")

    async def work() -> None:
        log = Mute()
        await log.open()
        await log.create("a", 0, "")
        log.gate.clear()
        writer = GroupWriter(log)
        writer.stage("a", 1, events(1, 1))
        await passes(2)
        writing = next(iter(task for task in asyncio.all_tasks() if "group writer" in task.get_name()))
        await passes(2)
        writing.cancel()
        log.gate.set()
        with pytest.raises(StoreFailed, match="the disk is gone"):
            async with asyncio.timeout(20):
                await writer.wait("a", 1)

    run(work)


def test_leaving_the_loop_in_the_middle_of_everything_warns_of_nothing() -> None:
    async def work() -> None:
        log = SlowLog()
        await log.open()
        log.gate.clear()
        writer = GroupWriter(log)
        writer.stage("a", 1, events(1, 3))
        asyncio.get_running_loop().call_soon(lambda: None)
        asyncio.create_task(writer.wait("a", 3)).add_done_callback(lambda task: task.cancelled())
        await passes(2)

    run(work)
    gc.collect()


def test_a_task_that_is_cancelled_before_its_first_step_is_followed_by_one_that_hurries() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 1))
        assert writer._task is not None
        writer._task.cancel()
        await passes(3)
        assert log.batches == [[("a", [1])]]
        assert (await writer.wait("a", 1)).seq == 1

    with_writer(work)


def test_words_of_a_session_in_the_pass_that_cancels_the_writer_are_written_in_a_hurry() -> None:
    async def last_words(writer: GroupWriter) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            writer.stage("b", 1, events(1, 1))

    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        writer.stage("a", 1, events(1, 1))
        session = asyncio.create_task(last_words(writer))
        await passes(3)
        assert writer._task is not None
        for task in (writer._task, session):
            task.cancel()
        await passes(2)
        assert log.batches == [[("a", [1])], [("b", [1])]]
        tasks = [task for task in asyncio.all_tasks() if "group writer" in task.get_name()]
        assert tasks == [writer._task], "one writes at a time"
        assert not writer._task._log_destroy_pending  # type: ignore[attr-defined]  # as asyncio reads it
        log.gate.set()

    with_writer(work)


def test_a_writer_that_hurries_waits_for_no_further_events() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 1))
        warns = [writer._task._log_destroy_pending]  # type: ignore[union-attr]  # as asyncio reads it
        await writer.flush()
        writer.hurry()
        writer.stage("a", 1, events(2, 2))
        warns.append(writer._task._log_destroy_pending)  # type: ignore[union-attr]  # a task has it
        await passes()
        assert log.batches == [[("a", [1])], [("a", [2])]]
        assert warns == [True, False], "the loop may end before the task"

    with_writer(work)


def test_a_child_of_a_fork_does_not_wait_for_the_loop_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 1))
        with monkeypatch.context() as child:
            child.setattr("os.getpid", lambda: 1)
            with pytest.raises(StoreLocked, match="the process from which this one was forked"):
                await writer.flush()

    with_writer(work)


def test_a_session_dies_once() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        told: list[Exception] = []
        writer.on_durable("a", lambda head: None, told.append)
        log.gate.clear()
        writer.stage("a", 1, events(1, 2))
        await passes(2)
        writer.attach("a", 2)
        log.error = StoreFailed("broken")
        log.gate.set()
        await writer.flush()
        assert [type(error) for error in told] == [Fenced]

    with_writer(work)


def test_a_session_that_dies_is_told_the_cause_and_its_successor_can_be_written_at_that_moment() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        causes: list[str] = []
        writer.on_durable("a", lambda head: 1 / 0, lambda error: causes.append(repr(error.__cause__)))  # type: ignore[arg-type]  # its result
        writer.stage("a", 1, events(1, 1))
        await writer.flush()
        assert causes == ["ZeroDivisionError('division by zero')"]
        writer.on_durable("b", lambda head: None, lambda error: writer.stage("b", 2, events(1, 1)))
        await log.take_over("b")
        writer.attach("b", 2)
        assert writer.undurable == 1
        assert (await writer.wait("b", 1)).seq == 1

    with_writer(work)
