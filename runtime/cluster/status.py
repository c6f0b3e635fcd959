"""The state of the workers of a log, and of the sessions that none of them has."""

from collections.abc import Sequence
from typing import NamedTuple

from callboard.actors.cluster.claims import WaitingSession, waits_for
from callboard.runtime.log.postgres.leases import WorkerRow


class ClusterStats(NamedTuple):
    """The workers of a log, also those whose lease has ended, and the sessions that no worker has.

    waiting: each session with the reason why it waits; at most 1,000, the oldest first.
    """

    workers: tuple[WorkerRow, ...]
    waiting: tuple[tuple[str, str], ...]


def stats_of(workers: Sequence[WorkerRow], waiting: Sequence[WaitingSession]) -> ClusterStats:
    """Return the numbers of some workers, and what each waiting session waits for."""
    live = [one.state for one in workers if one.left_ms > 0]
    return ClusterStats(
        tuple(workers), tuple((one.session, waits_for(one, live) or "its claim") for one in waiting)
    )
