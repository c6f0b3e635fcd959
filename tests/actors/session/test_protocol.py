"""One rich session, disturbed at every single point: cancelled, closed, out of time, with failing deciders.

And what an undisturbed one says: three messages a turn, plus its calls.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, DeciderFailed, DelegationEnded, Stop, TurnRequested
from callboard.actors.protocol.port_messages import CallModel, TimerFired
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import NO_LIMITS, Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, Use, calls, report, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order

SCHEMA = {"type": "object", "required": ["n"]}
PROFILES = [
    profile("host", ["kid", "racer"], ["look"], writes=["save"], schema=SCHEMA),
    profile("kid", ["grandkid"], ["look"], limits=Limits(tokens=60_000)),
    profile("racer"),
    profile("grandkid", writes=["save"]),
]
BUSY = ModelFailure("overloaded", is_retryable=True)


def rich(request: ModelRequest) -> Reply:
    """Script tools of both kinds, grandchildren, a race, a retry, an invalid and a valid report."""
    turn, who = request.turn, request.profile
    if who == "host":
        first: tuple[Use, ...] = (
            task("kid", output_schema=SCHEMA),
            task("racer", copies=2),
            ("save", {}),
            task("nobody"),
        )
        return [calls(*first, text="I ask"), Reply("hm"), report({"n": 1})][(turn - 1) % 3]
    if who == "kid":
        if turn == 1:
            return calls(task("grandkid"), ("look", {}))
        return report({"m": 1}) if turn == 2 else report({"n": 2})
    if who == "grandkid":
        return calls(("save", {})) if turn == 1 else Reply("saved")
    if request.address.endswith(".2") and request.attempt == 1:
        return Reply(failure=BUSY, percent=0)
    return Reply(f"{request.address} is done")


RICH = Scenario(PROFILES, rich, [ask()])
Choose = Callable[[int], int]


def oldest(n: int) -> int:
    return 0


def session(limits: Limits = NO_LIMITS, *kinds: str) -> SessionWorld:
    """Make the session at its start. kinds: the faults that may strike."""
    wrong = faults(*kinds, most=100, fault_mixes=0) if kinds else RICH.faults
    return SessionWorld(replace(RICH, limits=limits, faults=wrong))


def step(world: SessionWorld, choose: Choose) -> bool:
    """Make one move that is no fault; False without one."""
    moves = [move for move in world.moves() if move.kind != "fault"]
    if moves:
        world.make(moves[choose(len(moves))])
    return bool(moves)


def inject(world: SessionWorld, strand: str) -> None:
    """Let a fault strike, if it can."""
    for move in world.moves():
        if move.strand == strand:
            world.make(move)


def checked(world: SessionWorld) -> SessionWorld:
    assert breaches_of(world) == []
    return world


def steps_of(choose: Choose = oldest) -> int:
    """Count the steps of the undisturbed session."""
    world, steps = session(), 0
    while step(world, choose):
        steps += 1
    return steps


def disturbed(
    steps: int,
    disturb: Callable[[SessionWorld], object],
    seed: int,
    world: SessionWorld,
    goes_on: bool = True,
) -> SessionWorld:
    """Run the session with a disturbance before one of its steps."""
    choose = in_random_order(seed)
    for _ in range(steps):
        step(world, choose)
    disturb(world)
    while goes_on and step(world, choose):
        pass
    return world


SEEDS = (1, 2)
POINTS = [(seed, at) for seed in SEEDS for at in range(steps_of(in_random_order(seed)))]


def test_the_session_is_rich() -> None:
    world = checked(session().run())
    assert world.ended.kind == "reported"
    assert {end.kind for end in world.of(DelegationEnded)} == {"reported", "answered", "denied"}
    assert {stop.reason for stop in world.of(Stop)} == {"lost_race"}
    assert max(begin.depth for begin in world.of(Begin)) == 2
    assert len(POINTS) > 100


@pytest.mark.slow
def test_a_cancel_at_any_point_ends_everything_and_the_session_goes_on() -> None:
    for seed, at in POINTS:
        world = disturbed(at, SessionWorld.cancel, seed, session())
        assert world.ended.kind in ("cancelled", "reported")
        checked(world.ask("again", request_id="r2").run())
        assert [ended.request_id for ended in world.of(AskEnded)] == ["r1", "r2"]
        assert world.of(AskEnded)[1].kind == "reported"


@pytest.mark.slow
def test_a_close_at_any_point_ends_everything() -> None:
    for seed, at in POINTS:
        world = checked(disturbed(at, SessionWorld.close, seed, session()))
        assert world.supervisor.phase == "closed"


@pytest.mark.slow
def test_a_deadline_at_any_point_ends_everything() -> None:
    def fire(world: SessionWorld) -> None:
        if due := world.later.get("timer deadline host"):
            world.now = max(world.now, due)
            world.fire("timer deadline host")

    for seed, at in POINTS:
        world = disturbed(at, fire, seed, session(Limits(deadline_s=9)))
        assert checked(world).ended.kind in ("deadline", "reported")


def crashes_at(at: int, seed: int) -> list[str]:
    """Return the deciders that could fail before a step, as faults."""
    moves = disturbed(at, lambda world: None, seed, session(NO_LIMITS, "crashes"), goes_on=False).moves()
    return [move.strand for move in moves if move.kind == "fault"]


@pytest.mark.slow
def test_any_decider_of_an_agent_may_fail_on_any_event() -> None:
    for seed, at in POINTS:
        for chain in crashes_at(at, seed):
            world = session(NO_LIMITS, "crashes")
            disturbed(at, partial(inject, strand=chain), seed, world)
            assert len(world.of(DeciderFailed)) == 1
            checked(world)


@pytest.mark.slow
def test_any_decider_may_fail_again_on_the_next_event_it_hears() -> None:
    for seed, at in POINTS:
        for chain in crashes_at(at, seed):
            choose, world = in_random_order(seed), session(NO_LIMITS, "crashes")
            for _ in range(at):
                step(world, choose)
            inject(world, chain)
            while step(world, choose):
                inject(world, chain)
            world.heal()
            checked(world.ask("again", request_id="r2").run())


@pytest.mark.parametrize("tokens", [5_000, 20_000, 60_000, 200_000])
def test_a_session_ends_within_any_budget(tokens: int) -> None:
    for seed in range(10):
        checked(session(Limits(tokens=tokens, max_parallel_calls=2)).run(in_random_order(seed)))


# --- the words -----------------------------------------------------------------------


def kinds(world: SessionWorld) -> list[str]:
    return [f"{event.sender}>{event.recipient} {event.kind}" for event in world.log]


def test_an_ask_that_is_answered_at_once_takes_seven_messages() -> None:
    world = SessionWorld(Scenario([profile("host")], lambda request: Reply("done"), [ask()]))
    assert kinds(world.run())[1:] == [
        "client>supervisor Ask",
        "supervisor>host Begin",
        "host>supervisor TurnRequested",
        "supervisor>model CallModel",
        "model>host ModelReplied",
        "host>supervisor Finished",
        "supervisor>client AskEnded",
    ]


def test_a_turn_with_a_tool_takes_three_messages_more_than_one_without() -> None:
    def policy(request: ModelRequest) -> Reply:
        return calls(("look", {})) if request.turn < 4 else Reply("done")

    world = SessionWorld(Scenario([profile("host", tools=["look"])], policy, [ask()]))
    assert len(world.run().log) == len(["SessionOpened"]) + 7 + 3 * (3 + 3)


def test_a_delegation_with_a_report_takes_twelve_messages() -> None:
    def policy(request: ModelRequest) -> Reply:
        if request.profile == "kid":
            return report({"n": 1})
        return calls(task("kid", output_schema=SCHEMA)) if request.turn == 1 else Reply("done")

    world = SessionWorld(Scenario([profile("host", ["kid"]), profile("kid")], policy, [ask()]))
    log = kinds(world.run())
    start = log.index("host>supervisor Delegate")
    stop = log.index("supervisor>host DelegationEnded")
    assert log[start : stop + 1] == [
        "host>supervisor Delegate",
        "supervisor>schema CheckSchema",
        "schema>supervisor SchemaChecked",
        "supervisor>host.1 Begin",
        "host.1>supervisor TurnRequested",
        "supervisor>model CallModel",
        "model>host.1 ModelReplied",
        "host.1>supervisor ReportBack",
        "supervisor>schema CheckSchema",
        "schema>supervisor SchemaChecked",
        "supervisor>host.1 ReportJudged",
        "supervisor>host DelegationEnded",
    ]
    assert log.count("host.1>supervisor Finished") == 1


def test_a_turn_costs_at_most_four_messages_for_any_calls() -> None:
    world = session().run()
    turns = len(world.of(TurnRequested))
    assert len(world.of(CallModel)) <= turns
    settlements = [event for event in world.log if event.kind == "TurnSettled"]
    assert len(settlements) <= turns


def test_only_the_clock_fires_timers() -> None:
    world = session().run(in_random_order(3))
    assert all(event.sender == "clock" for event in world.events(TimerFired))
    assert all(event.sender == SUPERVISOR for event in world.events(Stop))
