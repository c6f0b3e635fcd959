from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.schedulers.exhaustive import Exhaustive
from callboard.replay.testing.schedulers.walk import RandomWalk
from callboard.replay.testing.world import Move
from tests.effort import effort
from tests.replay.testing.programs import Silent, all_runs, apart, collector
from tests.replay.testing.random_programs import RandomProgram, worlds


def moves(count: int) -> list[Move]:
    return [Move(str(number), "a", str(number)) for number in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_a_small_program_is_exhausted_without_a_run_made_twice(seed: int) -> None:
    walk = RandomWalk(Random(seed))
    found = all_runs(collector("1", "2", "3", "4").world, walk)
    assert (found.runs, len(found.ends)) == (24, 24)
    assert walk.is_exhausted


def test_runs_are_told_apart_by_their_moves_and_not_by_what_comes_of_them() -> None:
    assert all_runs(apart("a", "b", "c").world, RandomWalk(Random(0))).runs == 90


@pytest.mark.slow
@settings(max_examples=effort(15, 200), deadline=None)
@given(worlds(), st.integers(0, 1_000))
def test_it_makes_as_many_runs_as_there_are(make_world: RandomProgram, seed: int) -> None:
    try:
        every = all_runs(make_world, Exhaustive(reduction=False), 200)
    except OverflowError:
        return
    found = all_runs(make_world, RandomWalk(Random(seed)))
    assert (found.runs, found.ends) == (every.runs, every.ends)


def test_equal_seeds_make_equal_runs() -> None:
    first, second = (all_runs(collector("1", "2", "3").world, RandomWalk(Random(7))) for _ in range(2))
    other = all_runs(collector("1", "2", "3").world, RandomWalk(Random(8)))
    assert first.orders == second.orders
    assert first.orders != other.orders


def test_with_no_room_to_remember_it_goes_on_and_claims_nothing() -> None:
    walk, program = RandomWalk(Random(0), remembered=5), collector("1", "2", "3", "4")
    with pytest.raises(OverflowError):
        all_runs(program.world, walk, 500)
    assert not walk.is_exhausted
    assert walk.kept <= 5


def test_a_choice_among_more_than_a_byte_can_count_is_made_and_not_remembered() -> None:
    walk = RandomWalk(Random(0))
    for _ in range(300):
        assert walk.begin(Silent())
        assert walk.choose(moves(300)) is not None
        walk.finish(Silent())


def test_a_run_that_was_cut_short_by_a_rule_is_not_made_again() -> None:
    walk, first = RandomWalk(Random(0)), set()
    while walk.begin(Silent()):
        move = walk.choose(moves(4))
        assert move is not None
        first.add(move.strand)
        walk.finish(Silent())
    assert first == {"0", "1", "2", "3"}


def test_a_world_that_is_not_deterministic_is_found_out() -> None:
    walk = RandomWalk(Random(0))
    for _ in range(2):
        walk.begin(Silent())
        walk.choose(moves(3))
        walk.choose(moves(2))
        walk.finish(Silent())
    walk.begin(Silent())
    with pytest.raises(
        MisuseError, match="not deterministic: the same 0 choices led to 3 moves before and to 4"
    ):
        walk.choose(moves(4))
