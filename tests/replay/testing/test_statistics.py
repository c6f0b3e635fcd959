import pytest

from callboard.replay.testing.run import Run
from callboard.replay.testing.statistics import CampaignProgress, Figures, Statistics, Stopwatch, order_hash
from callboard.replay.testing.world import Move
from tests.replay.testing.programs import Silent, collector


def move(actor: str, label: str) -> Move:
    return Move(f"x>{actor}", actor, label)


def test_runs_are_of_one_partial_order_if_every_actor_handled_the_same_in_the_same_order() -> None:
    a1, a2, b1 = move("a", "1"), move("a", "2"), move("b", "1")
    assert order_hash([a1, a2, b1]) == order_hash([b1, a1, a2])
    assert order_hash([a1, a2, b1]) != order_hash([a2, a1, b1])
    assert order_hash([a1, a2]) != order_hash([a1, a2, b1])
    assert order_hash([move("a", "1"), move("a", "2")]) != order_hash([move("a", "1\0 2")])


def test_a_full_set_says_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.replay.testing.statistics.DISTINCT_MAX", 3)
    seen = Statistics()
    found = []
    for label in "11234":
        seen.add(collector(label).world(), Run([move("a", label)], is_at_rest=True))
        figures = Figures.of(seen)
        found.append((figures.orders, figures.orders_at_least, figures.ends, figures.ends_at_least))
    full = (3, True, 3, True)
    assert found == [(1, False, 1, False), (1, False, 1, False), (2, False, 2, False), full, full]


def test_the_bound_is_that_of_pctcp_or_of_the_chains_if_there_are_more() -> None:
    seen = Statistics()
    seen.widest, seen.strands, seen.longest = 6, 20, 50
    assert seen.bound(1) == 1 / 36
    assert seen.bound(3) == 1 / (36 * 50**2)
    seen.strands = 100
    assert seen.bound(2) == 1 / 5_000


def test_figures_of_several_processes_are_added_up() -> None:
    one, other = Statistics(), Statistics()
    world = collector("1", "2").world()
    one.add(world, Run([move("a", "1")], is_at_rest=True))
    other.add(world, Run([move("a", "2"), Move("f", "a", "crash", "fault")], is_at_rest=True))
    other.add(Silent(), Run([], is_cut=True))
    other.add(Silent(), Run([]))
    other.look_closely(world, [move("a", "2")], 7)
    one.merge(other)
    figures = Figures.of(one)
    assert (figures.runs, figures.steps, figures.cut, figures.at_rest) == (4, 3, 1, 2)
    assert figures.unfinished == 1
    assert (figures.orders, figures.ends, figures.longest, figures.widest) == (3, 1, 2, 7)
    assert figures.faults == {"crash": 1}


def test_kinds_of_faults_are_counted_up_to_a_limit() -> None:
    seen = Statistics()
    for number in range(1_200):
        seen.add(Silent(), Run([Move("f", "a", f"crash {number}", "fault")]))
    assert len(seen.faults) == 1_000


def test_the_first_runs_and_then_some_are_looked_at_closely() -> None:
    seen, sampled = Statistics(), []
    for number in range(300):
        if seen.is_sampled():
            sampled.append(number)
        seen.add(Silent(), Run([]))
    assert sampled == [*range(100), 128, 192, 256]


def test_progress_counts_the_faults_and_not_the_fault_mix() -> None:
    seen = Statistics()
    seen.runs = 5
    seen.faults.update({"fault: error": 3, "fault: cancel": 1, "fault mix 4": 5})
    assert CampaignProgress.at(seen) == CampaignProgress(runs=5, faults=4, kinds=2)


def test_it_never_runs_backwards() -> None:
    watch = Stopwatch()
    readings = [watch.seconds for _ in range(100)]
    assert readings == sorted(readings)
    assert readings[0] >= 0
