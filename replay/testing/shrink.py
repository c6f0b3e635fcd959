"""Shrink a run that breaks a rule: to the fewest faults and client moves, then steps, then overtakings.

Rules
  - Only what breaks the same rule counts; another violation met on the way is another bug.
  - First faults and client moves are dropped, even where the rule is then broken later; then all of one
    strand, then stretches of steps from long to single (delta debugging: Zeller, Hildebrandt, TSE 2002; in
    the order of DEMi: Scott et al., NSDI 2016, whose results are 1 to 4.6 times the size of the smallest).
  - Then a move that could have been made earlier is, as long as the rule stays broken. So an overtaking that
    is still there is one that matters.
  - A schedule is found by making it, so the result replays exactly. It is minimal in this sense: no single
    step can be dropped, no single one moved up. When the budget of steps or the time (`is_over`) is used up,
    the best run so far is the result.
  - That the order of two steps decides is only said where the other order was tried with all else in it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeAlias

import msgspec

from callboard.replay.testing.candidate import Candidate, Reversal, reversal_of, run_candidate
from callboard.replay.testing.happens_before import Order
from callboard.replay.testing.run import Run
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.schedulers.replayed import replay_on
from callboard.replay.testing.world import MakeWorld, Monitor, Violation, W

BUDGET_STEPS = 500_000

Pair: TypeAlias = tuple[int, int]
"""Two steps, by their place in the run, the earlier first."""


class Shrunk(msgspec.Struct, frozen=True):
    """A run that breaks a rule and is small.

    tries: runs made for it.
    races: pairs of steps that race, and that these steps alone need in this order. decided_by: those of them
    whose other order keeps every rule, with all else made and the run completed. is_minimal: the budget was
    enough.
    """

    schedule: Schedule
    violation: Violation
    tries: int = 0
    is_minimal: bool = False
    races: tuple[Pair, ...] = ()
    decided_by: tuple[Pair, ...] = ()


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

    def races(self) -> Iterator[tuple[Pair, Reversal]]:
        """Return the races whose other order, made of these steps alone, keeps the rule."""
        world = self._make_world()
        replay_on(world, self.best.run.schedule, self._monitors)
        order = Order(world.trace())
        for i, j in sorted(order.races()):
            reversal = reversal_of(order, i, j)
            other = self.make(reversal.strands)
            if reversal.is_in(other) and not self.breaks(other):
                yield (i + 1, j + 1), reversal


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
        for pair, reversal in search.races():
            races.append(pair)
            if reversal.holds(search.make(reversal.strands, completes=True, waits=True)):
                decided_by.append(pair)
    except _Spent:
        is_minimal = False
    best = search.best.run
    assert best.violation is not None
    pairs = tuple(races), tuple(decided_by)
    return Shrunk(best.schedule, best.violation, search.tries, is_minimal, *pairs)
