"""GroupWriter: events posted during one commit are the next; no batch is split, no caller waits forever."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from callboard.actors.protocol.errors import Fenced, SessionFailed, SessionNotFound, StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement
from callboard.actors.session.budget_scope import Spent
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.writer import (
    MANY,
    NAP_EVERY_S,
    TIMES_MAX,
    UNDURABLE_MAX,
    GroupWriter,
)
from tests.runtime.log.kit import event, events, run, same
from tests.runtime.log.slow_log import SlowLog, passes, room_in, with_writer

# --- batches ------------------------------------------------------------------------


def test_a_single_event_is_written_as_soon_as_a_pass_of_the_loop_brings_no_other() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 1))
        assert log.batches == []
        assert writer.undurable == 1
        await passes(2)
        assert log.batches == [[("a", [1])]]
        await passes()
        assert (await writer.wait("a", 0)).seq == 1
        assert writer.undurable == 0

    with_writer(work)


def test_events_that_follow_from_the_first_ones_are_in_their_batch() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        for seq in (1, 2, 3):
            writer.stage("a", 1, events(seq, seq))
            await passes()
        await writer.flush()
        assert log.batches == [[("a", [1, 2, 3])]]

    with_writer(work)


def test_a_loop_that_brings_more_and_more_does_not_keep_the_first_batch_open() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        for seq in range(1, 10):
            writer.stage("a", 1, events(seq, seq))
            await passes()
        await writer.flush()
        assert log.batches[0] == [("a", [1, 2, 3, 4])]

    with_writer(work)


def test_many_events_are_written_in_the_next_pass_but_one_even_if_more_follow() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 100))
        for seq in range(101, 110):
            await passes()
            writer.stage("a", 1, events(seq, seq))
        await writer.flush()
        assert log.batches[0] == [("a", [*range(1, 102)])]

    with_writer(work)


def test_each_batch_is_told_once_it_is_stored() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        stored: list[list[tuple[str, int]]] = []

        def on_stored(batch: Sequence[Append]) -> None:
            assert len(log.batches) == len(stored) + 1
            stored.append([(part.session_id, part.events[-1].seq) for part in batch])

        writer.on_stored = on_stored
        writer.stage("a", 1, events(1, 2))
        writer.stage("b", 1, events(1, 1))
        await writer.flush()
        writer.stage("a", 1, events(3, 3))
        await writer.flush()
        assert stored == [[("a", 2), ("b", 1)], [("a", 3)]]

    with_writer(work)


def test_events_staged_during_a_commit_are_the_next_batch_across_sessions() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        writer.stage("a", 1, events(1, 2))
        await passes(2)
        writer.stage("a", 1, events(3, 3))
        writer.stage("b", 1, events(1, 4))
        writer.stage("a", 1, events(4, 6))
        await passes(3)
        log.gate.set()
        await writer.flush()
        assert log.batches == [[("a", [1, 2])], [("a", [3, 4, 5, 6]), ("b", [1, 2, 3, 4])]]

    with_writer(work)


def test_decisions_are_never_split_and_every_prefix_is_durable_in_order() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        chance = random.Random(3)
        heads: dict[str, list[int]] = {name: [] for name in "abc"}
        bounds: dict[str, set[int]] = {name: {0} for name in "abc"}
        for name in "abc":
            writer.on_durable(name, lambda head, name=name: heads[name].append(head.seq))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        for _ in range(300):
            name, size = chance.choice("abc"), chance.randrange(1, 9)
            first = max(bounds[name]) + 1
            writer.stage(name, 1, events(first, first + size - 1))
            bounds[name].add(first + size - 1)
            if chance.random() < 0.3:
                await passes(chance.randrange(3))
        await writer.flush()
        for name in "abc":
            assert heads[name] == sorted(set(heads[name]))
            assert set(heads[name]) <= bounds[name]
            assert heads[name][-1] == max(bounds[name])
            assert MemoryReader(log).verify_chain(name) == await writer.wait(name, 0)

    with_writer(work)


def test_no_task_is_left_when_there_is_nothing_to_write() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        for seq in range(1, 5):
            writer.stage("a", 1, events(seq, seq))
            assert len(asyncio.all_tasks()) == 2
            await writer.wait("a", seq)
            await passes()
            assert len(asyncio.all_tasks()) == 1

    with_writer(work)


def test_staging_nothing_does_nothing() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, [])
        await passes(2)
        assert log.batches == []

    with_writer(work)


# --- waiting ------------------------------------------------------------------------


def test_waiting_for_a_durable_event_returns_at_once() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 5))
        await writer.flush()
        waiting = writer.wait("a", 5)
        with pytest.raises(StopIteration) as done:
            waiting.send(None)
        assert done.value.value == await writer.wait("a", 0)

    with_writer(work)


def test_every_waiter_is_woken_by_the_commit_that_reaches_its_seq() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        woken: list[int] = []

        async def wait(seq: int) -> None:
            head = await writer.wait("a", seq)
            assert head.seq >= seq
            woken.append(seq)

        writer.stage("a", 1, events(1, 3))
        tasks = [asyncio.create_task(wait(seq)) for seq in (6, 2, 3, 1, 6, 4)]
        await passes(2)
        writer.stage("a", 1, events(4, 6))
        await passes(2)
        assert woken == []
        log.gate.set()
        await asyncio.gather(*tasks)
        assert sorted(woken[:3]) == [1, 2, 3]
        assert sorted(woken) == [1, 2, 3, 4, 6, 6]

    with_writer(work)


def test_a_waiter_may_be_cancelled_and_may_wait_for_an_event_that_is_not_staged_yet() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.attach("a", 1)
        given_up = asyncio.create_task(writer.wait("a", 1))
        patient = asyncio.create_task(writer.wait("a", 2))
        await passes(2)
        given_up.cancel()
        writer.stage("a", 1, events(1, 2))
        assert (await patient).seq == 2
        assert given_up.cancelled()

    with_writer(work)


def test_thousands_of_waiters_cost_little() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.stage("a", 1, events(1, 3_000))
        heads = await asyncio.gather(*(writer.wait("a", seq) for seq in range(3_000, 0, -1)))
        assert {head.seq for head in heads} == {3_000}

    with_writer(work)


def test_an_unknown_session_is_not_found() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        with pytest.raises(SessionNotFound, match="'x'"):
            await writer.wait("x", 0)
        with pytest.raises(SessionNotFound, match="'x'"):
            await writer.wait("x", 1)
        writer.forget("x")

    with_writer(work)


# --- callbacks ------------------------------------------------------------------------


def test_callbacks_get_each_head_and_may_stage_more() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        heads: list[int] = []

        def go_on(head: Head) -> None:
            heads.append(head.seq)
            if head.seq < 5:
                writer.stage("a", 1, events(head.seq + 1, head.seq + 1))

        writer.on_durable("a", go_on)
        writer.stage("a", 1, events(1, 1))
        await writer.flush()
        assert heads == [1, 2, 3, 4, 5]

    with_writer(work)


def test_a_callback_that_raises_ends_its_session_and_no_other() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        failures: list[Exception] = []
        writer.on_durable("a", lambda head: 1 / 0, failures.append)  # type: ignore[arg-type]  # a callback that raises
        writer.stage("a", 1, events(1, 1))
        writer.stage("b", 1, events(1, 1))
        await writer.flush()
        assert isinstance(failures[0].__cause__, ZeroDivisionError)
        with pytest.raises(SessionFailed):
            writer.stage("a", 1, events(2, 2))
        writer.stage("b", 1, events(2, 2))
        assert (await writer.wait("b", 2)).seq == 2

    with_writer(work)


def test_a_forgotten_session_is_still_written_without_callbacks() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        heads: list[Head] = []
        writer.on_durable("a", heads.append)
        writer.stage("a", 1, events(1, 3))
        writer.forget("a")
        await writer.flush()
        assert (await log.head("a")).seq == 3
        assert heads == []

    with_writer(work)


def test_a_caller_that_waits_for_a_forgotten_session_gets_an_error() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        writer.stage("a", 1, events(1, 1))
        waiting = asyncio.create_task(writer.wait("a", 1))
        await passes(2)
        writer.forget("a")
        with pytest.raises(SessionFailed, match="before event 1 was durable"):
            await waiting

    with_writer(work)


def test_a_writer_that_leaves_forgets_its_own_session_and_not_that_of_a_later_one() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        for epoch, is_gone in ((1, False), (2, True)):
            writer.attach("a", 2)
            writer.forget("a", epoch)
            if is_gone:
                with pytest.raises(SessionNotFound):
                    await writer.wait("a", 0)
            else:
                assert (await writer.wait("a", 0)).seq == 0

    with_writer(work)


# --- room -----------------------------------------------------------------------------


def test_it_is_full_at_its_bound_and_has_room_after_the_commit() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        await room_in(writer)
        writer.stage("a", 1, events(1, 9))
        assert not writer.is_full
        writer.stage("b", 1, events(1, 1))
        assert writer.is_full
        waits = [asyncio.create_task(room_in(writer)) for _ in range(3)]
        await passes(3)
        assert not any(wait.done() for wait in waits)
        waits[0].cancel()
        log.gate.set()
        await asyncio.gather(*waits[1:])
        assert not writer.is_full

    with_writer(work, undurable_max=10)
    assert UNDURABLE_MAX == 8_192


def test_callbacks_that_wait_for_room_are_called_in_order_while_there_is_room() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        called: list[int] = []

        def fill() -> None:
            called.append(2)
            writer.stage("b", 1, events(1, 10))
            log.gate.clear()

        writer.when_room(lambda: called.append(0))
        writer.stage("a", 1, events(1, 10))
        writer.when_room(lambda: called.append(1))
        writer.when_room(fill)
        writer.when_room(lambda: called.append(3))
        assert called == [0]
        log.gate.set()
        await writer.wait("a", 10)
        assert called == [0, 1, 2]
        log.gate.set()
        await writer.wait("b", 10)
        assert called == [0, 1, 2, 3]

    with_writer(work, undurable_max=10)


@pytest.mark.parametrize("error", [None, StoreFailed("broken")])
def test_a_session_hears_of_its_commit_before_what_waits_for_room_goes_on(error: Exception | None) -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        told: list[object] = []
        log.error = error
        writer.on_durable("a", lambda head: told.append((head.seq, writer.is_full)), told.append)
        writer.stage("a", 1, events(1, 10))
        writer.when_room(lambda: told.append("room"))
        await writer.flush()
        # Else a port would begin, for a session that has failed, what waited for room.
        assert told == [error or (10, False), "room"]

    with_writer(work, undurable_max=10)


def test_dead_sessions_take_no_room() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.error = StoreFailed("broken")
        writer.stage("a", 1, events(1, 10))
        assert writer.is_full
        await room_in(writer)
        assert writer.undurable == 0

    with_writer(work, undurable_max=10)


def test_the_times_of_the_last_commits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        now = 1.0
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "time", lambda: now)
            for seq in (1, 2):
                log.gate.clear()
                writer.stage("a", 1, events(seq, seq))
                await passes(3)
                now += 2.5 * seq
                log.gate.set()
                await writer.flush()
        assert list(writer.commit_times) == [2.5, 5.0]
        assert writer.commit_times.maxlen == TIMES_MAX

    with_writer(work)


def test_a_busy_loop_gives_way_to_the_stores_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        naps: list[float] = []
        monkeypatch.setattr(writer, "_never_free", Mock(acquire=lambda timeout: naps.append(timeout)))
        log.gate.clear()
        now = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        writer.stage("a", 1, events(1, 1))
        for seq in range(2, 41):
            now += NAP_EVERY_S / 4
            writer.stage("a", 1, events(seq, seq))
        monkeypatch.undo()
        assert 4 <= len(naps) <= 10

    with_writer(work)


@pytest.mark.parametrize(("size", "naps_at_once"), [(1, 0), (MANY, 1)])
def test_a_nap_follows_the_start_of_a_commit_at_once_only_after_a_large_batch(
    size: int, naps_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        naps: list[float] = []
        monkeypatch.setattr(writer, "_never_free", Mock(acquire=lambda timeout: naps.append(timeout)))
        log.gate.clear()
        now = 1.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        writer.stage("a", 1, events(1, size))
        while not log.batches:
            now += NAP_EVERY_S
            await passes()
        writer.stage("a", 1, events(size + 1, size + 1))
        assert len(naps) == naps_at_once
        now += 2 * NAP_EVERY_S
        writer.stage("a", 1, events(size + 2, size + 2))
        assert len(naps) == naps_at_once + 1
        monkeypatch.undo()

    with_writer(work)


# --- with the real store -------------------------------------------------------------------


@pytest.mark.slow
def test_many_sessions_at_once_are_all_stored_whole(tmp_path: Path) -> None:
    posted: dict[str, list[Event]] = {f"s{at}": [] for at in range(20)}

    async def session(writer: GroupWriter, name: str, chance: random.Random) -> None:
        while len(posted[name]) < 200:
            first = len(posted[name]) + 1
            decision = [event(first + at) for at in range(chance.randrange(1, 6))]
            posted[name] += decision
            writer.stage(name, 1, decision)
            if chance.random() < 0.2:
                await writer.wait(name, decision[-1].seq)

    async def work() -> None:
        log = SQLiteLog(tmp_path / "log.db")
        await log.open()
        writer = GroupWriter(log)
        for name in posted:
            await log.create(name, 1, "")
        await asyncio.gather(*(session(writer, name, random.Random(name)) for name in posted))
        await writer.aclose()
        await log.close()

    run(work)
    with SQLiteReader(tmp_path / "log.db") as reader:
        for name, expected in posted.items():
            assert reader.verify_chain(name).seq == len(expected)
            assert same(reader.events(name), expected)


def test_a_batch_has_the_spending_and_the_usage_of_its_events_and_tells_how_long_it_took() -> None:
    call = Reservation(CallKey("a", 1, "host", 1, 1), Need(5), (("*", ""),))
    charge = Charge("2026-11-28", "m", "host", Usage(5))
    told: list[tuple[float, list[str]]] = []

    async def work() -> None:
        log = MemoryLog()
        await log.open()
        await log.create("a", 1, "")
        writer = GroupWriter(log, lambda took, batch: told.append((took, [one.session_id for one in batch])))
        writer.attach("a", 1, Head(0, GENESIS))
        writer.stage("a", 1, events(1, 1), [call], [charge])
        writer.stage("a", 1, events(2, 2), [Settlement(call, Need(3))], [charge])
        writer.stage("a", 1, events(3, 3))
        await writer.flush()
        (row,) = await log.usage()
        assert row.usage.input_tokens == 10
        assert (await log.spending.read()).spent == (Spent("*", "", Need(3)),)
        await writer.aclose()

    run(work)
    assert [names for _, names in told] == [["a"]]
    assert told[0][0] >= 0


def test_one_task_writes_although_a_commit_is_slow() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        log.gate.clear()
        for seq in (1, 2, 3):
            writer.stage("a", 1, events(seq, seq))
            await passes(2)
        names = [one.get_name() for one in asyncio.all_tasks()]
        assert names.count("callboard group writer") == 1
        assert log.batches == [[("a", [1])]]
        log.gate.set()
        await writer.flush()

    with_writer(work)


def test_no_events_are_refused_as_well_under_another_epoch() -> None:
    async def work(writer: GroupWriter, log: SlowLog) -> None:
        writer.attach("a", 2)
        writer.stage("a", 2, [])
        with pytest.raises(Fenced):
            writer.stage("a", 1, [])

    with_writer(work)
