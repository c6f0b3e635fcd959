"""POS, PCT and delay bounding: the chance of each order, and the points of change."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.program import Actor, Posts, Program, Send
from callboard.replay.testing.run import perform
from callboard.replay.testing.schedulers.portfolio import Exhaustive
from callboard.replay.testing.schedulers.sampling import DelayBounded, Pct, Pos, RandomWalk, Turns
from callboard.replay.testing.world import Move
from tests.effort import effort
from tests.replay.testing.known_bugs.shared_memory import needle
from tests.replay.testing.programs import Silent, all_runs, apart, collector
from tests.replay.testing.random_programs import RandomProgram, worlds
from tests.tables import table

# --- POS ----------------------------------------------------------------------------


def test_every_order_of_racing_messages_is_about_as_likely() -> None:
    pos, ends, program = Pos(Random(1)), Counter[bytes](), collector("1", "2", "3")
    for _ in range(600):
        world = program.world()
        pos.begin(world)
        perform(world, (), pos.choose, pos.choose)
        ends[world.digest()] += 1
    assert len(ends) == 6
    assert min(ends.values()) > 60


def test_steps_of_another_actor_in_between_do_not_change_how_two_messages_race() -> None:
    # "late" is posted after ten steps of b; a random walk delivers it first in one of 2,000 runs
    def forward(left: int, sender: str, message: str) -> tuple[int, Posts]:
        return left - 1, [("b", "on")] if left else [("c", "late")]

    def keep(state: str, sender: str, message: str) -> tuple[str, Posts]:
        return state or message, ()

    program = Program(
        {"b": Actor(10, forward), "c": Actor("", keep)}, [Send("s", "b", "on"), Send("s", "c", "early")]
    )
    first = Counter[str]()
    pos = Pos(Random(1))
    for _ in range(300):
        world = program.world()
        pos.begin(world)
        perform(world, (), pos.choose, pos.choose)
        first[world.states["c"]] += 1
    assert first["late"] > 10


def test_what_does_not_race_keeps_its_place() -> None:
    pos = Pos(Random(0))
    pos.begin(Silent())
    offered = [Move("a1", "a", ""), Move("a2", "a", ""), Move("b", "b", ""), Move("c", "c", "")]
    orders = []
    for _ in range(4):
        move = pos.choose(offered)
        assert move is not None
        orders.append(move.strand)
        offered.remove(move)
    assert sorted(orders) == ["a1", "a2", "b", "c"]


def test_what_races_with_the_step_that_was_made_draws_again() -> None:
    pos, offered = Pos(Random(1)), [Move("a1", "a", ""), Move("a2", "a", "")]
    stays = 0
    for _ in range(2_000):
        pos.begin(Silent())
        stays += pos.choose(offered) == pos.choose(offered)
    assert 900 < stays < 1_100  # a loser that kept its draw would lose to a new one two times in three


# --- PCT ----------------------------------------------------------------------------

FIVE = [Move(name, name, "") for name in "abcde"]


def chosen(pct: Pct, steps: int) -> list[str]:
    pct.begin(Silent())
    found = [pct.choose(FIVE) for _ in range(steps)]
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


def finds_the_needle(seed: int, runs: int) -> bool:
    pct, program = Pct(Random(seed), (1,)), needle(False)[0]
    for _ in range(runs):
        world = program.world()
        pct.begin(world)
        perform(world, (), pct.choose, pct.choose)
        if world.states["child"][1] == 20:
            return True
    return False


def test_a_needle_of_twenty_steps_is_found_in_few_runs() -> None:
    # a random walk finds it in one of a million runs
    assert [seed for seed in range(10) if not finds_the_needle(seed, runs=40)] == []


# --- delays -------------------------------------------------------------------------

THREE = [Move(name, name, "") for name in "abc"]


def in_turn(scheduler: DelayBounded, steps: int = 12) -> str:
    scheduler.begin(Silent())
    found = [scheduler.choose(THREE) for _ in range(steps)]
    return "".join(move.strand for move in found if move is not None)


def test_without_delays_everyone_moves_in_turn() -> None:
    assert in_turn(DelayBounded(Random(0), 0)) == "abcabcabcabc"


def test_one_delay_puts_one_turn_back() -> None:
    scheduler = DelayBounded(Random(3), 1)
    in_turn(scheduler)
    runs = {in_turn(scheduler) for _ in range(200)}
    assert len(runs) == 12
    assert "bcabcabcabca" in runs


def test_a_new_strand_waits_for_the_earlier_ones() -> None:
    turns = Turns()
    first = turns.first(THREE[:2])
    turns.to_back(first)
    assert (first.strand, turns.first([*THREE[2:], *THREE[:2]]).strand) == ("a", "b")
    assert Turns().first(THREE[1:]).strand == "b"


def moves(count: int) -> list[Move]:
    return [Move(str(number), "a", str(number)) for number in range(count)]


@table("seed", range(5))
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
