"""The rule of capacity over several workers: the places of a model that each of them may use.

One home, in the log's server, has a limit of places. A worker is told its share with each report, and starts
no call beyond it. Shares follow the sessions that have calls or wait, and are cut again with each report.

Rules
  - The places that are held never exceed the limit. A worker holds the larger of the share that it acts by
    and the calls that it has in flight, until a later report says that it acts by a smaller share. So an
    answer that is lost, or comes late, never counts a place twice.
  - A share grows only out of free places.
  - A worker that lost its lease holds its places until the lease's end and the longest time of a model call
    have passed. One that leaves with nothing in flight frees them at once.
  - No share is above the demand. Places are divided equally among the sessions, and places that one worker
    does not want go to the others.
  - A place that cannot be divided goes to the worker whose sessions have had the least so far: its places,
    by the time that it held them, by its sessions. So where there are fewer places than workers, they go
    around. Places that no one else waited for do not count, and no worker waits for longer than half a
    minute because of its earlier places. One that wants places again after a pause begins beside the least.
  - The limit is the smallest of those that workers know, so that a deploy may change it.
  - The server's clock must not be set ahead while calls run. If it is, leases end early for it, and places
    of workers that it takes for lost are counted twice, for one model timeout at most.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from callboard.actors.cluster.leases import capacity_free_at
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value

PLACES_MAX: Final = 1_000_000
HORIZON_MS: Final = 30_000  # for which a worker that had more than its part lets others go first, at most
_UNIT: Final = 1_000  # parts of a millisecond of a place, so that many sessions do not round to nothing


class Renewal(Value, frozen=True):
    """A worker's report. number: counts its reports, since a late one may arrive behind its successor.

    share: the one that it acts by. in_flight: its calls. waiting: calls that wait for a place. ends_ms: the
    end of its lease, by the server's clock. sessions: those that have these calls. lacks: tokens that it
    waits for.
    """

    worker: int
    number: int
    share: int
    in_flight: int
    waiting: int
    ends_ms: int
    sessions: int = 1
    lacks: int = 0

    @property
    def wants(self) -> int:
        """Return the places that it could use."""
        return self.in_flight + self.waiting


class Holding(Value, frozen=True):
    """A worker at the home. held: places that it may be using. used: what each of its sessions has had.

    at_ms: the time of its last report.
    """

    last: Renewal
    held: int
    used: int = 0
    at_ms: int = 0


def fair_shares(
    limit: int,
    wants: Mapping[int, int],
    order: Mapping[int, int] | None = None,
    weights: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Divide places so that the smallest share of a session is as large as it can be.

    wants: places that each worker could use. weights: its sessions, 1 if omitted. order: of the workers
    for a place that cannot be divided, the smallest number first; ties go by the worker's number.
    """
    weight = {one: max(1, weights[one] if weights else 1) for one in wants}
    shares = dict.fromkeys(wants, 0)
    # Scaled, so that the order is exact for all counts up to PLACES_MAX without fractions.
    rising = sorted(wants, key=lambda one: ((wants[one] << 60) // weight[one], one))
    left, heavy = limit, sum(weight.values())
    for at, one in enumerate(rising):
        if wants[one] * heavy > left * weight[one]:  # nor do those behind it get all that they want
            rising = rising[at:]
            break
        shares[one] = wants[one]
        left -= wants[one]
        heavy -= weight[one]
    else:
        return shares
    for one in rising:
        shares[one] = left * weight[one] // heavy
    spare = left - sum(shares[one] for one in rising)
    turns = order or {}
    for one in sorted(rising, key=lambda one: (turns.get(one, 0), one))[:spare]:
        shares[one] += 1
    return shares


class Shares:
    """The places of one model over all workers. model_timeout_ms: the longest time of a call.

    Raises MisuseError for a limit that is not between 1 and `PLACES_MAX`.
    """

    def __init__(self, limit: int, model_timeout_ms: int, holdings: Iterable[Holding] = ()) -> None:
        if not 1 <= limit <= PLACES_MAX:
            raise MisuseError(f"a capacity of {limit} places: give 1 to {PLACES_MAX}")
        self.limit = limit
        self._timeout_ms = model_timeout_ms
        self.holdings = {one.last.worker: one for one in holdings}

    @property
    def held(self) -> int:
        """Return the places that are held, never more than the limit, unless it became smaller."""
        return sum(one.held for one in self.holdings.values())

    def live(self, now: int) -> dict[int, Renewal]:
        """Return the last reports of the workers whose leases have not ended."""
        return {name: one.last for name, one in self.holdings.items() if one.last.ends_ms > now}

    def renew(self, renewal: Renewal, now: int) -> int | None:
        """Take a worker's report and return its new share. now: by the server's clock.

        A report that comes behind a later one, or behind the end of its lease, changes nothing and is given
        None: a worker that lost its lease comes back under another number.
        """
        self.expire(now)
        former = self.holdings.get(renewal.worker)
        if renewal.ends_ms <= now or (former is not None and renewal.number <= former.last.number):
            return None
        # No worker has more than it was given.
        held = min(max(renewal.share, renewal.in_flight), former.held) if former is not None else 0
        used = self._used(former, renewal, now)
        self.holdings[renewal.worker] = Holding(renewal, held, used, now)
        share = min(self._fair(renewal.worker, now), max(held, held + self.limit - self.held))
        self.holdings[renewal.worker] = Holding(renewal, max(held, share), used, now)
        return share

    def _used(self, former: Holding | None, renewal: Renewal, now: int) -> int:
        """Return what each session of a worker has had while others waited, in places by time."""
        others = [
            one for name, one in self.holdings.items() if name != renewal.worker and one.last.ends_ms > now
        ]
        least = min((one.used for one in others if one.last.wants), default=0)
        if former is None or not former.last.wants:
            return max(former.used if former is not None else 0, least)
        if not any(one.last.waiting for one in others):
            return former.used
        passed = min(max(0, now - former.at_ms), HORIZON_MS) * _UNIT
        used = former.used + former.held * passed // max(1, former.last.sessions)
        sessions = renewal.sessions + sum(one.last.sessions for one in others)
        return min(used, least + self.limit * HORIZON_MS * _UNIT // max(1, sessions))

    def _fair(self, worker: int, now: int) -> int:
        """Return the fair share of a worker among those under live leases."""
        live = {name: one for name, one in self.live(now).items() if one.wants}
        return fair_shares(
            self.limit,
            {name: min(one.wants, self.limit) for name, one in live.items()},
            {name: self.holdings[name].used for name in live},
            {name: one.sessions for name, one in live.items()},
        ).get(worker, 0)

    def leave(self, worker: int) -> None:
        """Free the places of a worker that has nothing in flight and starts nothing more."""
        self.holdings.pop(worker, None)

    def expire(self, now: int) -> None:
        """Free the places of workers whose last call has ended."""
        for name, one in list(self.holdings.items()):
            if now >= capacity_free_at(one.last.ends_ms, self._timeout_ms):
                del self.holdings[name]
