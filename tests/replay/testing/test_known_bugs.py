"""Bugs that others published: the default portfolio finds each, and shrinks it to a small trace."""

import pytest

from callboard.replay.testing.explore import explore
from callboard.replay.testing.run import Bounds
from callboard.replay.testing.schedulers.replayed import replay
from tests.replay.testing.known_bugs import chain, chord, dets, others, raft, shared_memory
from tests.replay.testing.known_bugs.case import Case

CASES = [case for module in (shared_memory, dets, raft, chord, chain, others) for case in module.CASES]
RUNS_MAX = 2_000
"""Of the portfolio, to find one; the slowest needs some dozens, which takes less than a second."""

RATIO_MAX = 4.6
"""Of a shrunk trace to the smallest: the worst of DEMi (Scott et al., NSDI 2016)."""

cases = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@pytest.mark.slow
@cases
def test_a_known_bug_is_found_whatever_the_seed_and_its_trace_is_small_and_replays(case: Case) -> None:
    program, monitors = case.make(False)
    sizes = []
    for seed in range(5):
        found = explore(program.world, monitors, runs=RUNS_MAX, seed=seed, bounds=Bounds(case.steps))
        (one,) = found.counterexamples
        assert one.is_minimal
        again = replay(program.world, one.schedule, monitors)
        assert (again.violation, len(again.made)) == (one.violation, len(one.steps))
        sizes.append(len(one.steps))
    assert max(sizes) <= RATIO_MAX * case.smallest
    assert case.smallest <= min(sizes) <= case.smallest + 1, "the size that was worked out by hand is right"


@pytest.mark.slow
@cases
def test_the_fixed_variant_survives(case: Case) -> None:
    program, monitors = case.make(True)
    found = explore(program.world, monitors, runs=RUNS_MAX, seed=1, bounds=Bounds(case.steps))
    assert found.is_ok
    assert found.figures.at_rest == found.figures.runs
