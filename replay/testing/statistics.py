"""What a campaign saw, in numbers that can be added up and memory that does not grow.

Rules
  - Partial orders are told apart by what each actor handled, in order; end states by their digest. Both are
    hashes in sets of a fixed size: a full one says "at least".
  - Coverage, width and strands are taken of the first runs and then of some: they cost as much as the run.
  - bound: the least probability with which one run of PCT at depth d hits a bug of that depth; see `pct`. It
    holds for runs no longer and no wider than those that were seen.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from math import log

import msgspec

from callboard.replay.testing.world import Covers, Move, World

DISTINCT_MAX = 100_000
FAULTS_MAX = 1_000
SAMPLED_FIRST = 100
SAMPLED_EVERY = 64


class Distinct:
    """Counts different things up to a limit, by hashes of eight bytes."""

    def __init__(self, limit: int = DISTINCT_MAX) -> None:
        self._limit = limit
        self.hashes: set[bytes] = set()

    def add(self, thing: bytes) -> None:
        """Count it, if it is new and there is room."""
        if len(self.hashes) < self._limit:
            self.hashes.add(thing)

    def update(self, things: Iterable[bytes]) -> None:
        """Count them all."""
        for thing in things:
            self.add(thing)

    @property
    def is_full(self) -> bool:
        """Return whether there may be more than were counted."""
        return len(self.hashes) >= self._limit

    def __len__(self) -> int:
        return len(self.hashes)

    def __str__(self) -> str:
        return f"at least {len(self):,}" if self.is_full else f"{len(self):,}"


def order_hash(made: Sequence[Move]) -> bytes:
    """Return a hash of a run's partial order: equal where every actor handled the same in the same order."""
    handled: dict[str, list[str]] = {}
    for move in made:
        actor = move.actor
        if actor in handled:
            handled[actor].append(move.label)
        else:
            handled[actor] = [move.label]
    text = "\1".join(["\0".join(handled[actor]) for actor in sorted(handled)])
    return blake2b(text.encode(), digest_size=8).digest()


class Statistics:
    """The figures of a campaign so far.

    longest: steps of the longest run. widest: most moves offered at once. strands: most of them in one run.
    cut: runs given up because the rest was known. at_rest: runs that came to their end. unfinished: runs
    that a bound ended before.
    """

    def __init__(self) -> None:
        self.runs = self.steps = self.longest = self.widest = self.strands = 0
        self.cut = self.at_rest = self.unfinished = 0
        self.orders = Distinct()
        self.ends = Distinct()
        self.coverage: set[tuple[str, str, str]] = set()
        self.faults: Counter[str] = Counter()

    def is_sampled(self) -> bool:
        """Return whether the next run is one of those with full statistics."""
        return self.runs < SAMPLED_FIRST or self.runs % SAMPLED_EVERY == 0

    def add(
        self,
        world: World,
        made: Sequence[Move],
        is_at_rest: bool,
        is_cut: bool,
        is_unfinished: bool = False,
    ) -> None:
        """Count a run."""
        self.runs += 1
        self.cut += is_cut
        self.unfinished += is_unfinished
        self.steps += len(made)
        self.longest = max(self.longest, len(made))
        if not is_cut:
            self.orders.add(order_hash(made))
        if is_at_rest:
            self.at_rest += 1
            self.ends.add(world.digest()[:8])
        if "fault" in [move.kind for move in made]:
            self._count_faults(made)

    def look_closely(self, world: World, made: Sequence[Move], widest: int) -> None:
        """Record the statistics that are taken of some runs only."""
        self.widest = max(self.widest, widest)
        self.strands = max(self.strands, len({move.strand for move in made}))
        if isinstance(world, Covers):
            self.coverage.update(world.coverage())

    def _count_faults(self, made: Iterable[Move]) -> None:
        for move in made:
            if move.kind == "fault" and (move.label in self.faults or len(self.faults) < FAULTS_MAX):
                self.faults[move.label] += 1

    def merge(self, other: "Statistics") -> None:
        """Add the figures of another process."""
        for name in ("runs", "steps", "cut", "at_rest", "unfinished"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("longest", "widest", "strands"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.orders.update(other.orders.hashes)
        self.ends.update(other.ends.hashes)
        self.coverage |= other.coverage
        self.faults += other.faults

    def bound(self, depth: int) -> float:
        """Return the least probability that one run hits a bug of this depth."""
        strands, steps = max(self.widest**2, self.strands, 1), max(self.longest, 1)
        return 1.0 / (strands * float(steps) ** (depth - 1))

    def runs_for(self, depth: int, certainty: float = 0.999) -> int:
        """Return how many runs of PCT at this depth find a bug of it with this certainty."""
        return round(-log(1 - certainty) / self.bound(depth))


class Figures(msgspec.Struct, frozen=True):
    """The same as plain data, for reports and JSON."""

    runs: int
    steps: int
    at_rest: int
    cut: int
    unfinished: int
    longest: int
    widest: int
    strands: int
    orders: int
    orders_at_least: bool
    ends: int
    ends_at_least: bool
    coverage: tuple[tuple[str, str, str], ...]
    faults: dict[str, int]
    bounds: tuple[float, float, float]

    @classmethod
    def of(cls, statistics: Statistics) -> "Figures":
        """Return the statistics as figures. bounds: for depth 1, 2 and 3."""
        return cls(
            runs=statistics.runs,
            steps=statistics.steps,
            at_rest=statistics.at_rest,
            cut=statistics.cut,
            unfinished=statistics.unfinished,
            longest=statistics.longest,
            widest=statistics.widest,
            strands=statistics.strands,
            orders=len(statistics.orders),
            orders_at_least=statistics.orders.is_full,
            ends=len(statistics.ends),
            ends_at_least=statistics.ends.is_full,
            coverage=tuple(sorted(statistics.coverage)),
            faults=dict(sorted(statistics.faults.items())),
            bounds=(statistics.bound(1), statistics.bound(2), statistics.bound(3)),
        )
