"""Sessions under shared budgets: random orders with stops, crashes of one and of all, and refusals."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from callboard.actors.protocol.client_messages import AskEnded, Close, SessionClosed
from callboard.actors.protocol.port_messages import BudgetGiven, RequestBudget, SettleBudget
from callboard.actors.session.budget_limits import Budget
from callboard.actors.session.capacity import Capacity
from callboard.replay.testing.sessions.budget_world import BudgetScenario, BudgetWorld, budget_monitors
from callboard.replay.testing.sessions.faults import Faults, faults
from callboard.replay.testing.sessions.injection import refuse
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import calls, task
from callboard.replay.testing.sessions.world import in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort
from tests.mutants.scripts import DONE, script

PEOPLE = [profile("host", ["kid"]), profile("kid")]
POLICY = script(host=[calls(task("kid"), task("kid")), DONE], kid=[DONE])
TAGS = {"a": ["t:x"], "b": ["t:x"], "c": ["t:y"]}


def family(given: Faults | None = None) -> Scenario:
    return Scenario(PEOPLE, POLICY, [ask()], faults=given or Faults())


def world_of(
    budgets: Mapping[str, Budget], given: Faults | None = None, crashes: int = 0, calls_at_once: int = 0
) -> BudgetWorld:
    capacity = {"scripted": Capacity(calls=calls_at_once)} if calls_at_once else {}
    sessions = {"a": family(given), "b": family(), "c": family(given)}
    return BudgetWorld(BudgetScenario(sessions, capacity, crashes, budgets=budgets, tags=TAGS))


def watched(world: BudgetWorld, seed: int) -> BudgetWorld:
    """Run a world in a random order, and hold every rule after each step and at rest."""
    monitors, choose = budget_monitors(), in_random_order(seed)
    for monitor in monitors:
        monitor.begin(10_000)
    for step in range(10_000):
        moves = world.moves()
        if not moves:
            break
        world.make(moves[choose(len(moves))])
        for monitor in monitors:
            assert monitor.after(world, step, 10_000) is None
    for monitor in monitors:
        assert monitor.at_rest(world, step) is None
    return world


ROOMY = {"*": Budget(tokens=100_000), "t:*": Budget(tokens=50_000, per="day")}
# The first turn of a host needs 2,075 tokens, others 146 to 235, and each uses 15.
NARROW = {"*": Budget(tokens=4_500), "t:*": Budget(tokens=2_400)}
TIGHT = {"*": Budget(tokens=2_600), "t:*": Budget(tokens=2_500)}


def test_with_room_for_all_every_session_answers_and_pays() -> None:
    world = watched(world_of(ROOMY), 1)
    assert [one.ended.kind for one in world.sessions.values()] == ["answered"] * 3
    spent, reserved = world.stored()
    usage = sum(one.ended.usage.tokens for one in world.sessions.values())
    assert (spent["*", ""], reserved) == (usage, [])
    for session in world.sessions.values():
        assert Verifier(session.log).run() is None


FAULTS = ("cancel", "crash", "detach", "overloaded", "unmetered")


@pytest.mark.parametrize("seed", range(effort(suite=10, campaign=300)))
@pytest.mark.parametrize("budgets", [NARROW, TIGHT], ids=["narrow", "tight"])
@pytest.mark.parametrize("calls_at_once", [0, 1], ids=["alone", "placed"])
def test_no_order_with_crashes_and_stops_breaks_a_rule(
    seed: int, budgets: Mapping[str, Budget], calls_at_once: int
) -> None:
    given = faults(*FAULTS, most=2, seed=seed)
    world = watched(world_of(budgets, given, crashes=1, calls_at_once=calls_at_once), seed)
    for session in world.sessions.values():
        assert session.of(AskEnded) or session.failure


def test_what_is_reserved_for_a_session_that_has_failed_stays_so() -> None:
    world = BudgetWorld(BudgetScenario({"a": family()}, {}, budgets=ROOMY))
    session = world.sessions["a"]
    while not session.of(BudgetGiven):
        world.make(world.moves()[0])
    refuse(session)
    watched(world, 1)
    assert session.failure is not None
    assert not session.of(BudgetGiven), "the log has lost it"
    assert world.budgets.reservations("a")


def test_a_budget_that_comes_after_the_end_is_settled() -> None:
    world = BudgetWorld(BudgetScenario({"a": family()}, {}, budgets=ROOMY))
    session = world.sessions["a"]
    while not session.events(RequestBudget):
        world.make(world.moves()[0])
    session.say(Close())
    answers = {"a/budget host/1", "a/inbox host"}
    while not session.of(SessionClosed):  # the agent does not stop in time
        moves = [move for move in world.moves() if move.strand not in answers]
        if moves:
            world.make(moves[0])
        else:
            session.jump()
    watched(world, 1)
    assert [one.tokens for one in session.of(SettleBudget)] == [0]
    assert not world.budgets.reservations("a")


def test_the_orders_meet_waits_refusals_and_calls_that_no_log_holds() -> None:
    statuses: Counter[str] = Counter()
    waits = unlogged = 0
    for seed in range(30):
        world = watched(world_of(TIGHT, faults("crash", most=2, seed=seed)), seed)
        statuses.update(one.status for each in world.sessions.values() for one in each.of(BudgetGiven))
        waits += world.waits
        unlogged += len(world.unlogged)
    assert waits
    assert unlogged
    assert statuses["refused"]
    assert statuses["given"]


def test_a_call_that_waits_for_another_session_is_served_after_it() -> None:
    need = 1_100
    tight = {"*": Budget(tokens=need)}
    one = Scenario([profile("host")], script(), [ask()])
    world = BudgetWorld(BudgetScenario({"a": one, "b": replace(one)}, {}, budgets=tight))
    watched(world, 3)
    assert {session.ended.kind for session in world.sessions.values()} <= {"answered", "budget"}
