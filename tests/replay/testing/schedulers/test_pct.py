from itertools import pairwise
from random import Random

from callboard.replay.testing.run import perform
from callboard.replay.testing.schedulers.pct import Pct
from callboard.replay.testing.world import Move
from tests.replay.testing.known_bugs.shared_memory import needle
from tests.replay.testing.programs import Silent

OFFERED = [Move(name, name, "") for name in "abcde"]


def chosen(pct: Pct, steps: int) -> list[str]:
    pct.begin(Silent())
    found = [pct.choose(OFFERED) for _ in range(steps)]
    return [move.strand for move in found if move is not None]


def test_without_a_point_of_change_the_leading_chain_goes_on() -> None:
    pct = Pct(Random(0), (1,))
    leaders = {tuple(dict.fromkeys(chosen(pct, 20))) for _ in range(50)}
    assert all(len(leader) == 1 for leader in leaders)
    assert len(leaders) == 5


def test_depth_d_has_at_most_d_minus_one_changes_of_leader() -> None:
    for depth in (2, 3):
        pct = Pct(Random(depth), (depth,))
        chosen(pct, 20)
        changes = [sum(a != b for a, b in pairwise(run)) for run in (chosen(pct, 20) for _ in range(200))]
        assert max(changes) == depth - 1


def test_a_chain_that_fell_back_comes_last() -> None:
    pct = Pct(Random(0), (2,))
    for _ in range(100):
        run = chosen(pct, 30)
        assert len(set(run)) == len([1 for a, b in pairwise(run) if a != b]) + 1


def test_depths_are_cycled() -> None:
    pct = Pct(Random(0))
    for _ in range(30):
        assert [len(set(chosen(pct, 40))) <= depth for depth in (1, 2, 3)] == [True] * 3


def test_a_needle_of_twenty_steps_is_found_in_few_runs() -> None:
    # a random walk finds it in one of a million runs
    for seed in range(10):
        pct, program = Pct(Random(seed), (1,)), needle(False)[0]
        for _ in range(40):
            world = program.world()
            pct.begin(world)
            perform(world, (), pct.choose, pct.choose)
            if world.states["child"][1] == 20:
                break
        else:
            raise AssertionError(f"seed {seed}: not found")
