"""Shrink a run that breaks a rule: to the fewest faults and client moves, then steps, then overtakings.

Rules
  - A candidate is a list of strands: their moves are made as far as they are offered, then everyone in turn.
  - Only what breaks the same rule counts; another violation met on the way is another bug.
  - First faults and client moves are dropped, even where the rule is then broken later; then all of one
    strand, then stretches of steps from long to single (delta debugging: Zeller, Hildebrandt, TSE 2002; in
    the order of DEMi: Scott et al., NSDI 2016, whose results are 1 to 4.6 times the size of the smallest).
  - Then a move that could have been made earlier is, as long as the rule stays broken. So an overtaking that
    is still there is one that matters.
  - The result is minimal in this sense: no single step can be dropped, no single one moved up. When the
    budget of steps or the time (`is_over`) is used up, it is the best run so far.
  - Of two steps that race it is only told which came first if that matters: with the other order, made of
    these steps alone, the rule is kept, and it is not broken later, when the run is completed. That the order
    decides is only said where the other order lost no step and kept every rule.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeAlias

import msgspec

from callboard.replay.testing.happens_before import Order, unneeded_steps
from callboard.replay.testing.run import FAIR_FACTOR, Bounds, Run, not_faults, perform, replay_on
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.schedulers.sampling import Turns
from callboard.replay.testing.world import MakeWorld, Monitor, Move, Violation, W, by_strand

BUDGET_STEPS = 500_000
COUNTED_MAX = 200
"""Steps in which overtakings are counted: their pairs are."""


class Candidate(msgspec.Struct):
    """The run made from a list of strands."""

    run: Run
    since: list[int]  # for each move, the number of moves made before it was first offered
    left: list[str]  # strands that were not made

    @property
    def strands(self) -> list[str]:
        """Return the moves made."""
        return [move.strand for move in self.run.made]

    def is_simpler_than(self, other: "Candidate") -> bool:
        """Compare the moves from outside, then the steps, then the overtakings: fewer is simpler."""
        mine, others = self._size(), other._size()
        return mine < others or (mine == others and self.overtakings() < other.overtakings())

    def _size(self) -> tuple[int, int]:
        made = self.run.made
        return sum(move.kind in ("fault", "client") for move in made), len(made)

    def overtakings(self) -> int:
        """Pairs of moves made in another order than they came up in; not counted in long runs."""
        since = self.since[:COUNTED_MAX]
        return sum(since[b] < since[a] for b in range(len(since)) for a in range(b))


class _Chooser:
    """Chooses by a list, and notes since when each move was offered."""

    def __init__(self, strands: Sequence[str], waits: bool) -> None:
        self.left = list(strands)
        self.since: list[int] = []
        self._waits = waits
        self._turns = Turns()
        self._offered_since: dict[str, int] = {}

    def first(self, offered: Sequence[Move]) -> Move | None:
        """Return the next move of the list that is offered."""
        there = by_strand(offered)
        for index, strand in enumerate(self.left):
            if strand in there:
                del self.left[index * self._waits : index + 1]
                return self._note(there[strand], offered)
        owed = not_faults(offered)
        return self.second(owed) if self._waits and self.left and owed else None

    def second(self, offered: Sequence[Move]) -> Move:
        """Return the move that has waited longest."""
        return self._note(self._turns.first(offered), offered)

    def _note(self, chosen: Move, offered: Sequence[Move]) -> Move:
        now, known = len(self.since), self._offered_since
        self._offered_since = {move.strand: known.get(move.strand, now) for move in offered}
        self.since.append(self._offered_since.pop(chosen.strand))
        self._turns.first(offered)  # gives new strands their places in the queue
        self._turns.to_back(chosen)
        return chosen


def run_candidate(
    make_world: MakeWorld[W],
    strands: Sequence[str],
    monitors: Sequence[Monitor[W]],
    *,
    steps: int,
    completes: bool,
    waits: bool = False,
) -> Candidate:
    """Make the run of a list. steps: N of its bounds.

    completes: where the list ends, the second part of the run begins, as rules about the end need it: no
    faults, first come, first served, until it is at rest. waits: a move that is not offered yet is not left
    out but waited for; meanwhile others are made, the one that has waited longest first.
    """
    chooser = _Chooser(strands, waits)
    length = len(strands) + steps if waits else max(len(strands), steps)
    bounds = Bounds(steps, FAIR_FACTOR * steps + length if waits else 0)
    run = perform(make_world(), monitors, chooser.first, chooser.second, bounds, length, goes_on=completes)
    return Candidate(run, chooser.since, chooser.left)


class Reversal(NamedTuple):
    """A run with one race reversed. strands: in order. head: how many of them end with the race."""

    strands: list[str]
    head: int

    def is_in(self, found: Candidate) -> bool:
        """Return whether a run reverses the race."""
        return found.strands[: self.head] == self.strands[: self.head]

    def holds(self, found: Candidate) -> bool:
        """Return whether a run reverses the race, loses no step, and keeps every rule to the end."""
        run = found.run
        return run.violation is None and run.is_at_rest and not found.left and self.is_in(found)


def reversal_of(order: Order, i: int, j: int) -> Reversal:
    """Return the run of `order` in which the step at index j, with all it needs, comes before that at i."""
    instead = order.without(i, j)
    rest = [k for k in range(i, len(order.steps)) if k not in instead]
    strands = [order.steps[k].strand for k in (*range(i), *instead, *rest)]
    return Reversal(strands, i + len(instead))


Pair: TypeAlias = tuple[int, int]
"""Two steps, by their place in the run, the earlier first."""


class Shrunk(msgspec.Struct, frozen=True):
    """A run that breaks a rule and is small."""

    schedule: Schedule
    violation: Violation
    tries: int = 0  # runs made for it
    is_minimal: bool = False  # the budget was enough
    races: tuple[Pair, ...] = ()  # steps that race, and that these steps alone need in this order
    # Those of them whose other order keeps every rule, with all else made and the run completed.
    decided_by: tuple[Pair, ...] = ()
    unneeded: tuple[int, ...] = ()  # steps that the rule does not need: see `slicing`


class _Spent(Exception):
    """The budget of steps is used up, or there is no more time."""


class _Search(Generic[W]):
    """The best run so far, and what may be tried in its place."""

    def __init__(
        self,
        make_world: MakeWorld[W],
        monitors: Sequence[Monitor[W]],
        run: Run,
        budget_steps: int,
        is_over: Callable[[], bool],
    ) -> None:
        assert run.violation is not None
        self._make_world = make_world
        self._monitors = monitors
        self._rule = run.violation.rule
        self._steps = run.steps
        self._completes = run.is_at_rest or (run.healed_at is not None and not run.is_broken_unfinished)
        self._left = budget_steps
        self._is_over = is_over
        self.tries = 0
        self.best = Candidate(run, [0] * len(run.made), [])

    def measure(self) -> None:
        """Measure the first run; a guess that completes otherwise than the run did leaves it as it is."""
        found = self.make(self.best.strands)
        if self.breaks(found):
            self.best = found

    def make(self, strands: Sequence[str], completes: bool = False, waits: bool = False) -> Candidate:
        """Make the run of a guess. Raises _Spent."""
        if self._left <= 0 or self._is_over():
            raise _Spent
        completes |= self._completes
        found = run_candidate(
            self._make_world, strands, self._monitors, steps=self._steps, completes=completes, waits=waits
        )
        self._left -= len(found.run.made) + 1
        self.tries += 1
        return found

    def breaks(self, found: Candidate) -> bool:
        """Return whether the same rule is broken."""
        return found.run.violation is not None and found.run.violation.rule == self._rule

    def attempt(self, strands: Sequence[str], completes: bool = False) -> bool:
        """Try a candidate; keep it and return True if it is better than the best so far."""
        found = self.make(strands, completes)
        if not self.breaks(found) or not found.is_simpler_than(self.best):
            return False
        self.best = found
        return True

    # --- attempts ------------------------------------------------------------

    def drop_outside(self) -> None:
        """Try without each strand of faults or of a client, however many other moves it then takes."""
        made = self.best.run.made
        for kind in ("fault", "client"):
            for strand in dict.fromkeys(move.strand for move in made if move.kind == kind):
                self.attempt([one for one in self.best.strands if one != strand], completes=True)

    def drop_chains(self) -> None:
        """Try without each strand, those of the last steps first."""
        for strand in dict.fromkeys(reversed(self.best.strands)):
            self.attempt([one for one in self.best.strands if one != strand])

    def drop_stretches(self) -> None:
        """Try without each stretch of steps, from half of all down to single ones."""
        length = max(len(self.best.strands) // 2, 1)
        while length:
            at = len(self.best.strands) - length
            while at >= 0:
                strands = self.best.strands
                self.attempt(strands[:at] + strands[at + length :])
                at = min(at, len(self.best.strands)) - length
            length //= 2

    def move_up(self) -> None:
        """Try each step where it could first have been made, or one place earlier."""
        b = 1
        while b < len(self.best.strands):  # the best run may become shorter
            earliest = self.best.since[b]
            for index in dict.fromkeys((earliest, b - 1)):
                strands = self.best.strands
                moved = [*strands[:index], strands[b], *strands[index:b], *strands[b + 1 :]]
                if earliest <= index < b and self.attempt(moved):
                    break
            b += 1

    def races(self) -> Iterator[tuple[Pair, bool]]:
        """Yield the races whose order matters, and whether their order alone decides."""
        world = self._make_world()
        replay_on(world, self.best.run.schedule)
        order = Order(world.trace())
        for i, j in sorted(order.races()):
            reversal = reversal_of(order, i, j)
            other = self.make(reversal.strands)
            if not reversal.is_in(other) or self.breaks(other):
                continue
            whole = self.make(reversal.strands, completes=True, waits=True)
            if not (reversal.is_in(whole) and self.breaks(whole)):
                yield (i + 1, j + 1), reversal.holds(whole)


def shrink(
    make_world: MakeWorld[W],
    run: Run,
    monitors: Sequence[Monitor[W]],
    budget_steps: int = BUDGET_STEPS,
    is_over: Callable[[], bool] = lambda: False,
) -> Shrunk:
    """Return the smallest run found that breaks the same rule; `run` itself if there is no time.
    is_over: called before each run; True ends the search.
    """
    search = _Search(make_world, monitors, run, budget_steps, is_over)
    races: list[Pair] = []
    decided_by: list[Pair] = []
    is_minimal = True
    try:
        search.measure()
        before = None
        while search.best is not before:
            before = search.best
            search.drop_outside()
            search.drop_chains()
            search.drop_stretches()
            search.move_up()
        for pair, decides in search.races():
            races.append(pair)
            if decides:
                decided_by.append(pair)
    except _Spent:
        is_minimal = False
    best = search.best.run
    assert best.violation is not None
    unneeded = unneeded_steps(make_world, monitors, best, set[int]().union(*races), is_over)
    parts = tuple(races), tuple(decided_by), unneeded
    return Shrunk(best.schedule, best.violation, search.tries, is_minimal, *parts)
