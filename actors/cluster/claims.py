"""The rule of claims: which waiting sessions a worker takes, and what a session waits for.

Rules
  - A worker takes only sessions whose host it has registered, and none that it has refused before, because
    its agents differ from the recorded ones. So workers of two releases run beside each other.
  - It takes at most its part of the waiting sessions, by its free slots among all free slots, rounded up, so
    that the first of many workers does not take all. In a crowd it takes as many as it can open at a time:
    it has not seen all that wait, so it does not know its part, and the others find enough.
  - The oldest comes first within a host, and hosts take turns, so that a crowd of one host does not delay
    the others.
  - Where sessions count for tags, the tag with the fewest sessions under live leases comes first, and the
    oldest of its sessions. So as slots become free one by one, a tag with a thousand waiting sessions gets
    no more of them than one with three that wait.
  - A session whose workers end while they run it may be what ends them. From the second time on it rests,
    longer each time, and after `LOSSES_MAX` times in a row it waits for a person. So it cannot end all
    workers, one after the other, with all that they run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice, zip_longest
from typing import Final

from callboard.actors.protocol.immutable import Value

LOOKED_AT: Final = 8  # waiting sessions that a worker looks at, for each one that it may claim
LOSSES_MAX: Final = 5
REST_MS: Final = 30_000  # after the second loss; four times as long after each further one
REST_MS_MAX: Final = 3_600_000


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

    refused_by: the workers whose agents differ from the recorded ones. losses: how many workers in a row have
    ended while they ran it. lost_ms: the end of the last one's lease; 0 if it was given back. tag: that it
    counts for.
    """

    session: str
    host: str
    since_ms: int
    refused_by: tuple[int, ...] = ()
    losses: int = 0
    lost_ms: int = 0
    tag: str = ""

    @property
    def rests_until_ms(self) -> int:
        """Return the time from which it may be claimed, apart from `LOSSES_MAX`."""
        if self.losses < 2 or not self.lost_ms:
            return 0
        return self.lost_ms + min(REST_MS_MAX, REST_MS << 2 * min(self.losses - 2, 8))


def part_of(waiting: int, worker: WorkerState, free_of_all: int) -> int:
    """Return how many of so many waiting sessions a worker takes. free_of_all: free slots of all workers."""
    if not worker.free:
        return 0
    return min(worker.free, -(-waiting * worker.free // max(free_of_all, worker.free)))


def claims(
    waiting: Sequence[WaitingSession],
    worker: WorkerState,
    free_of_all: int,
    at_most: int,
    now: int = 0,
    losses_max: int = LOSSES_MAX,
    running: Mapping[str, int] | None = None,
) -> list[WaitingSession]:
    """Return the sessions that a worker takes now, in the order in which it resumes them.

    waiting: those that it has looked at. at_most: those that it can open at a time. now: the server's time.
    losses_max: 0 for a worker that takes them however many workers they have ended. running: sessions under
    live leases, by tag.
    """
    lines: dict[str, list[WaitingSession]] = {}
    for one in waiting:
        if losses_max and (one.losses >= losses_max or one.rests_until_ms > now):
            continue
        if one.host in worker.hosts and worker.worker not in one.refused_by:
            lines.setdefault(one.host, []).append(one)
    is_crowd = len(waiting) >= min(worker.free, at_most) * LOOKED_AT
    part = part_of(sum(map(len, lines.values())), worker, 0 if is_crowd else free_of_all)
    count = min(part, at_most)
    fair = [_by_tag(line, running or {}) for line in lines.values()]
    ordered = sorted(fair, key=lambda line: (line[0].since_ms, line[0].session))
    rounds = (one for found in zip_longest(*ordered) for one in found if one is not None)
    return list(islice(rounds, count))


def _by_tag(line: list[WaitingSession], running: Mapping[str, int]) -> list[WaitingSession]:
    """Return the sessions of a host in their order."""
    before, turns = Counter(running), list[tuple[int, int, str, WaitingSession]]()
    for one in sorted(line, key=lambda one: (one.since_ms, one.session)):
        turns.append((before[one.tag], one.since_ms, one.session, one))
        before[one.tag] += 1
    return [one for *_, one in sorted(turns, key=lambda turn: turn[:3])]


def waits_for(session: WaitingSession, workers: Sequence[WorkerState], now: int = 0) -> str:
    """Return what a session waits for, as a sentence; empty if a worker takes it with its next claim.

    now: the server's time.
    """
    if session.losses >= LOSSES_MAX:
        return (
            f"a person: the last {session.losses} workers ended while they ran it. Run it alone with "
            f"`callboard resume {session.session}`, or `callboard submit` it again"
        )
    if session.rests_until_ms > now:
        seconds = -(-(session.rests_until_ms - now) // 1_000)
        return f"{seconds} s: the last {session.losses} workers ended while they ran it"
    having = [one for one in workers if session.host in one.hosts]
    if not having:
        return f"a worker with the agent {session.host!r}"
    fitting = [one for one in having if one.worker not in session.refused_by]
    if not fitting:
        return f"a worker whose agent {session.host!r} is as recorded"
    return "" if any(one.free for one in fitting) else "a free slot"
