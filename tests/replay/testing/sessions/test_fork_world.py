"""Forks in the simulator: at every event, with changes, under schedules and crashes."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace as with_values

from callboard.actors.protocol.addresses import MODEL, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import AskEnded, RevokePermission
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ApprovalGiven, CallModel, RequestApproval, ToolReturned
from callboard.actors.session.fork_plan import calls_of
from callboard.replay.testing.run import Bounds, Run, perform
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.fork_rules import fork_monitors
from callboard.replay.testing.sessions.fork_world import Fork, ForkWorld, ForkWorlds
from callboard.replay.testing.sessions.scenario import Scenario, approves, ask, profile
from callboard.replay.testing.sessions.scripted_replies import calls
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Move
from tests.effort import effort
from tests.mutants.scenarios_forks import FORKS, family, recorded
from tests.mutants.scripts import DONE, PAY, script

BOUNDS = Bounds(steps=200, steps_in_all=3_000)
NAMES = sorted(FORKS)


def run(fork: Fork, seed: str) -> Run:
    """Make one run: in the order of the recording for an empty seed, else in a random one, with crashes."""
    any_of = Random(seed).choice

    def first(offered: Sequence[Move]) -> Move:
        return any_of(offered) if seed else offered[0]

    def calm(offered: Sequence[Move]) -> Move:
        return any_of([move for move in offered if move.kind != "fault"]) if seed else offered[0]

    return perform(ForkWorlds(fork)(), fork_monitors(1), first, calm, BOUNDS)


@pytest.mark.parametrize("name", [*NAMES[:: effort(4, 1)]])
def test_no_rule_of_forks_is_broken(name: str) -> None:
    for seed in ("", *(f"{name}/{number}" for number in range(effort(2, 50)))):
        made = run(FORKS[name], seed)
        assert made.violation is None, (name, seed, made.violation)
        assert made.is_at_rest


STOPPED: Final = ("fault cancel", "inbox supervisor")
QUESTION: Final = ("inbox host", "inbox supervisor", "model host/2", "inbox host", "inbox supervisor")
HANDLED: Final = ("inbox host", "inbox host")


@pytest.mark.parametrize(
    ("name", "strands"),
    [
        pytest.param(
            "cut short, live",
            [
                *("inbox host", "inbox supervisor", "approval host/1.1", "inbox host"),  # the tool may run
                *("fault crash", "resume", "tool host/1.0", "approval host/1.1 again", *STOPPED, *HANDLED),
            ],
            id="a call is made again after a stop",
        ),
        pytest.param(
            "repeating with host:4:0",
            [
                *("inbox host", "inbox host", "inbox supervisor", "model host/5", "inbox host"),
                *("person allows tool host/5.0", "tool host/5.0", "fault crash", "fault lose one", "resume"),
            ],
            id="the result of a call that a person allowed is lost",
        ),
        pytest.param(
            "allowed",
            [*QUESTION, *STOPPED, "fault crash", "fault lose one", "resume"],
            id="the end of a question is lost",
        ),
        pytest.param(
            "allowed", [*QUESTION, "fault crash", "resume", *STOPPED], id="a question is asked again and ends"
        ),
    ],
)
def test_no_rule_of_forks_is_broken_in_one_order(name: str, strands: Sequence[str]) -> None:
    fork = FORKS[name]
    offered = replace(fork.scenario, faults=faults("crash", "cancel", fault_mixes=0))
    world = ForkWorlds(replace(fork, scenario=offered))()
    for strand in strands:
        world.make(next(move for move in world.moves() if move.strand == strand))
    world.heal()
    world.run(lambda moves: moves - 1)  # the last thing that a person may do is to take another result
    assert [found for one in fork_monitors(1) if (found := one.at_rest(world, 0))] == []


def test_a_fork_without_a_change_at_any_event_has_the_outcomes_of_its_recording() -> None:
    scenario = family()
    log = recorded(scenario)
    was = [(one.body.kind, one.body.text, one.body.usage) for one in log if isinstance(one.body, AskEnded)]
    for base in range(1, len(log) + 1, effort(5, 1)):
        world = ForkWorld(Fork(scenario, log, base)).run()
        assert not world.live
        assert [(one.kind, one.text, one.usage) for one in world.of(AskEnded)] == was


def test_a_person_decides_in_a_fork_that_asks() -> None:
    scenario = family()
    log = recorded(scenario)
    found = next(name for name, one in FORKS.items() if one.effects == "ask" and name.startswith("family"))
    world = ForkWorlds(FORKS[found])()
    while not (asked := [move for move in world.moves() if move.strand.startswith("person ")]):
        world.make(world.moves()[0])
    assert [move.strand.split()[1] for move in asked] == ["allows", "refuses"] * (len(asked) // 2)
    before = len(world.effects)
    world.make(asked[1])
    assert len(world.effects) == before
    refused = [one for one in world.of(ToolReturned) if one.status == "error"]
    assert len(refused) == 1
    assert len(log) > world.base


def permitting() -> tuple[Scenario, list[Event]]:
    """Return a session in which a permission answers a question, until the client revokes it."""

    def always(address: str, request: RequestApproval) -> ApprovalGiven:
        return with_values(approves(address, request), is_always=True)

    policy = script(host=[calls(PAY), calls(PAY), calls(PAY), DONE])
    scenario = Scenario([profile("host", asks=["pay"])], policy, [ask()], approve=always)
    world = SessionWorld(scenario)
    while len(world.of(ApprovalGiven)) < 2:
        world.make(world.moves()[0])
    world.say(RevokePermission(world.events(ApprovalGiven)[0].seq))
    world.run()
    assert [bool(one.permission) for one in world.of(ApprovalGiven)] == [False, True, False]
    return scenario, world.log


def test_a_fork_has_permissions_of_its_own() -> None:
    scenario, log = permitting()
    for base in range(1, len(log) + 1):
        fork = Fork(scenario, log, base)
        world = ForkWorld(fork).run()
        assert not world.live
        first = world.events(ApprovalGiven)[0].seq
        assert [one.permission for one in world.of(ApprovalGiven)] == [0, first, 0]
        assert [one.permission for one in world.of(RevokePermission)] == [first]
        assert [found for one in fork_monitors(1) if (found := one.at_rest(world, 0))] == []


def test_a_fork_in_which_nobody_permits_the_calls_asks_a_person() -> None:
    scenario, log = permitting()
    first = next(one for one in calls_of(log) if one[2] == 0)
    said = next(event.seq for event in log if isinstance(event.body, ApprovalGiven))
    assert first == ("host", 1, 0)
    world = ForkWorld(Fork(scenario, log, None, {said: text_json("no")}, "live")).run()
    verdicts = [(one.verdict, bool(one.permission), one.is_always) for one in world.of(ApprovalGiven)]
    assert verdicts[0] == ("denied", False, False)
    assert verdicts[1] == ("approved", False, True)  # asked anew, since no permission covers it
    assert [found for one in fork_monitors(1) if (found := one.at_rest(world, 0))] == []


@pytest.mark.parametrize("heard", [True, False])
def test_only_a_turn_of_an_agent_that_has_heard_of_its_need_is_one_too_many(heard: bool) -> None:
    need = Event(5, 0, TOOLS, "host", 3, ToolReturned(1, 0, "needs_effect"))
    turn = Event(6, 0, SUPERVISOR, MODEL, 5 if heard else 4, CallModel("host", 4))
    world = ForkWorld(FORKS["late at 1"])
    world.log, world.base = [need, turn], 0
    (rule,) = (one for one in fork_monitors(1) if one.name == "needs-effect")
    assert len(rule.found(world)) == heard
