"""PostgresLog: the contract, and what a log on a server has of its own."""

import gc
import os
from collections.abc import Iterator

import pytest

from callboard.actors.protocol.errors import MisuseError, StoreLocked
from callboard.replay.testing.stores import contract
from callboard.replay.testing.stores.contract import StoreContract, StorePlace
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.postgres.link import Link
from tests.postgres_server import execute
from tests.runtime.log.kit import added, events, large, run
from tests.runtime.log.postgres.places import OnServer, on_server
from tests.runtime.log.transcripts import compare

KEY = b"k" * 32


class TestPostgresLog(StoreContract):
    @pytest.fixture
    def place(self) -> Iterator[StorePlace]:
        with on_server() as place:
            yield place


class TestEncryptedLog(contract.CatalogCases, contract.ForkCases):
    """The cases in which texts and large values are encrypted; the others do the same as above."""

    @pytest.fixture
    def place(self) -> Iterator[StorePlace]:
        with on_server(KEY) as place:
            yield place


@pytest.mark.parametrize("encryption_key", [None, KEY])
def test_a_log_on_a_server_says_what_one_in_memory_says(encryption_key: bytes | None) -> None:
    with on_server(encryption_key) as place:
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
        await added(log, "s", 1, [*events(1, 2), large(3)])
        await log.close()

    run(work)
    query = (
        f"SELECT seq, sender, kind, body::json ->> 'reason', time::text FROM {place.schema}.log WHERE seq = 2"
    )
    ((seq, sender, kind, reason, time),) = execute(query)
    assert (seq, sender, kind, reason) == (2, "supervisor", "Cancel", "reason 2")
    assert time.startswith("2023-11-14 22:13:20.002")


def test_the_size_grows_with_the_events_and_is_measured_again(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        before = log.size_bytes()
        await added(log, "s", 1, events(1, 500))
        assert before + 500 * 200 < log.size_bytes() < before + 500 * 1_000
        await log.vacuum(1)
        assert log.size_bytes() > before
        await log.close()

    run(work)
