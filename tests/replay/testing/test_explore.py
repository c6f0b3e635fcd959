from typing import Any

import pytest
from msgspec import structs

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.explore import Campaign, Plan, ShardResult, explore, merge_shards
from callboard.replay.testing.findings import _BEFORE, counterexample_lines, lines
from callboard.replay.testing.monitors import always, at_rest, sometimes
from callboard.replay.testing.program import Actor, Posts, Program, Send
from callboard.replay.testing.run import Bounds, replay
from callboard.replay.testing.schedule import parse
from callboard.replay.testing.schedulers.portfolio import Exhaustive
from callboard.replay.testing.statistics import Statistics
from tests.replay.testing.known_bugs.others import cache
from tests.replay.testing.known_bugs.shared_memory import account
from tests.replay.testing.programs import apart, collector
from tests.tables import table

PROGRAM, RULES = account(False)
FIXED, SAME_RULES = account(True)
ENDLESS = Program({"a": Actor(0, lambda *_: (0, [("a", "again")]))}, [Send("s", "a", "again")])


@table("runs", [0, -3, "5", 2.0, True, None])
def test_a_campaign_without_a_number_of_runs_is_refused(runs: Any) -> None:
    with pytest.raises(MisuseError, match=f"runs={runs!r}: a campaign has a number of runs, 1 or more"):
        explore(PROGRAM.world, RULES, Plan(runs=runs))


@table("seconds", [0, -1, float("nan"), float("inf"), "5", True])
def test_a_campaign_without_time_or_without_end_is_refused(seconds: Any) -> None:
    with pytest.raises(MisuseError, match=r"seconds=.* give a number of seconds above 0"):
        explore(PROGRAM.world, RULES, Plan(seconds=seconds))


def test_a_broken_rule_is_found_shrunk_and_replays_from_its_text() -> None:
    found = explore(PROGRAM.world, RULES, Plan(seed=3, scenario="account"))
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
    one, same = (explore(PROGRAM.world, RULES, Plan(seed=11)) for _ in range(2))
    assert one.counterexamples == same.counterexamples
    assert one.figures == same.figures


def test_it_stops_at_the_first_violation_or_keeps_the_first_of_every_rule() -> None:
    program = collector("1", "2", "3")
    rules = [
        always("1 is not first", lambda world: world.states["c"][:1] != ("1",)),
        always("2 is not first", lambda world: world.states["c"][:1] != ("2",)),
    ]
    (first,) = explore(program.world, rules, Plan(scheduler="pct")).counterexamples
    found = explore(program.world, rules, Plan(keeps_going=True, scheduler="pct", runs=60))
    assert found.figures.runs == 60
    assert found.counterexamples[0] == first
    assert {one.violation.rule for one in found.counterexamples} == {"1 is not first", "2 is not first"}


def test_it_makes_as_many_runs_as_it_is_told() -> None:
    assert explore(collector(*"12345").world, plan=Plan(runs=17)).figures.runs == 17


def test_it_ends_when_its_time_is_up_but_not_without_a_run() -> None:
    assert explore(collector(*"12345").world, plan=Plan(seconds=1e-9)).figures.runs == 1


def test_a_goal_that_no_run_reached_is_a_failure_of_the_campaign() -> None:
    goals = [sometimes("3 comes first", lambda world: world.states["c"][:1] == ("3",))]
    assert explore(collector("1", "2", "3").world, goals).is_ok
    never = [sometimes("4 comes first", lambda world: world.states["c"][:1] == ("4",))]
    found = explore(collector("1", "2", "3").world, never)
    assert not found.is_ok
    assert found.unmet_goals == ("4 comes first",)
    assert lines(found)[0] == "never reached: 4 comes first"


def test_figures_count_the_tried_schedules() -> None:
    figures = explore(collector("1", "2", "3").world, plan=Plan(scheduler="random")).figures
    assert (figures.runs, figures.orders, figures.ends, figures.at_rest) == (6, 6, 6, 6)
    assert (figures.longest, figures.widest, figures.strands) == (3, 3, 3)
    assert figures.coverage
    assert figures.bounds == (1 / 9, 1 / 27, 1 / 81)


def test_with_reduction_one_run_of_each_partial_order_is_made() -> None:
    found = explore(apart("a", "b", "c").world, plan=Plan(scheduler="exhaustive"))
    assert (found.figures.runs, found.figures.orders, found.is_exhausted) == (1, 1, True)
    every = explore(apart("a", "b", "c").world, plan=Plan(scheduler=Exhaustive(reduction=False)))
    assert (every.figures.runs, every.figures.orders, every.is_exhausted) == (90, 1, True)


def test_a_campaign_asks_before_each_run_and_tells_of_it_and_picks_the_same() -> None:
    make_world, plan = collector(*"abcd").world, Plan(runs=60, seed=3)
    plain = Campaign(make_world, [], plan).run()
    begun: list[int] = []
    ends: list[bytes] = []

    def begins(statistics: Statistics) -> bool:
        begun.append(statistics.runs)
        return True

    found = Campaign(make_world, [], plan).run(begins, lambda world: ends.append(world.digest()))
    assert found.statistics == plain.statistics
    assert found.statistics.runs == len(ends)
    assert begun == list(range(len(begun)))


def test_a_campaign_that_is_ended_is_told_apart_from_one_that_has_tried_all() -> None:
    left = [True, True, False]
    ended = Campaign(collector(*"abcd").world, [], Plan()).run(lambda _: left.pop(0))
    assert (ended.statistics.runs, ended.is_exhausted) == (2, False)
    all_tried = Campaign(collector(*"ab").world, [], Plan("exhaustive")).run()
    assert (all_tried.statistics.runs, all_tried.is_exhausted) == (2, True)


def test_a_counterexample_is_kept_as_it_was_found_if_one_wants_that() -> None:
    found = explore(PROGRAM.world, RULES, Plan(shrinks=False))
    (one,) = found.counterexamples
    assert one.schedule == one.found
    assert not one.is_minimal


def test_the_lines_have_the_rule_the_chart_the_overtaking_and_how_to_see_it_again() -> None:
    program, rules = cache(False)
    found = explore(program.world, rules, Plan(scenario="cache"))
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
    assert lines(found)[:3] == ["broken before the first step: never", _BEFORE, ""]


@table("name", ["random", "pos", "pct", "delays", "exhaustive", "every", "portfolio"])
def test_every_scheduler_finds_a_plain_race(name: str) -> None:
    found = explore(PROGRAM.world, RULES, Plan(scheduler=name, bounds=Bounds(50)))
    assert len(found.counterexamples) == 1
    assert len(found.counterexamples[0].steps) == 8


def test_what_only_the_end_shows_is_not_looked_for_in_runs_that_do_not_end() -> None:
    rule = at_rest("never", lambda world: False)
    assert explore(collector("1").world, [rule]).counterexamples


def test_a_campaign_in_which_no_run_comes_to_rest_is_not_ok() -> None:
    rule = at_rest("never", lambda world: False)
    found = explore(ENDLESS.world, [rule], Plan(runs=3, bounds=Bounds(7), scheduler="pct"))
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

    world = Program({"a": Actor(0, until_stopped)}, starts).world
    found = explore(world, plan=Plan(runs=40, bounds=Bounds(7)))
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
    found = explore(PROGRAM.world, RULES, Plan(seconds=10_000, seed=3))
    (one,) = found.counterexamples
    assert one.is_minimal
    assert explore(PROGRAM.world, RULES, Plan(seed=3)).counterexamples == found.counterexamples
    slow[0] = 0
    found = explore(PROGRAM.world, RULES, Plan(seconds=30 * found.figures.runs + 40, seed=3))
    (short,) = found.counterexamples
    assert not short.is_minimal
    assert any("a smaller one may be there" in line for line in lines(found))
    assert replay(PROGRAM.world, short.schedule, RULES).violation == short.violation


# --- the parts of a campaign --------------------------------------------------------

WORLD = collector(*"abcde").world


def test_a_campaign_of_one_share_is_the_campaign() -> None:
    rules = [always("b is never last", lambda world: world.states["c"][4:] != ("b",))]
    plan = Plan(runs=300, seed=2, scenario="five")
    found = merge_shards([Campaign(WORLD, rules, plan).run()], plan, 0.0)
    assert found.counterexamples
    other = explore(WORLD, rules, plan)
    assert found == structs.replace(other, seconds=0.0)


def test_shares_are_added_up_and_of_each_rule_the_smallest_example_is_kept() -> None:
    rule = always("e comes after a", lambda world: "e" not in world.states["c"] or "a" in world.states["c"])
    plans = (Plan(runs=300, seed=seed, shrinks=False) for seed in range(100))
    shares = (Campaign(WORLD, [rule], plan).run() for plan in plans)
    large = next(share for share in shares if len(share.counterexamples[0].steps) > 1)
    small = Campaign(WORLD, [rule], Plan(runs=300, seed=2)).run()
    found = merge_shards([large, small, large], Plan(runs=900), 1.0)
    assert found.figures.runs == 2 * large.statistics.runs + small.statistics.runs
    (one,) = found.counterexamples
    assert (one.is_minimal, len(one.steps)) == (True, 1)


def test_a_goal_is_unmet_if_no_share_met_it_and_broken_rules_go_before_goals() -> None:
    def share(letter: str) -> ShardResult:
        goals = [
            sometimes("a is first", lambda world: world.states["c"][:1] == (letter,)),
            sometimes("f is first", lambda world: world.states["c"][:1] == ("f",)),
        ]
        return Campaign(WORLD, goals, Plan(runs=50)).run()

    shares = [share("nobody"), share("a")]
    found = merge_shards(shares, Plan(), 0.0)
    assert found.unmet_goals == ("f is first",)
    broken = Campaign(WORLD, [always("no", lambda world: False)], Plan(runs=5)).run()
    assert merge_shards([*shares, broken], Plan(), 0.0).unmet_goals == ()


def test_a_share_that_is_asked_to_end_keeps_its_findings() -> None:
    share = Campaign(WORLD, [], Plan()).run(lambda seen: seen.runs < 7)
    assert (share.statistics.runs, share.is_exhausted) == (7, False)
