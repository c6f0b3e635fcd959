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
  - Where sessions count for tags (`Capacity.fair_by`), a worker has a share for each tag, and reports each.
    Places are divided equally among the tags, and those of a tag as above. A place that cannot be divided
    goes to the tag that has had the least so far, by the same rule.
  - The limit is the smallest of those that workers know, so that a deploy may change it.
  - The server's clock must not be set ahead while calls run. If it is, leases end early for it, and places
    of workers that it takes for lost are counted twice, for one model timeout at most.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from callboard.actors.cluster.leases import capacity_free_at
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value

PLACES_MAX: Final = 1_000_000
HORIZON_MS: Final = 30_000  # for which a worker that had more than its part lets others go first, at most
_UNIT: Final = 1_000  # parts of a millisecond of a place, so that many sessions do not round to nothing

Key = TypeVar("Key", bound=Hashable)


class Sharer(NamedTuple):
    """A worker, as far as it runs the sessions of a tag. tag: empty for sessions without one."""

    worker: int
    tag: str = ""


class Renewal(Value, frozen=True):
    """A worker's report. number: counts its reports, since a late one may arrive behind its successor.

    share: the one that it acts by. in_flight: its calls. waiting: calls that wait for a place. ends_ms: the
    end of its lease, by the server's clock. sessions: those that have these calls. lacks: tokens that it
    waits for. tag: that these sessions count for.
    """

    worker: int
    number: int
    share: int
    in_flight: int
    waiting: int
    ends_ms: int
    sessions: int = 1
    lacks: int = 0
    tag: str = ""

    @property
    def sharer(self) -> Sharer:
        """Return the one who reports."""
        return Sharer(self.worker, self.tag)

    @property
    def wants(self) -> int:
        """Return the places that it could use."""
        return self.in_flight + self.waiting


class Holding(Value, frozen=True):
    """A worker at the home. held: places that it may be using. used: what each of its sessions has had.

    at_ms: the time of its last report. tag_used: what its tag has had from all workers, as it was then.
    """

    last: Renewal
    held: int
    used: int
    at_ms: int
    tag_used: int


def fair_shares(
    limit: int,
    wants: Mapping[Key, int],
    order: Mapping[Key, int] | None = None,
    weights: Mapping[Key, int] | None = None,
) -> dict[Key, int]:
    """Divide places so that the smallest share of a session is as large as it can be.

    wants: places that each worker could use. weights: its sessions, 1 if omitted. order: of the workers
    for a place that cannot be divided, the smallest number first; ties go by the worker's number.
    """
    ties: Any = {one: one for one in wants}  # of keys that have an order
    weight = {one: max(1, weights[one] if weights else 1) for one in wants}
    shares = dict.fromkeys(wants, 0)
    # Scaled, so that the order is exact for all counts up to PLACES_MAX without fractions.
    rising = sorted(wants, key=lambda one: ((wants[one] << 60) // weight[one], ties[one]))
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
    for one in sorted(rising, key=lambda one: (turns.get(one, 0), ties[one]))[:spare]:
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
        self.holdings = {one.last.sharer: one for one in holdings}

    @property
    def held(self) -> int:
        """Return the places that are held, never more than the limit, unless it became smaller."""
        return sum(one.held for one in self.holdings.values())

    def live(self, now: int) -> dict[Sharer, Renewal]:
        """Return the last reports of the workers whose leases have not ended."""
        return {name: one.last for name, one in self.holdings.items() if one.last.ends_ms > now}

    def renew(self, renewal: Renewal, now: int) -> int | None:
        """Take a worker's report and return its new share. now: by the server's clock.

        A report that comes behind a later one, or behind the end of its lease, changes nothing and is given
        None: a worker that lost its lease comes back under another number.
        """
        self.expire(now)
        name = renewal.sharer
        former = self.holdings.get(name)
        if renewal.ends_ms <= now or (former is not None and renewal.number <= former.last.number):
            return None
        # No worker has more than it was given.
        held = min(max(renewal.share, renewal.in_flight), former.held) if former is not None else 0
        used, tag_used = self._used(former, renewal, now), self._tag_used(former, renewal, now)
        self.holdings[name] = Holding(renewal, held, used, now, tag_used)
        fair = self.divided(self.limit, {one: last.wants for one, last in self.live(now).items()}, now)
        share = min(fair.get(name, 0), max(held, held + self.limit - self.held))
        self.holdings[name] = Holding(renewal, max(held, share), used, now, tag_used)
        if renewal.tag and not self.holdings[name].held and not renewal.wants:
            del self.holdings[name]  # there may be any number of tags
        return share

    def divided(self, limit: int, wants: Mapping[Sharer, int], now: int) -> dict[Sharer, int]:
        """Divide places, or tokens, among live workers: equally by tag, and by session within each tag."""
        live = self.live(now)
        tags: dict[str, dict[Sharer, int]] = {}
        for name, wanted in wants.items():
            if wanted:
                tags.setdefault(name.tag, {})[name] = min(wanted, limit)
        order = {tag: self._had_by(tag) for tag in tags}
        parts = fair_shares(limit, {tag: min(limit, sum(own.values())) for tag, own in tags.items()}, order)
        shares: dict[Sharer, int] = {}
        for tag, own in tags.items():
            used = {name: self.holdings[name].used for name in own}
            shares |= fair_shares(parts[tag], own, used, {name: live[name].sessions for name in own})
        return shares

    def _used(self, former: Holding | None, renewal: Renewal, now: int) -> int:
        """Return what each session of a worker has had while others of its tag waited, in places by time."""
        others = [one for one in self._others(renewal, now) if one.last.tag == renewal.tag]
        least = min((one.used for one in others if one.last.wants), default=0)
        if former is None or not former.last.wants:
            return max(former.used if former is not None else 0, least)
        if not any(one.last.waiting for one in others):
            return former.used
        used = former.used + _had(former, now) // max(1, former.last.sessions)
        sessions = renewal.sessions + sum(one.last.sessions for one in others)
        return min(used, least + self.limit * HORIZON_MS * _UNIT // max(1, sessions))

    def _tag_used(self, former: Holding | None, renewal: Renewal, now: int) -> int:
        """Return what a tag has had while others waited, in places by time. Each worker adds its own."""
        others = self._others(renewal, now)
        rivals = [one for one in others if one.last.tag != renewal.tag]
        wanting = {one.last.tag for one in rivals if one.last.wants}
        least = min((self._had_by(tag) for tag in sorted(wanting)), default=0)
        had = self._had_by(renewal.tag)
        own = [one for one in (former, *others) if one is not None and one.last.tag == renewal.tag]
        if not any(one.last.wants for one in own):
            return max(had, least)
        if former is None or not any(one.last.waiting for one in rivals):
            return had
        return min(had + _had(former, now), least + self.limit * HORIZON_MS * _UNIT // (len(wanting) + 1))

    def _others(self, renewal: Renewal, now: int) -> list[Holding]:
        return [
            one for name, one in self.holdings.items() if name != renewal.sharer and one.last.ends_ms > now
        ]

    def _had_by(self, tag: str) -> int:
        own = [(one.at_ms, one.tag_used) for name, one in self.holdings.items() if name.tag == tag]
        return max(own)[1] if own else 0  # each report goes on from the one before

    def leave(self, worker: int, tag: str = "") -> None:
        """Free the places of a worker that has nothing in flight and starts nothing more."""
        self.holdings.pop(Sharer(worker, tag), None)

    def expire(self, now: int) -> None:
        """Free the places of workers whose last call has ended."""
        for name, one in list(self.holdings.items()):
            if now >= capacity_free_at(one.last.ends_ms, self._timeout_ms):
                del self.holdings[name]


def _had(one: Holding, now: int) -> int:
    """Return what a worker has had since its last report, in places by time."""
    return one.held * min(max(0, now - one.at_ms), HORIZON_MS) * _UNIT
