"""Workers that are killed and paused while they hold places; `make crash-places` has more of them."""

from pathlib import Path

import pytest

from tests.crash.shared_places import campaign
from tests.effort import effort
from tests.postgres_server import started


@pytest.mark.slow
@pytest.mark.parametrize("calls", [4, 8])  # given call by call to three workers, and as shares
def test_no_more_calls_run_than_places_are_while_workers_are_killed_and_paused(
    calls: int, tmp_path: Path
) -> None:
    faults = effort(1, 5)
    sessions = 12 * calls * faults
    with started(Path("/tmp")) as server:  # a socket's name has at most 107 bytes
        found = campaign(
            server,
            tmp_path,
            sessions=sessions,
            calls=calls,
            kills=faults,
            pauses=faults,
            seed=calls,
        )
    assert found.most == calls
    assert found.faults == 2 * faults
