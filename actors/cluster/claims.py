"""The rule of claims: which waiting sessions a worker takes, and what a session waits for.

Rules
  - A worker takes only sessions whose host it has registered, and none that it has refused before, because
    its agents differ from the recorded ones. So workers of two releases run beside each other.
  - It takes at most its part of the waiting sessions, by its free slots among all free slots, rounded up, so
    that the first of many workers does not take all.
  - The oldest comes first within a host, and hosts take turns, so that a crowd of one host does not delay
    the others.
"""

from collections.abc import Iterable, Sequence
from itertools import islice, zip_longest

from callboard.actors.protocol.immutable import Value


class WorkerState(Value, frozen=True):
    """A worker under a live lease. hosts: the names of the agents that it has. running: its sessions."""

    worker: int
    hosts: tuple[str, ...]
    slots: int
    running: int = 0
    is_draining: bool = False

    @property
    def free(self) -> int:
        """Return the number of sessions that it may take."""
        return 0 if self.is_draining else max(0, self.slots - self.running)


class WaitingSession(Value, frozen=True):
    """An unfinished session that no worker has. since_ms: since when.

    refused_by: the workers whose agents differ from the recorded ones.
    """

    session: str
    host: str
    since_ms: int
    refused_by: tuple[int, ...] = ()


def part_of(waiting: int, worker: WorkerState, free_of_all: int) -> int:
    """Return how many of so many waiting sessions a worker takes. free_of_all: free slots of all workers."""
    if not worker.free:
        return 0
    return min(worker.free, -(-waiting * worker.free // max(free_of_all, worker.free)))


def claims(waiting: Iterable[WaitingSession], worker: WorkerState, free_of_all: int) -> list[WaitingSession]:
    """Return the sessions that a worker takes now, in the order in which it resumes them."""
    lines: dict[str, list[WaitingSession]] = {}
    for one in waiting:
        if one.host in worker.hosts and worker.worker not in one.refused_by:
            lines.setdefault(one.host, []).append(one)
    count = part_of(sum(map(len, lines.values())), worker, free_of_all)
    for line in lines.values():
        line.sort(key=lambda one: (one.since_ms, one.session))
    ordered = sorted(lines.values(), key=lambda line: (line[0].since_ms, line[0].session))
    rounds = (one for found in zip_longest(*ordered) for one in found if one is not None)
    return list(islice(rounds, count))


def waits_for(session: WaitingSession, workers: Sequence[WorkerState]) -> str:
    """Return what a session waits for, as a sentence; empty if a worker takes it with its next claim."""
    having = [one for one in workers if session.host in one.hosts]
    if not having:
        return f"a worker with the agent {session.host!r}"
    fitting = [one for one in having if one.worker not in session.refused_by]
    if not fitting:
        return f"a worker whose agent {session.host!r} is as recorded"
    return "" if any(one.free for one in fitting) else "a free slot"
