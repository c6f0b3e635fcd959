from typing import Any

import pytest
from hypothesis import assume, event, given, settings

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.run import perform
from callboard.replay.testing.schedulers.portfolio import NAMES, PARTS, Exhaustive, Portfolio, scheduler_named
from callboard.replay.testing.world import Move
from tests.effort import effort
from tests.replay.testing.programs import Silent, all_runs, apart, collect, collector
from tests.replay.testing.random_programs import RandomProgram, worlds
from tests.tables import table


def test_every_name_has_a_scheduler_and_portfolio_is_the_first() -> None:
    assert NAMES[0] == "portfolio"
    for name in NAMES[1:]:
        assert scheduler_named(name).name in (name, "exhaustive")


@table("name", ["", "nonsense", "random:2", "pct:two", "pct:-1", "portfolio:3"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(MisuseError, match="use one of portfolio, random, pos"):
        scheduler_named(name)


def ends(name: str, runs: int = 200) -> int:
    """Count the different ends of some runs of four messages that race."""
    scheduler, found = scheduler_named(name), set()
    for _ in range(runs):
        world = collector("1", "2", "3", "4").world()
        if not scheduler.begin(world):
            break
        perform(world, (), scheduler.choose, scheduler.choose)
        scheduler.finish(world)
        found.add(world.digest())
    return len(found)


def test_numbers_are_depth_delays_and_preemptions() -> None:
    assert ends("delays:0") == 1
    assert 1 < ends("delays:1") < ends("delays:3")
    assert ends("pct:1") == 24
    assert ends("exhaustive:0") == 24


def test_its_parts_take_turns() -> None:
    portfolio, world = scheduler_named("portfolio"), collector("1", "2", "3", "4", "5").world
    assert isinstance(portfolio, Portfolio)
    names = []
    for _ in range(8):
        one = world()
        assert portfolio.begin(one)
        names.append(portfolio.name)
        perform(one, (), portfolio.choose, portfolio.choose)
        portfolio.finish(one)
    assert names == [*PARTS, *PARTS]


def test_it_is_done_when_one_part_has_made_every_run() -> None:
    portfolio = scheduler_named("portfolio")
    found = all_runs(collector("1", "2", "3").world, portfolio)
    assert len(found.ends) == 6
    assert found.runs == 6 * len(PARTS)


def test_parts_have_seeds_of_their_own() -> None:
    alone = all_runs(collector("1", "2", "3").world, scheduler_named("random", 5))
    turns = all_runs(collector("1", "2", "3").world, scheduler_named("portfolio", 5))
    assert turns.orders[:: len(PARTS)] == alone.orders


@pytest.mark.slow
@settings(max_examples=effort(20, 300), deadline=None)
@given(worlds())
def test_with_reduction_every_end_and_every_partial_order_is_seen_and_none_twice(
    make: RandomProgram,
) -> None:
    try:
        every = all_runs(make, Exhaustive(reduction=False), 500)
    except OverflowError:
        assume(False)
        raise
    reduced = all_runs(make, Exhaustive())
    event(f"runs: {'many' if every.runs > 100 else 'some' if every.runs > 10 else 'few'}")
    assert reduced.ends == every.ends
    assert set(reduced.orders) == set(every.orders)
    if make.kind in ("channel", "actor"):  # in a network, equal messages are told apart
        assert len(reduced.orders) == len(set(reduced.orders))


def test_messages_that_race_are_delivered_in_every_order() -> None:
    found = all_runs(collector("1", "2", "3", "4").world, Exhaustive())
    assert (found.runs, found.cut, len(found.ends)) == (24, 0, 24)


def test_one_inbox_in_the_order_of_posting_has_no_race_at_its_start() -> None:
    assert all_runs(collector("1", "2", "3", inboxes="actor").world, Exhaustive()).runs == 1


@pytest.mark.slow
def test_what_has_nothing_to_do_with_each_other_is_tried_in_one_order_only() -> None:
    program = apart("a", "b", "c", "d")
    assert all_runs(program.world, Exhaustive(reduction=False)).runs == 2520
    found = all_runs(program.world, Exhaustive())
    assert (found.runs, found.cut) == (1, 0)


def test_three_processes_that_send_and_receive_have_two_interleavings() -> None:
    # Concuerror's test_3_proc_send_receive: 2 with reduction. Its 483 without, and its counts under a bound
    # on preemptions, do not apply: a send, a receive and a spawn are steps of their own there; here a
    # delivery is one step with the sends that follow from it.
    def main(state: tuple[str, str], sender: str, message: str) -> tuple[tuple[str, str], Posts]:
        waits_for, early = state
        if message != waits_for:
            return (waits_for, sender), ()
        if early:
            return ("", ""), [(sender, message), (early, "baz")]
        return ("baz" if message == "bar" else "", ""), [(sender, message)]

    def child(word: str) -> Actor[int, str]:
        return Actor(
            0, lambda state, sender, message: (state + 1, [("main", word)] if message == "go" else ())
        )

    actors: dict[str, Actor[Any, str]] = {
        "main": Actor(("bar", ""), main),
        "1": child("bar"),
        "2": child("baz"),
    }
    program = Program(actors, [Send("spawn", "1", "go"), Send("spawn", "2", "go")])
    found = all_runs(program.world, Exhaustive())
    assert (found.runs, found.cut, len(found.ends)) == (2, 0, 1)
    assert all_runs(program.world, Exhaustive(reduction=False)).runs == 16


def test_a_bound_on_preemptions_takes_in_more_runs_step_by_step_until_it_has_them_all() -> None:
    empty: tuple[str, ...] = ()
    actors = {name: Actor(empty, collect) for name in "abc"}
    program = Program(actors, [Send("s", name, message) for name in "abc" for message in ("1", "2")])
    counts = [all_runs(program.world, Exhaustive(preemptions=bound)).runs for bound in range(5)]
    assert counts[0] == 6
    assert counts == sorted(counts)
    assert counts[-1] == all_runs(program.world, Exhaustive(reduction=False)).runs == 90


class Slow:
    """A world that says what its moves touched in its trace only."""

    def __init__(self, world: ProgramWorld) -> None:
        self.moves, self.make, self.digest, self.trace = world.moves, world.make, world.digest, world.trace


def test_a_world_that_does_not_say_at_once_what_its_moves_touch_is_asked_for_its_trace() -> None:
    forward: Actor[int, str] = Actor(0, lambda state, sender, message: (state, [("c", sender)]))
    actors: dict[str, Actor[Any, str]] = {"a": forward, "b": forward, "c": collector("1").actors["c"]}
    program = Program(actors, [Send("x", "a", "m"), Send("y", "b", "m")], inbox="actor")
    slow = all_runs(lambda: Slow(program.world()), Exhaustive())
    assert slow == all_runs(program.world, Exhaustive())
    assert (slow.runs, len(slow.ends)) == (2, 2)


def test_a_world_that_is_not_deterministic_is_found_out() -> None:
    search, first = Exhaustive(reduction=False), Move("a", "a", "a")
    search.begin(Silent())
    search.choose([first, Move("b", "b", "b")])
    search.finish(Silent())
    search.begin(Silent())
    with pytest.raises(MisuseError, match="b was offered after the same 0 moves before"):
        search.choose([first])
