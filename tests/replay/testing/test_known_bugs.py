"""Bugs that others published: the default portfolio finds each, and shrinks it to a small trace."""

import pytest

from callboard.replay.testing.explore import Counterexample, Plan, explore
from callboard.replay.testing.happens_before import Order
from callboard.replay.testing.program import Program
from callboard.replay.testing.run import Bounds, replay
from tests.replay.testing.known_bugs import chain, chord, dets, others, raft, shared_memory
from tests.replay.testing.known_bugs.case import Case, Monitors

CASES = [case for module in (shared_memory, dets, raft, chord, chain, others) for case in module.CASES]
RUNS_MAX = 500
"""Of the portfolio, to find one; the slowest of all cases and seeds needs 39."""

RATIO_MAX = 4.6
"""Of a shrunk trace to the smallest: the worst of DEMi (Scott et al., NSDI 2016)."""

cases = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@pytest.mark.slow
@cases
def test_a_known_bug_is_found_with_every_seed_and_its_trace_is_small_and_replays(case: Case) -> None:
    program, monitors = case.make(False)
    sizes = []
    for seed in range(5):
        found = explore(program.world, monitors, Plan(runs=RUNS_MAX, seed=seed, bounds=Bounds(case.steps)))
        (one,) = found.counterexamples
        assert one.is_minimal
        again = replay(program.world, one.schedule, monitors)
        assert (again.violation, len(again.made)) == (one.violation, len(one.steps))
        sizes.append(len(one.steps))
        for pair in one.decided_by:
            hold_the_other_way_round(program, monitors, one, pair)
    assert max(sizes) <= RATIO_MAX * case.smallest
    assert case.smallest <= min(sizes) <= case.smallest + 1, "the size that was worked out by hand is right"


def hold_the_other_way_round(
    program: Program, monitors: Monitors, found: Counterexample, pair: tuple[int, int]
) -> None:
    """Make the run in which this pair is swapped, and all else is made too, to its end: no rule is broken."""
    order, world, made = Order(found.steps), program.world(), list[str]()
    i, j = pair[0] - 1, pair[1] - 1
    first = [*range(i), *order.without(i, j)]
    places = [*first, *(k for k in range(i, len(found.steps)) if k not in first)]
    strands = [found.steps[k].strand for k in places]
    left = list(strands)
    for monitor in monitors:
        monitor.begin(found.schedule.steps)
        assert monitor.after(world, 0, 0) is None
    while True:
        there = {move.strand: move for move in world.moves() if move.kind != "fault" or move.strand in left}
        if not there:
            break
        waited = sorted(
            there, key=lambda strand: max((n for n, one in enumerate(made) if one == strand), default=-1)
        )
        strand = next((one for one in left if one in there), waited[0])
        if strand in left:
            left.remove(strand)
        world.make(there[strand])
        made.append(strand)
        assert len(made) < 10 * found.schedule.steps
        assert all(monitor.after(world, len(made), 0) is None for monitor in monitors), (pair, made)
    assert all(monitor.at_rest(world, len(made)) is None for monitor in monitors), (pair, made)
    assert (left, made[: len(first)]) == ([], strands[: len(first)])


def test_that_another_order_decides_is_claimed_where_it_does() -> None:
    program, monitors = shared_memory.account(False)
    (one,) = explore(program.world, monitors).counterexamples
    assert one.decided_by == ((4, 7),)
    hold_the_other_way_round(program, monitors, one, (4, 7))
    with pytest.raises(AssertionError):
        hold_the_other_way_round(program, monitors, one, (1, 2))


@pytest.mark.slow
@cases
def test_the_fixed_variant_survives(case: Case) -> None:
    program, monitors = case.make(True)
    found = explore(program.world, monitors, Plan(runs=RUNS_MAX, seed=1, bounds=Bounds(case.steps)))
    assert found.is_ok
    assert found.figures.at_rest == found.figures.runs
