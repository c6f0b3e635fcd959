"""PostgresLog: the contract, and what a log on a server has of its own."""

from collections.abc import Iterator

import pytest

from callboard.replay.testing.stores.contract import StoreContract, StorePlace
from callboard.runtime.log.memory import MemoryLog
from tests.runtime.log.postgres.places import OnServer, on_server
from tests.runtime.log.transcripts import compare

KEY = b"k" * 32


class TestPostgresLog(StoreContract):
    @pytest.fixture
    def place(self) -> Iterator[StorePlace]:
        with on_server() as place:
            yield place


class TestEncryptedLog(StoreContract):
    @pytest.fixture
    def place(self) -> Iterator[StorePlace]:
        with on_server(KEY) as place:
            yield place


@pytest.fixture
def place() -> Iterator[OnServer]:
    with on_server() as place:
        yield place


@pytest.mark.parametrize("encryption_key", [None, KEY])
def test_a_log_on_a_server_says_what_one_in_memory_says(encryption_key: bytes | None) -> None:
    with on_server(encryption_key) as place:
        compare(MemoryLog(), place.log(), place.reader)
