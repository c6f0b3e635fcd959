from random import Random

from callboard.replay.testing.schedulers.delays import DelayBounded, Turns
from callboard.replay.testing.world import Move
from tests.replay.testing.programs import Silent

OFFERED = [Move(name, name, "") for name in "abc"]


def run(scheduler: DelayBounded, steps: int = 12) -> str:
    scheduler.begin(Silent())
    found = [scheduler.choose(OFFERED) for _ in range(steps)]
    return "".join(move.strand for move in found if move is not None)


def test_without_delays_everyone_moves_in_turn() -> None:
    assert run(DelayBounded(Random(0), 0)) == "abcabcabcabc"


def test_one_delay_puts_one_turn_back() -> None:
    scheduler = DelayBounded(Random(3), 1)
    run(scheduler)
    runs = {run(scheduler) for _ in range(200)}
    assert len(runs) == 12
    assert "bcabcabcabca" in runs


def test_a_new_strand_waits_for_the_earlier_ones() -> None:
    turns = Turns()
    first = turns.first(OFFERED[:2])
    turns.to_back(first)
    assert (first.strand, turns.first([*OFFERED[2:], *OFFERED[:2]]).strand) == ("a", "b")
    turns.clear()
    assert turns.first(OFFERED[1:]).strand == "b"
