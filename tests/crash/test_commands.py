"""Owners and clients that are killed between the steps of commands; `make crash-commands` has more rounds."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.crash.command_points import POINTS
from tests.crash.commands import round_of
from tests.effort import effort
from tests.postgres_server import Server, started


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with started(Path("/tmp")) as server:  # a socket's name has at most 107 bytes
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_command_has_one_event_and_one_result_whichever_process_is_killed_at_which_step(
    server: Server, tmp_path: Path, point: str
) -> None:
    chance = Random(f"suite {point}")
    for _ in range(effort(1, 5)):
        round_of(server, tmp_path, point, chance.randint(1, POINTS[point]), chance)
