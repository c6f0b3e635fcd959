"""Sessions on one capacity port: every order of two, random orders of four, and the clock of all."""

from dataclasses import replace
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    CallModel,
    CapacityGiven,
    ModelReplied,
    RequestApproval,
    RequestCapacity,
)
from callboard.actors.session.capacity import Capacity
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.run import Bounds, perform, replay
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.schedulers.portfolio import Exhaustive
from callboard.replay.testing.sessions.capacity_monitors import CapacityBooks, capacity_monitors
from callboard.replay.testing.sessions.capacity_world import (
    CRASH_ALL,
    CapacityWorld,
    CapacityWorlds,
    SharedScenario,
)
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import calls
from callboard.replay.testing.sessions.world import in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort, long_search
from tests.mutants.scenarios_capacity import (
    SHARED,
    SMALL,
    above_the_bucket,
    crash_of_all,
    detach,
    detach_twice,
    family,
    leave,
    one_ask_after_a_detach,
    pair,
    stop_and_detach,
    stop_while_waiting,
    turns,
)
from tests.mutants.scripts import DONE, PAY, script
from tests.tables import table

BOUNDS = Bounds(200)


def given(world: CapacityWorld) -> list[str]:
    """Return the sessions and agents in the order in which they were given places."""
    return [f"{one.session}/{one.agent}" for one in world.history if one.what == "give"]


def make(world: CapacityWorld, *strands: str) -> None:
    for strand in strands:
        world.make(next(move for move in world.moves() if move.strand == strand))


def until(world: CapacityWorld, session: str, kind: type) -> None:
    """Make the first moves of a session until its log has a message of this kind."""
    while not world.sessions[session].of(kind):
        world.make(next(move for move in world.moves() if move.strand.startswith(f"{session}/")))


@pytest.mark.parametrize(
    "small",
    [pytest.param(one, marks=long_search) if one is detach_twice else one for one in SMALL],
    ids=lambda small: small.__name__,
)
def test_no_order_of_two_sessions_breaks_a_rule(small: Any) -> None:
    found = explore(
        CapacityWorlds(small()), capacity_monitors(), Plan("exhaustive", runs=5_000, bounds=BOUNDS)
    )
    assert found.is_exhausted
    assert found.is_ok, found.counterexamples
    assert found.figures.runs > 1
    assert found.figures.unfinished == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_random_orders_of_up_to_four_sessions_break_no_rule(name: str) -> None:
    # 8 runs find each of the 35 mutants of the capacity that 20 find, and 20 miss the same three.
    plan = Plan("portfolio", runs=effort(suite=8, campaign=500), bounds=BOUNDS, seed=name)
    found = explore(CapacityWorlds(SHARED[name]), capacity_monitors(1), plan)
    assert found.is_ok, found.counterexamples
    assert found.figures.unfinished == 0


def ends(scenario: SharedScenario, *, reduction: bool) -> tuple[set[bytes], set[tuple[object, ...]]]:
    """Return every end state, and every order of what happens at the port."""
    scheduler, worlds = Exhaustive(reduction=reduction), CapacityWorlds(scenario)
    digests: set[bytes] = set()
    histories: set[tuple[object, ...]] = set()
    while scheduler.begin(world := worlds()):
        perform(world, [], scheduler.choose, lambda offered: offered[0], BOUNDS)
        scheduler.finish(world)
        digests.add(world.digest())
        histories.add(tuple((one.what, one.session, one.agent) for one in world.history))
    return digests, histories


@pytest.mark.slow
def test_the_reduction_of_orders_loses_no_end_and_no_order_at_the_port() -> None:
    reduced, whole = ends(pair(), reduction=True), ends(pair(), reduction=False)
    assert reduced == whole
    assert len(whole[1]) == 4


def test_sessions_take_turns() -> None:
    world = CapacityWorld(turns())
    for name in world.sessions:
        until(world, name, RequestCapacity)
    order = given(world.run())
    assert order[:4] == ["a/host", "b/host", "c/host", "d/host"]
    assert [order.count(f"{name}/host") for name in "abcd"] == [2, 2, 1, 1]
    assert len(order) == 12
    assert {session.ended.kind for session in world.sessions.values()} == {"answered"}


@table("name", SHARED)
def test_each_log_verifies_by_itself(name: str) -> None:
    for seed in range(3):
        world = CapacityWorld(SHARED[name]).run(in_random_order(seed))
        for session in world.sessions.values():
            assert Verifier(session.log).run() is None


def test_a_need_above_the_bucket_is_called_when_the_bucket_is_full() -> None:
    world = CapacityWorld(above_the_bucket()).run()
    assert {session.ended.kind for name, session in world.sessions.items() if name == "a"} == {"answered"}
    large = next(one for one in world.history if one.what == "request" and one.session == "a")
    assert (large.tokens or 0) > 150
    assert world.now > large.at, "time has to pass for the debt"


def test_a_crash_of_all_resumes_all_at_once_and_each_takes_its_place_anew() -> None:
    world = CapacityWorld(crash_of_all())
    until(world, "a", CallModel)
    until(world, "b", RequestCapacity)
    make(world, CRASH_ALL)
    assert [len(session.of(CapacityGiven)) for session in world.sessions.values()] == [1, 0]
    assert sum(session.in_flight("scripted") for session in world.sessions.values()) <= 1
    world.run()
    for session in world.sessions.values():
        assert session.ended.kind == "answered"


def test_a_resumed_place_without_a_call_is_taken_anew_before_the_call() -> None:
    world = CapacityWorld(crash_of_all())
    until(world, "a", CapacityGiven)
    make(world, CRASH_ALL)
    (a, b) = world.sessions.values()
    assert (len(a.of(CallModel)), a.in_flight("scripted")) == (1, 1)
    assert given(world) == ["a/host", "a/host"]
    until(world, "b", RequestCapacity)
    assert b.held
    world.run()
    assert given(world) == ["a/host", "a/host", "b/host"]


def test_a_session_that_leaves_frees_its_place_and_waits_for_another_when_it_returns() -> None:
    world = CapacityWorld(leave())
    until(world, "a", CallModel)
    until(world, "b", RequestCapacity)
    make(world, "fault leave a")
    assert given(world) == ["a/host", "b/host"]
    make(world, "a/resume")
    world.run()
    assert given(world)[-1] == "a/host"
    assert [ended.kind for ended in world.sessions["a"].of(AskEnded)] == ["answered"]


def test_a_session_that_is_detached_answers_its_call_and_frees_the_place_for_the_others() -> None:
    world = CapacityWorld(detach())
    until(world, "a", CallModel)
    until(world, "b", RequestCapacity)
    make(world, "a/fault detach")
    assert given(world) == ["a/host"], "the call is in flight until the process ends"
    make(world, "a/process ends")
    assert given(world) == ["a/host", "b/host"]
    assert [one.status for one in world.sessions["a"].of(ModelReplied)] == ["detached"]
    world.run()
    assert {session.ended.kind for session in world.sessions.values()} == {"answered"}


def test_an_agent_that_only_a_new_process_stops_holds_no_place_of_it() -> None:
    world = CapacityWorld(stop_and_detach())
    until(world, "a", RequestCapacity)
    make(world, "a/fault cancel", "a/fault detach", "a/process ends", "a/resume")
    assert [one.status for one in world.sessions["a"].of(CapacityGiven)] == ["cancelled"]
    assert given(world) == ["a/host"], "by the process that ended"
    world.run()
    assert world.policy.states(world.now)[0].in_flight == 0


def test_a_place_that_comes_while_the_process_detaches_is_given_back_unused() -> None:
    world, books = CapacityWorld(detach_twice()), CapacityBooks()
    until(world, "a", RequestCapacity)
    make(world, "a/fault detach", "a/capacity host/1", "a/process ends")
    until(world, "b", CallModel)
    make(world, "a/resume", "a/fault detach", "b/model host/1")
    assert [(one.what, one.session, one.tokens) for one in world.history][-2:] == [
        ("give", "a", None),
        ("give back", "a", 0),
    ]
    assert books.after(world, 1, 0) is None
    assert world.sessions["a"].in_flight("scripted") == 0
    world.run()
    assert {session.ended.kind for session in world.sessions.values()} == {"answered"}


def test_a_resumed_call_that_is_given_up_in_line_is_not_in_flight() -> None:
    world = CapacityWorld(one_ask_after_a_detach())
    until(world, "a", RequestCapacity)
    make(world, "a/fault detach", "a/capacity host/1", "a/process ends")
    until(world, "b", CallModel)
    make(world, "a/resume")
    a, b = world.sessions.values()
    assert a.held
    make(world, "a/fault cancel", "a/inbox supervisor")
    assert "model host/1" in a.requests
    assert [session.in_flight("scripted") for session in (a, b)] == [0, 1]
    world.run()
    assert [one.status for one in a.of(ModelReplied)] == ["cancelled", "ok"]


def test_an_agent_stopped_while_it_waits_frees_its_turn_and_calls_no_model() -> None:
    world = CapacityWorld(stop_while_waiting())
    until(world, "a", CallModel)
    until(world, "b", RequestCapacity)
    make(world, "b/fault cancel", "b/inbox supervisor")
    world.run()
    b = world.sessions["b"]
    assert [one.status for one in b.of(CapacityGiven)] == ["cancelled"]
    assert (b.ended.kind, b.ended.usage.calls, b.of(CallModel)) == ("cancelled", 0, [])


def test_a_schedule_makes_the_same_run_again_and_its_trace_tells_every_step() -> None:
    world = CapacityWorld(SHARED["stops"]).run(in_random_order("again"))
    steps = world.trace()
    assert [step.strand for step in steps] == [move.strand for _, move in world.made]
    assert all(0 <= step.cause < step.seq for step in steps)
    other = replay(CapacityWorlds(SHARED["stops"]), Schedule(tuple(step.strand for step in steps)))
    assert other.is_at_rest


def test_one_session_alone_on_a_port_without_limits_never_waits() -> None:
    world = CapacityWorld(SharedScenario({"a": family()}, {"other": Capacity(calls=1)})).run()
    assert given(world) == []
    assert world.sessions["a"].of(RequestCapacity) == []


def test_the_schedule_decides_who_is_first() -> None:
    orders = [given(CapacityWorld(pair()).run(in_random_order(seed))) for seed in range(30)]
    assert {tuple(order) for order in orders} == {("a/host", "b/host"), ("b/host", "a/host")}


def test_no_fault_strikes_a_call_that_waits_for_its_place() -> None:
    kinds = faults("overloaded", "timeout", "unstarted", "finished", fault_mixes=0)
    shared = leave()
    sessions = {name: replace(one, faults=kinds) for name, one in shared.sessions.items()}
    world = CapacityWorld(replace(shared, sessions=sessions))
    until(world, "a", CapacityGiven)
    make(world, "fault leave a")  # so its next process posts the call, without a place
    until(world, "b", CallModel)
    make(world, "a/resume")
    assert world.sessions["a"].held == {"host": "model host/1"}
    assert "b/fault overloaded model host/1" in [move.strand for move in world.moves()]
    assert not [move.strand for move in world.moves() if move.strand.startswith("a/fault")]


@pytest.mark.parametrize("limits", [Limits(), Limits(deadline_s=60)], ids=["no limit", "deadline"])
def test_a_client_gives_up_where_a_person_never_answers(limits: Limits) -> None:
    policy = script(host=[calls(PAY), DONE])
    chosen = faults("ignored", fault_mixes=0)
    one = Scenario([profile("host", asks=["pay"])], policy, [ask(limits=limits)], faults=chosen)
    world = CapacityWorld(SharedScenario({"a": one}, {"scripted": Capacity(calls=1)}))
    until(world, "a", RequestApproval)
    make(world, "a/fault ignored approval host/1.0")
    world.run()
    assert [ended.kind for ended in world.sessions["a"].of(AskEnded)] == [
        "deadline" if limits.deadline_s else "cancelled"
    ]
    assert all(one.at_rest(world, 0) is None for one in capacity_monitors(1))
