"""The rule of capacity over several workers: the places of a model that each of them may use.

One home, in the log's server, has a limit of places. A worker is told its share with each renewal of its
lease, and starts no call beyond it. Shares follow the demand, and are cut again with each renewal.

Rules
  - The places that are held never exceed the limit. A worker holds the larger of the share that it acts by
    and the calls that it has in flight, until a later renewal says that it acts by a smaller share. So an
    answer that is lost, or comes late, never counts a place twice.
  - A share grows only out of free places.
  - A worker that lost its lease holds its places until the lease's end and the longest time of a model call
    have passed. One that leaves with nothing in flight frees them at once.
  - No share is above the demand. Places that one worker does not want go to the others, equally.
  - Where there are fewer places than workers, they go around: a worker that was given one is behind all that
    were given none since, so it gives its place back as its call ends.
  - The server's clock must not be set ahead while calls run. If it is, leases end early for it, and places
    of workers that it takes for lost are counted twice, for one model timeout at most.
"""

from collections.abc import Mapping
from typing import Final

from callboard.actors.cluster.leases import capacity_free_at
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value

PLACES_MAX: Final = 1_000_000


class Renewal(Value, frozen=True):
    """A worker's report. number: counts its reports, since a late one may arrive behind its successor.

    share: the one that it acts by. in_flight: its calls. waiting: calls that wait for a place. ends_ms: the
    end of its lease after this renewal, by the server's clock.
    """

    worker: int
    number: int
    share: int
    in_flight: int
    waiting: int
    ends_ms: int

    @property
    def wants(self) -> int:
        """Return the places that it could use."""
        return self.in_flight + self.waiting


class Holding(Value, frozen=True):
    """A worker at the home. held: places that it may be using. given_at: the turn of its last new place."""

    last: Renewal
    held: int
    given_at: int


def equal_shares(
    limit: int, wants: Mapping[int, int], order: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Divide places so that the smallest share is as large as it can be. The remainder goes by `order`.

    wants: places that each could use. order: a smaller number goes first; ties go by the worker's number.
    """
    shares = dict.fromkeys(wants, 0)
    left = limit
    rising = sorted(wants, key=lambda one: (wants[one], one))
    while rising and left >= len(rising):
        level = min(left // len(rising), wants[rising[0]] - shares[rising[0]])
        for one in rising:
            shares[one] += level
        left -= level * len(rising)
        rising = [one for one in rising if shares[one] < wants[one]]
    turns = order or {}
    for one in sorted(rising, key=lambda one: (turns.get(one, 0), one))[:left]:
        shares[one] += 1
    return shares


class Shares:
    """The places of one model over all workers. model_timeout_ms: the longest time of a call.

    Raises MisuseError for a limit that is not between 1 and `PLACES_MAX`.
    """

    def __init__(self, limit: int, model_timeout_ms: int) -> None:
        if not 1 <= limit <= PLACES_MAX:
            raise MisuseError(f"a capacity of {limit} places: give 1 to {PLACES_MAX}")
        self.limit = limit
        self._timeout_ms = model_timeout_ms
        self._holdings: dict[int, Holding] = {}
        self._turn = 0

    @property
    def held(self) -> int:
        """Return the places that are held, never more than the limit."""
        return sum(one.held for one in self._holdings.values())

    def renew(self, renewal: Renewal, now: int) -> int:
        """Take a worker's report and return its new share. now: by the server's clock.

        A report that comes behind a later one, or behind the end of its lease, changes nothing and is given
        no place: a worker that lost its lease comes back under another number.
        """
        self.expire(now)
        former = self._holdings.get(renewal.worker)
        if former is not None and (renewal.number <= former.last.number or former.last.ends_ms <= now):
            return 0
        held = max(renewal.share, renewal.in_flight) if former is not None else 0
        if former is not None:
            held = min(held, former.held)  # no worker has more than it was given
        self._holdings[renewal.worker] = Holding(renewal, held, former.given_at if former else 0)
        share = min(self._fair(renewal.worker, now), held + self.limit - self.held)
        self._note(renewal.worker, held, share)
        return share

    def _fair(self, worker: int, now: int) -> int:
        """Return the fair share of a worker among those under live leases."""
        live = {name: one for name, one in self._holdings.items() if one.last.ends_ms > now}
        wants = {name: min(one.last.wants, self.limit) for name, one in live.items() if one.last.wants}
        return equal_shares(self.limit, wants, {name: one.given_at for name, one in live.items()}).get(
            worker, 0
        )

    def _note(self, worker: int, held: int, share: int) -> None:
        one = self._holdings[worker]
        given_at = one.given_at
        if share:
            self._turn += 1
            given_at = self._turn
        self._holdings[worker] = Holding(one.last, max(held, share), given_at)

    def leave(self, worker: int) -> None:
        """Free the places of a worker that has nothing in flight and starts nothing more."""
        self._holdings.pop(worker, None)

    def expire(self, now: int) -> None:
        """Free the places of workers whose last call has ended."""
        for name, one in list(self._holdings.items()):
            if now >= capacity_free_at(one.last.ends_ms, self._timeout_ms):
                del self._holdings[name]
