"""Fixtures of the tests of logs on a server."""

from collections.abc import Iterator

import pytest

from callboard.runtime.log.postgres.store import PostgresStore
from callboard.runtime.log.protocol import GENESIS
from tests.runtime.log.postgres.places import OnServer, on_server, store_of


@pytest.fixture
def place() -> Iterator[OnServer]:
    with on_server() as place:
        yield place


@pytest.fixture
def store(place: OnServer) -> Iterator[PostgresStore]:
    made = store_of(place)
    for name in "abc":
        assert made.create(name, 1, "", GENESIS) == 1
    yield made
    made.link.close()


@pytest.fixture
def other(place: OnServer, store: PostgresStore) -> Iterator[PostgresStore]:
    made = store_of(place)
    yield made
    made.link.close()
