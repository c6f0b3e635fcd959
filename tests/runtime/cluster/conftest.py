"""Fixtures of the tests of workers."""

from collections.abc import Iterator

import pytest

from callboard.runtime.cluster import worker as module
from tests.runtime.cluster.kit import World
from tests.runtime.log.postgres.places import OnServer, on_server


@pytest.fixture
def place() -> Iterator[OnServer]:
    with on_server() as place:
        yield place


@pytest.fixture
def world(place: OnServer, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "POLL_MS", 20)
    return World(place, monkeypatch)
