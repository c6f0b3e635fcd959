from typing import Any

import pytest
from msgspec import structs

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.explore import explore
from callboard.replay.testing.findings import counterexample_lines, lines
from callboard.replay.testing.monitors import always, at_rest, sometimes
from callboard.replay.testing.program import Actor, Posts, Program, Send
from callboard.replay.testing.run import Bounds
from callboard.replay.testing.schedule import parse
from callboard.replay.testing.schedulers.exhaustive import Exhaustive
from callboard.replay.testing.schedulers.replayed import replay
from callboard.replay.testing.statistics import Statistics
from tests.replay.testing.known_bugs.others import cache
from tests.replay.testing.known_bugs.shared_memory import account
from tests.replay.testing.programs import apart, collector

PROGRAM, RULES = account(False)
FIXED, SAME_RULES = account(True)
ENDLESS = Program({"a": Actor(0, lambda *_: (0, [("a", "again")]))}, [Send("s", "a", "again")])


@pytest.mark.parametrize("runs", [0, -3, "5", 2.0, True, None])
def test_a_campaign_without_a_number_of_runs_is_refused(runs: Any) -> None:
    with pytest.raises(MisuseError, match=f"runs={runs!r}: a campaign has a number of runs, 1 or more"):
        explore(PROGRAM.world, RULES, runs=runs)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "5", True])
def test_a_campaign_without_time_or_without_end_is_refused(seconds: Any) -> None:
    with pytest.raises(MisuseError, match=r"seconds=.* give a number of seconds above 0"):
        explore(PROGRAM.world, RULES, seconds=seconds)


def test_a_broken_rule_is_found_shrunk_and_replays_from_its_text() -> None:
    found = explore(PROGRAM.world, RULES, seed=3, scenario="account")
    (one,) = found.counterexamples
    assert not found.is_ok
    assert one.violation.rule == "No deposit is lost"
    assert one.is_minimal
    assert (one.seed, one.run) == (3, found.figures.runs)
    again = replay(PROGRAM.world, parse(one.text, "account"), RULES)
    assert again.violation == one.violation
    assert len(one.steps) == len(again.made) == 8


def test_a_program_that_keeps_its_rules_is_explored_to_the_end() -> None:
    found = explore(FIXED.world, SAME_RULES)
    assert found.is_ok
    assert found.is_exhausted
    assert found.counterexamples == ()


def test_equal_seeds_find_the_same_after_the_same_runs() -> None:
    one, same = (explore(PROGRAM.world, RULES, seed=11) for _ in range(2))
    assert one.counterexamples == same.counterexamples
    assert one.figures == same.figures


def test_it_stops_at_the_first_violation_or_keeps_the_first_of_every_rule() -> None:
    program = collector("1", "2", "3")
    rules = [
        always("1 is not first", lambda world: world.states["c"][:1] != ("1",)),
        always("2 is not first", lambda world: world.states["c"][:1] != ("2",)),
    ]
    (first,) = explore(program.world, rules, scheduler="pct").counterexamples
    found = explore(program.world, rules, keeps_going=True, scheduler="pct", runs=60)
    assert found.figures.runs == 60
    assert found.counterexamples[0] == first
    assert {one.violation.rule for one in found.counterexamples} == {"1 is not first", "2 is not first"}


def test_it_makes_as_many_runs_as_it_is_told() -> None:
    assert explore(collector(*"12345").world, runs=17).figures.runs == 17


def test_it_ends_when_its_time_is_up_but_not_without_a_run() -> None:
    assert explore(collector(*"12345").world, seconds=1e-9).figures.runs == 1


def test_a_goal_that_no_run_reached_is_a_failure_of_the_campaign() -> None:
    goals = [sometimes("3 comes first", lambda world: world.states["c"][:1] == ("3",))]
    assert explore(collector("1", "2", "3").world, goals).is_ok
    never = [sometimes("4 comes first", lambda world: world.states["c"][:1] == ("4",))]
    found = explore(collector("1", "2", "3").world, never)
    assert not found.is_ok
    assert found.unmet_goals == ("4 comes first",)
    assert lines(found)[0] == "never reached: 4 comes first"


def test_figures_count_the_tried_schedules() -> None:
    figures = explore(collector("1", "2", "3").world, scheduler="random").figures
    assert (figures.runs, figures.orders, figures.ends, figures.at_rest) == (6, 6, 6, 6)
    assert (figures.longest, figures.widest, figures.strands) == (3, 3, 3)
    assert figures.coverage
    assert figures.bounds == (1 / 9, 1 / 27, 1 / 81)


def test_with_reduction_one_run_of_each_partial_order_is_made() -> None:
    found = explore(apart("a", "b", "c").world, scheduler="exhaustive")
    assert (found.figures.runs, found.figures.orders, found.is_exhausted) == (1, 1, True)
    every = explore(apart("a", "b", "c").world, scheduler=Exhaustive(reduction=False))
    assert (every.figures.runs, every.figures.orders, every.is_exhausted) == (90, 1, True)


def test_progress_is_told_now_and_then() -> None:
    told: list[int] = []

    def progress(seen: Statistics) -> None:
        told.append(seen.runs)

    explore(collector(*"12345").world, runs=600, scheduler="pct", progress=progress)
    assert told == [0, 256, 512]


def test_a_counterexample_is_kept_as_it_was_found_if_one_wants_that() -> None:
    found = explore(PROGRAM.world, RULES, shrinks=False)
    (one,) = found.counterexamples
    assert one.schedule == one.found
    assert not one.is_minimal


def test_the_lines_have_the_rule_the_chart_the_overtaking_and_how_to_see_it_again() -> None:
    program, rules = cache(False)
    found = explore(program.world, rules, scenario="cache")
    (one,) = found.counterexamples
    text = "\n".join(lines(found, command=lambda schedule: f"replay {schedule}"))
    assert text.startswith("broken after step 6: The cache has what the store has, or nothing\n")
    assert "client2" in text.splitlines()[2]
    assert text.count("came before step") == len(one.races) == 2
    assert text.count(";\n  the other way round the rule is not broken") == len(one.decided_by) == 2
    unsure = structs.replace(one, decided_by=())
    assert "the other way round" not in "\n".join(counterexample_lines(unsure))
    marked = [line for line in counterexample_lines(unsure) if line[3:4] == "*"]
    assert len(marked) == len({step for pair in one.races for step in pair})
    assert f"replay {one.text}" in text
    assert "a run of pct finds a bug of depth d with p >= d=1 1/" in text
    assert all(len(line) <= 80 for line in text.splitlines()[2:10])
    assert f"schedule {one.text}" in counterexample_lines(one)


def test_a_rule_that_does_not_hold_at_the_start_needs_no_step() -> None:
    found = explore(collector("1").world, [always("never", lambda world: False)])
    (one,) = found.counterexamples
    assert (one.steps, one.violation.at) == ((), 0)
    assert lines(found)[:3] == ["broken at the start: never", "", "(no step was made)"]


@pytest.mark.parametrize("name", ["random", "pos", "pct", "delays", "exhaustive", "every", "portfolio"])
def test_every_scheduler_finds_a_plain_race(name: str) -> None:
    found = explore(PROGRAM.world, RULES, scheduler=name, bounds=Bounds(50))
    assert len(found.counterexamples) == 1
    assert len(found.counterexamples[0].steps) == 8


def test_what_only_the_end_shows_is_not_looked_for_in_runs_that_do_not_end() -> None:
    rule = at_rest("never", lambda world: False)
    assert explore(collector("1").world, [rule]).counterexamples


def test_a_campaign_in_which_no_run_comes_to_rest_is_not_ok() -> None:
    rule = at_rest("never", lambda world: False)
    found = explore(ENDLESS.world, [rule], runs=3, bounds=Bounds(7), scheduler="pct")
    assert (found.counterexamples, found.is_ok, found.is_without_end) == ((), False, True)
    assert (found.figures.unfinished, found.figures.at_rest, found.figures.cut) == (3, 0, 0)
    told = lines(found)
    assert told[0] == "no run came to rest, so no rule about the end was looked at"
    assert told[3].startswith("3 runs were cut after 70 steps and not at rest: give more (--steps, steps=)")


def test_runs_that_do_not_end_are_told_beside_those_that_do() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return 1, [("a", "again")] if message == "again" and not state else ()

    starts = [Send("s1", "a", "again"), Send("s2", "a", "stop")]
    found = explore(Program({"a": Actor(0, step)}, starts).world)
    assert (found.is_ok, found.figures.unfinished) == (True, 0)
    assert not any("not at rest" in line for line in lines(found))

    def until_stopped(state: int, sender: str, message: str) -> tuple[int, Posts]:
        state = state or (1 if message == "stop" else 2)
        return state, [("a", "again")] if state == 2 else ()

    found = explore(Program({"a": Actor(0, until_stopped)}, starts).world, runs=40, bounds=Bounds(7))
    assert found.is_ok
    assert found.figures.unfinished > 0 < found.figures.at_rest
    assert any("cut after 70 steps and not at rest" in line for line in lines(found))


def test_the_time_of_a_campaign_bounds_shrinking_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.replay.testing.explore.LATE_S", 0.0)
    slow = [0.0]

    class Clock:
        """Half a minute passes whenever one looks."""

        @property
        def seconds(self) -> float:
            slow[0] += 30
            return slow[0]

    monkeypatch.setattr("callboard.replay.testing.explore.Stopwatch", Clock)
    found = explore(PROGRAM.world, RULES, seconds=10_000, seed=3)
    (one,) = found.counterexamples
    assert one.is_minimal
    assert explore(PROGRAM.world, RULES, seed=3).counterexamples == found.counterexamples
    slow[0] = 0
    found = explore(PROGRAM.world, RULES, seconds=30 * found.figures.runs + 40, seed=3)
    (short,) = found.counterexamples
    assert not short.is_minimal
    assert any("a smaller one may be there" in line for line in lines(found))
    assert replay(PROGRAM.world, short.schedule, RULES).violation == short.violation
