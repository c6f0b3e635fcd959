"""PostgresLog: the contract, and what a log on a server has of its own."""

import asyncio
import gc
import os
from collections.abc import Iterator, Sequence
from functools import partial
from time import sleep

import pytest

from callboard.actors.protocol.errors import CorruptLog, MisuseError, SessionNotFound, StoreLocked
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement
from callboard.replay.testing.stores import contract
from callboard.replay.testing.stores.contract import StoreContract, StorePlace
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.postgres.link import Link, Row
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.protocol import Append, Head
from tests.effort import long_search
from tests.postgres_server import execute
from tests.runtime.log.kit import added, event, events, large, run
from tests.runtime.log.postgres.places import OnServer, on_server
from tests.runtime.log.transcripts import compare

KEY = b"k" * 32


class TestPostgresLog(StoreContract):
    @pytest.fixture
    def place(self) -> Iterator[StorePlace]:
        with on_server() as place:
            yield place


@long_search
class TestEncryptedLog(contract.CatalogCases, contract.ForkCases):
    """The cases in which texts and large values are encrypted; the others do the same as above."""

    @pytest.fixture
    def place(self) -> Iterator[StorePlace]:
        with on_server(KEY) as place:
            yield place


def test_a_log_on_a_server_says_what_one_in_memory_says() -> None:
    with on_server() as place:
        compare(MemoryLog(), place.log(), place.reader)


def test_any_number_of_processes_may_have_a_log_open(place: OnServer) -> None:
    async def work() -> None:
        logs = [place.log() for _ in range(3)]
        for log in logs:
            await log.open()
        for at, log in enumerate(logs):
            await log.create(f"s{at}", at, "")
            await added(log, f"s{at}", 1, events(1, 3))
        assert len(await logs[0].sessions()) == 3
        with pytest.raises(MisuseError, match="open already"):
            await logs[0].open()
        for log in logs:
            await log.close()

    run(work)


def test_a_log_that_is_collected_leaves_its_connections(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        await log.sessions()
        assert log._held is not None
        links.extend(log._held._links)

    links: list[Link] = []
    run(work)
    gc.collect()
    assert len(links) == 2
    assert all(link._is_closed.is_set() and link._connection is None for link in links)


def test_a_log_that_is_closed_has_written_what_was_handed_over_and_leaves_its_connections(
    place: OnServer,
) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        await log.sessions()
        held = log._held
        assert held is not None
        assert held.on_abandon is not None
        appends = [
            asyncio.create_task(log.append([Append("s", at, 1, events(at + 1, at + 1))])) for at in (0, 1)
        ]
        await asyncio.sleep(0)
        await log.close()
        assert execute(f"SELECT count(*) FROM {place.schema}.events") == [(2,)]
        assert all(link._is_closed.is_set() and link._connection is None for link in held._links)
        assert not held.on_abandon.alive
        await asyncio.gather(*appends)
        await log.close()

    run(work)


def test_a_log_is_abandoned_only_by_its_own_process_which_waits_for_its_threads(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.sessions()
        held = log._held
        assert held is not None
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: -1)
            held.abandon()
        assert [worker._thread.is_alive() for worker in held._workers] == [True, True]
        for worker in held._workers:  # so that they end later than they are told to
            worker.put(partial(sleep, 0.02))
        held.abandon()
        assert [worker._thread.is_alive() for worker in held._workers] == [False, False]

    run(work)


def test_a_key_that_is_too_short_is_refused(place: OnServer) -> None:
    with pytest.raises(MisuseError, match="an encryption key has at least"):
        PostgresLog(place.url, encryption_key=b"short")


def test_the_owner_of_a_session_is_the_worker_that_has_its_lease(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        async with log.leases() as leases:
            one = await leases.change(lambda tables: tables.register("one", ["host"], 5, 60_000))
            await leases.change(lambda tables: tables.hold(one, "s", "host", steal=False))
        assert await log.owner("s") == "one"
        log.worker = one
        assert await log.owner("s") == ""
        await log.close()

    run(work)


def test_reservations_are_handed_over_and_released(place: OnServer) -> None:
    spans = (("*", "2026"),)

    async def work() -> None:
        log = place.log()
        await log.open()
        first, second, third = (
            Reservation(CallKey("s", 1, "host", turn, 1), Need(10, 1), spans) for turn in (1, 2, 3)
        )
        for one in (first, second, third):
            await log.spending.reserve(one, [])
        await log.spending.release(third.key)
        assert (await log.spending.read()).reserved == (first, second)
        later = second._replace(key=second.key._replace(epoch=2))
        lost = first._replace(key=CallKey("s", 2, "host", 9, 1))
        assert await log.spending.hand_over("s", 2, [later], [lost], 5) == [first, lost]
        assert (await log.spending.read()).reserved == (later,)
        await log.close()

    run(work)


def test_a_forked_process_opens_the_log_itself(place: OnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: -1)
            with pytest.raises(StoreLocked, match="forked"):
                await log.sessions()
        await log.close()

    run(work)


def test_the_log_can_be_read_with_psql(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        odd = ToolReturned(turn=1, call=0, status="ok", output=Json(b'{"a":"\\u0000"}'))
        await added(log, "s", 1, [*events(1, 2), large(3), event(4, odd)])
        await log.close()

    run(work)
    query = (
        f"SELECT seq, sender, kind, body::json ->> 'reason', time::text FROM {place.schema}.log WHERE seq = 2"
    )
    ((seq, sender, kind, reason, time),) = execute(query)
    assert (seq, sender, kind, reason) == (2, "supervisor", "Cancel", "reason 2")
    assert time.startswith("2023-11-14 22:13:20.002")
    rows = execute(f"SELECT kind, body FROM {place.schema}.log ORDER BY seq")
    assert [kind for kind, _ in rows] == ["Cancel", "Cancel", "ToolReturned", "ToolReturned"]
    assert "\\u0000" in rows[3][1]


def test_the_size_grows_with_the_events_and_is_measured_again(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        await log.vacuum(None)  # else it gives back what another test left in these tables
        before = log.size_bytes()
        await added(log, "s", 1, events(1, 500))
        assert before + 500 * 200 < log.size_bytes() < before + 500 * 1_000
        await log.vacuum(1)
        assert log.size_bytes() > before
        await log.close()

    run(work)


def test_a_log_goes_on_when_the_server_ends_its_idle_connections(place: OnServer) -> None:
    """Do as hosted servers and poolers do while a model takes its time."""

    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        for first in (1, 4, 7):
            await added(log, "s", 1, events(first, first + 2))
            assert len(await log.read("s")) == first + 2
            execute(
                "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity "
                "WHERE application_name = 'callboard' AND datname = current_database()"
            )
        assert (await log.take_over("s"))[0] == 2
        await log.close()

    run(work)


def test_sessions_that_are_resumed_at_a_time_share_their_statements(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resume short and long sessions, a fork, an empty one, one that is damaged and one that is missing."""
    names = [f"s{at}" for at in range(20)]
    others = ["long", "fork", "empty", "damaged", "none"]
    asked, counts = list[str](), list[int]()
    real = Link.execute

    def counted(self: Link, query: str, values: Sequence[object] = (), doing: str = "writing") -> list[Row]:
        asked.append(query)
        return real(self, query, values, doing)

    async def work() -> None:
        log = place.log()
        await log.open()
        for name in (*names, *others[:1], *others[2:4]):
            await log.create(name, 1, "")
        for name in names:
            await added(log, name, 1, events(1, 5))
        for name in ("long", "damaged"):
            await added(log, name, 1, [*events(1, 229), large(230)])
        await log.fork("fork", 2, "", "long", 200, events(201, 203))
        execute(f"UPDATE {place.schema}.events SET at = 0 WHERE seq = 229 AND session = 23")
        for name in others:
            assert await log.owner(name) == ""
        monkeypatch.setattr(Link, "execute", counted)
        for ask in (log.checked, log.take_over, log.waiting_since):
            await asyncio.gather(*map(ask, names))
            counts.append(len(asked))
        monkeypatch.undo()
        assert counts[0] <= 2 * 2  # as many for 20 as for one; the first may be asked before the others
        assert counts[1] - counts[0] <= 2 * 5
        assert counts[2] - counts[1] <= 2 * 1
        mixed = [*others, *names]
        for ask in (log.checked, log.take_over):
            found = await asyncio.gather(*map(ask, mixed), return_exceptions=True)
            answers = dict(zip(mixed, found, strict=True))
            assert [type(answers[name]) for name in ("damaged", "none")] == [CorruptLog, SessionNotFound]
            for name in {*mixed} - {"damaged", "none"}:
                assert answers[name] == (await alone(log, name))[ask == log.take_over]
        await log.close()

    async def alone(log: PostgresLog, name: str) -> tuple[object, object]:
        epochs = {row.session_id: row.epoch for row in await log.sessions()}
        return await log.read(name), (epochs[name], await log.head(name))

    run(work)


def test_writers_that_share_values_and_budgets_are_in_no_deadlock(place: OnServer) -> None:
    """Let batches name the same values and budgets in opposite orders, as workers do."""
    scopes = [("a", "2026"), ("b", "2026")]

    async def work() -> None:
        logs = [place.log() for _ in range(3)]
        for log in logs:
            await log.open()

        async def write(at: int) -> None:
            order = 1 if at % 2 else -1
            for turn in range(6):
                await logs[at].create(f"s{at}-{turn}", 1, "")
                posted = [large(seq, 2_000, chr(97 + (seq * order + turn) % 9)) for seq in range(1, 9)]
                key = CallKey(f"s{at}-{turn}", 1, "host", turn, 1)
                settled = Settlement(Reservation(key, Need(5), tuple(scopes[::order])), Need(2))
                (answer,) = await logs[at].append([Append(key.session, 0, 1, posted, [settled])])
                assert isinstance(answer, Head)

        await asyncio.gather(*map(write, range(3)))
        assert [one.amount for one in (await logs[0].spending.read()).spent] == [Need(36), Need(36)]
        assert execute(f"SELECT count(*) FROM {place.schema}.blobs") == [(9,)]
        for log in logs:
            await log.close()

    run(work)
