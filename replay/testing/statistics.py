"""The statistics of a campaign, in numbers that can be added up and memory that does not grow.

Partial orders are told apart by what each actor handled, in order; end states by their digest. Both are
hashes in sets of a limited size: a full one says "at least".

The duration of a campaign: the only clock in this folder, which no world sees.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from time import monotonic
from typing import NamedTuple

import msgspec

from callboard.replay.testing.run import Run
from callboard.replay.testing.world import Covers, Move, World

DISTINCT_MAX = 100_000
FAULTS_MAX = 1_000
SAMPLED_FIRST = 100  # coverage, width and strands of a run cost as much as the run
SAMPLED_EVERY = 64
SUMS = ("runs", "steps", "at_rest", "cut", "unfinished")
MOSTS = ("longest", "widest", "strands")


def order_hash(made: Sequence[Move]) -> bytes:
    """Return a hash of a run's partial order: equal where every actor handled the same in the same order."""
    handled: defaultdict[str, list[str]] = defaultdict(list)
    for move in made:
        handled[move.actor].append(move.label)
    text = "\1".join(["\0".join(handled[actor]) for actor in sorted(handled)])
    return blake2b(text.encode(), digest_size=8).digest()


@dataclass
class Statistics:
    """The figures of a campaign so far."""

    runs: int = 0
    steps: int = 0
    longest: int = 0  # steps of the longest run
    widest: int = 0  # most moves offered at once
    strands: int = 0  # most of them in one run
    cut: int = 0  # runs given up because the rest was known
    at_rest: int = 0  # runs that came to their end
    unfinished: int = 0  # runs that a bound ended before
    orders: set[bytes] = field(default_factory=set)
    ends: set[bytes] = field(default_factory=set)
    coverage: set[tuple[str, str, str]] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)

    def is_sampled(self) -> bool:
        """Return whether the next run is one of those with full statistics."""
        return self.runs < SAMPLED_FIRST or self.runs % SAMPLED_EVERY == 0

    def add(self, world: World, run: Run) -> None:
        """Count a run."""
        made = run.made
        self.runs += 1
        self.cut += run.is_cut
        self.unfinished += run.is_unfinished
        self.steps += len(made)
        self.longest = max(self.longest, len(made))
        if not run.is_cut and len(self.orders) < DISTINCT_MAX:
            self.orders.add(order_hash(made))
        if run.is_at_rest and run.violation is None:
            self.at_rest += 1
            if len(self.ends) < DISTINCT_MAX:
                self.ends.add(world.digest()[:8])
        for label in [move.label for move in made if move.kind == "fault"]:
            if label in self.faults or len(self.faults) < FAULTS_MAX:
                self.faults[label] += 1

    def look_closely(self, world: World, made: Sequence[Move], widest: int) -> None:
        """Record the statistics that are taken of some runs only."""
        self.widest = max(self.widest, widest)
        self.strands = max(self.strands, len({move.strand for move in made}))
        if isinstance(world, Covers):
            self.coverage.update(world.coverage())

    def merge(self, other: "Statistics") -> None:
        """Add the figures of another process."""
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in MOSTS:
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.orders |= other.orders
        self.ends |= other.ends
        self.coverage |= other.coverage
        self.faults += other.faults

    def bound(self, depth: int) -> float:
        """Return the least probability with which a run of PCT at this depth hits a bug of that depth."""
        # For runs no longer and no wider than those that were seen.
        strands, steps = max(self.widest**2, self.strands, 1), max(self.longest, 1)
        return 1.0 / (strands * float(steps) ** (depth - 1))


class CampaignProgress(NamedTuple):
    """The progress of a campaign, in a few numbers that another process can send often."""

    runs: int = 0
    orders: int = 0
    situations: int = 0
    faults: int = 0  # that struck
    kinds: int = 0  # of these

    @classmethod
    def at(cls, statistics: Statistics) -> "CampaignProgress":
        """Return the progress at these statistics."""
        struck = injected(statistics.faults).values()
        orders, situations = len(statistics.orders), len(statistics.coverage)
        return cls(statistics.runs, orders, situations, sum(struck), len(struck))


def injected(faults: dict[str, int]) -> dict[str, int]:
    """Return the injected faults: without the choices of a fault mix, which injects nothing itself."""
    return {label: count for label, count in faults.items() if not label.startswith("fault mix ")}


class Figures(msgspec.Struct, frozen=True):
    """The same as plain data, for reports and JSON. bounds: for depth 1, 2 and 3."""

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
        """Return the statistics as figures."""
        orders, ends = len(statistics.orders), len(statistics.ends)
        return cls(
            **{name: getattr(statistics, name) for name in (*SUMS, *MOSTS)},
            orders=orders,
            orders_at_least=orders >= DISTINCT_MAX,
            ends=ends,
            ends_at_least=ends >= DISTINCT_MAX,
            coverage=tuple(sorted(statistics.coverage)),
            faults=dict(sorted(statistics.faults.items())),
            bounds=(statistics.bound(1), statistics.bound(2), statistics.bound(3)),
        )


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._start = monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return monotonic() - self._start
