"""Writers of a log on PostgreSQL that are disturbed; `make crash-postgres` has hundreds of rounds."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.crash.postgres import KINDS, SETTINGS, round_of
from tests.effort import effort
from tests.postgres_server import Server, started


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    folder = Path("/tmp")  # a socket's name has at most 107 bytes
    with started(folder, **SETTINGS) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_disturbed_writer_is_told_only_what_the_log_has(server: Server, kind: str) -> None:
    for number in range(effort(1, 10)):
        round_of(kind, server, Random(f"suite {number}"))
