"""Sessions of orchestrators: random orders, and a crash at prefixes, keep all rules and the route."""

from collections.abc import Sequence

import pytest

from callboard.actors.protocol.client_messages import AskEnded, Cancel
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, ReportJudged
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort
from tests.mutants.campaign import hunted
from tests.mutants.orchestrated import breach_of
from tests.mutants.parts import ORCHESTRATED as PART
from tests.mutants.scenarios_orchestrators import NOTE, ORCHESTRATED


def runs(name: str, seeds: int) -> Sequence[SessionWorld]:
    return [SessionWorld(ORCHESTRATED[name].scenario).run(in_random_order(seed)) for seed in range(seeds)]


@pytest.mark.parametrize("name", ORCHESTRATED)
def test_orders_keep_all_rules(name: str) -> None:
    worlds, rules = hunted(ORCHESTRATED[name])
    found = explore(worlds, rules, Plan("portfolio", runs=effort(8, 2_000)))
    assert found.is_ok, "\n".join(lines(found))


@pytest.mark.parametrize("name", ["note, in a row", "note, at once", "hops, in a row"])
def test_a_crash_at_every_tenth_prefix_changes_no_answer(name: str) -> None:
    one = ORCHESTRATED[name]
    log = SessionWorld(one.scenario).run(in_random_order(0)).log
    for length in range(1, len(log) + 1, 10):
        world = SessionWorld(one.scenario)
        world.now = log[length - 1].at  # the clock of a process that resumes goes on
        world.resume(log[:length])
        assert not breaches_of(world.run(in_random_order(0))), f"after event {length}"
        assert not breach_of(one.plan, world), f"after event {length}"
        assert [end.kind for end in world.of(AskEnded)] == ["answered"]
        assert Verifier(world.log).run() is None


def test_the_sessions_meet_specialists_that_fail_report_twice_never_end_and_are_denied() -> None:
    worlds = [runs(name, 1)[0] for name in ORCHESTRATED if "stopped" not in name]
    ends = {
        (end.kind, end.metadata.subagent)
        for world in worlds
        for end in world.of(DelegationEnded)
        if end.metadata
    }
    assert ends >= {
        ("reported", "tables"),
        ("model_error", "notes"),
        ("no_report", "extra"),
        ("denied", "twin"),
        ("cancelled", "tables"),
    }
    judged = [one for world in worlds for one in world.of(ReportJudged)]
    assert any(one.verdict == "late" for one in judged), "a second report is judged, and not taken"


@pytest.mark.parametrize("name", ["stopped in mid-route", "stopped at once"])
def test_a_cancel_in_mid_route_begins_no_further_specialist_and_leaves_nothing(name: str) -> None:
    stopped = 0
    for world in runs(name, 40):
        (end,) = world.of(AskEnded)
        asked = [event.seq for event in world.events(Delegate)]
        begun = [event.cause for event in world.events(Begin)]
        cancels = [event.seq for event in world.events(Cancel)]
        if end.kind != "cancelled" or not cancels or not asked or asked[0] > cancels[0]:
            continue
        stopped += 1
        assert len(list(world.of(DelegationEnded))) == len(asked)
        if "mid-route" in name:
            assert len(asked) <= len(NOTE.route)
            assert begun[-1] < cancels[0], "none begins by what came behind the cancel"
        assert not breaches_of(world)
    assert stopped >= 3


def test_there_are_at_least_15_mutants_of_analyser_router_and_aggregator() -> None:
    groups = ("Analysis of questions", "Routes", "Merged findings")
    counts = [len(PART.groups[group]) for group in groups]
    assert sum(counts) >= 15
    assert min(counts) >= 5


def test_a_wrong_answer_breaks_the_rule() -> None:
    (world,) = runs("note, in a row", 1)
    one = ORCHESTRATED["note, in a row"]
    assert breach_of(one.plan, world) == ""
    other = one.plan._replace(question=NOTE._replace(route=NOTE.route[::-1]))
    assert breach_of(other, world).startswith("asked: ")
