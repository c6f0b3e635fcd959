"""The state of the workers of a log, and of the sessions that none of them has."""

from collections.abc import Sequence
from typing import NamedTuple

from callboard.actors.cluster.claims import WaitingSession, waits_for
from callboard.runtime.log.postgres.followers import FollowerRow
from callboard.runtime.log.postgres.leases import WorkerRow


class ClusterStats(NamedTuple):
    """The workers of a log, also those whose lease has ended, and the sessions that no worker has.

    waiting: each session with the reason why it waits; at most 1,000, the oldest first.
    followers: the clients that are notified of events, with the sessions that each follows.
    """

    workers: tuple[WorkerRow, ...]
    waiting: tuple[tuple[str, str], ...]
    followers: tuple[FollowerRow, ...]


def stats_of(
    workers: Sequence[WorkerRow], waiting: Sequence[WaitingSession], followers: Sequence[FollowerRow]
) -> ClusterStats:
    """Return the numbers of some workers and followers, and what each waiting session waits for."""
    live = [one.state for one in workers if one.left_ms > 0]
    return ClusterStats(
        tuple(workers),
        tuple((one.session, waits_for(one, live) or "its claim") for one in waiting),
        tuple(followers),
    )
