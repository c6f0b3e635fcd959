"""Fixtures of the tests of workers."""

from collections.abc import Iterator

import pytest

from tests.runtime.log.postgres.places import OnServer, on_server


@pytest.fixture
def place() -> Iterator[OnServer]:
    with on_server() as place:
        yield place
