"""One rich session, disturbed at every single point: cancelled, closed, out of time, with failing deciders.

And what an undisturbed one says: three messages a turn, plus its calls.
"""

from collections.abc import Callable
from typing import Any

import pytest

from callboard.actors.addresses import SUPERVISOR
from callboard.actors.events import Event
from callboard.actors.limits import Limits
from callboard.actors.messages import (
    AskEnded,
    Begin,
    CallModel,
    DeciderFailed,
    DelegationEnded,
    ModelFailure,
    Stop,
    TimerFired,
    TurnRequested,
)
from callboard.actors.request import ModelRequest
from tests.checks import check_all
from tests.ledger import budgets_are_kept_and_nothing_is_refused_that_would_fit
from tests.world import NO_LIMITS, Says, World, calls, profile, report, shuffled, task

SCHEMA = {"type": "object", "required": ["n"]}
PROFILES = [
    profile("host", ["kid", "racer"], ["look"], writes=["save"], schema=SCHEMA),
    profile("kid", ["grandkid"], ["look"], limits=Limits(tokens=60_000)),
    profile("racer"),
    profile("grandkid", writes=["save"]),
]
BUSY = ModelFailure("overloaded", is_retryable=True)


def rich(request: ModelRequest) -> Says:
    """Tools of both kinds, children and grandchildren, a race, a retry, an invalid and a valid report."""
    turn, who = request.turn, request.profile
    if who == "host":
        first: tuple[tuple[str, dict[str, object]], ...] = (
            task("kid", output_schema=SCHEMA),
            task("racer", copies=2),
            ("save", {}),
            task("nobody"),
        )
        return [calls(*first, text="I ask"), Says("hm"), report({"n": 1})][(turn - 1) % 3]
    if who == "kid":
        if turn == 1:
            return calls(task("grandkid"), ("look", {}))
        return report({"m": 1}) if turn == 2 else report({"n": 2})
    if who == "grandkid":
        return calls(("save", {})) if turn == 1 else Says("saved")
    if request.address.endswith(".2") and request.attempt == 1:
        return Says(failure=BUSY, percent=0)
    return Says(f"{request.address} is done")


def session(choose: Callable[[int], int] = lambda n: 0, limits: Limits = NO_LIMITS, **more: Any) -> World:
    world = World(PROFILES, rich, limits, choose=choose, **more).open()
    world.ask()
    return world


def checked(world: World) -> World:
    check_all(world)
    budgets_are_kept_and_nothing_is_refused_that_would_fit(world)
    return world


def steps_of(choose: Callable[[int], int] = lambda n: 0) -> int:
    """How many steps the undisturbed session has."""
    world, steps = session(choose), 0
    while found := world.may_move():
        world.move(world.choose(found))
        steps += 1
    return steps


def disturbed(step: int, disturb: Callable[[World], object], seed: int, **more: Any) -> World:
    """The session with something done before one of its steps, run to its end."""
    world = session(shuffled(seed), **more)
    for _ in range(step):
        if found := world.may_move():
            world.move(world.choose(found))
    disturb(world)
    return world.run()


SEEDS = (1, 2)
POINTS = [(seed, step) for seed in SEEDS for step in range(steps_of(shuffled(seed)))]


def test_the_session_is_rich() -> None:
    world = checked(session().run())
    assert world.ended.kind == "reported"
    assert {end.kind for end in world.of(DelegationEnded)} == {"reported", "answered", "denied"}
    assert {stop.reason for stop in world.of(Stop)} == {"lost_race"}
    assert max(begin.depth for begin in world.of(Begin)) == 2
    assert len(POINTS) > 100


@pytest.mark.slow
def test_a_cancel_at_any_point_ends_everything_and_the_session_goes_on() -> None:
    for seed, step in POINTS:
        world = disturbed(step, World.cancel, seed)
        assert world.ended.kind in ("cancelled", "reported")
        world.ask("again", name="r2")
        checked(world.run())
        assert [ended.request_id for ended in world.of(AskEnded)] == ["r1", "r2"]
        assert world.of(AskEnded)[1].kind == "reported"


@pytest.mark.slow
def test_a_close_at_any_point_ends_everything() -> None:
    for seed, step in POINTS:
        world = checked(disturbed(step, World.close, seed))
        assert world.supervisor.phase == "closed"


@pytest.mark.slow
def test_a_deadline_at_any_point_ends_everything() -> None:
    def fire(world: World) -> None:
        if 1 in world.timers:  # the ask's deadline is the first timer there is
            world.fire(1)

    for seed, step in POINTS:
        world = disturbed(step, fire, seed, limits=Limits(deadline_s=9))
        assert checked(world).ended.kind in ("deadline", "reported")


@pytest.mark.slow
def test_any_decider_of_an_agent_may_fail_on_any_event() -> None:
    for seed in SEEDS:
        log = session(shuffled(seed)).run().log
        for event in log:
            if event.recipient.startswith("host"):
                world = session(shuffled(seed), raises=failing_on(event.seq)).run()
                assert [failure.event for failure in world.of(DeciderFailed)] == [event.seq]
                checked(world)


@pytest.mark.slow
def test_any_decider_may_fail_again_on_the_next_event_it_hears() -> None:
    for seed in SEEDS:
        for event in session(shuffled(seed)).run().log:
            if event.recipient.startswith("host"):
                world = session(shuffled(seed), raises=failing_from(event)).run()
                checked(world)
                world.raises = lambda address, event: False
                world.ask("again", name="r2")
                checked(world.run())


def failing_on(seq: int) -> Callable[[str, Event], bool]:
    return lambda address, event: event.seq == seq


def failing_from(first: Event) -> Callable[[str, Event], bool]:
    """One agent's decider raises on this event and on everything after it."""
    return lambda address, event: address == first.recipient and event.seq >= first.seq


@pytest.mark.parametrize("tokens", [5_000, 20_000, 60_000, 200_000])
def test_whatever_the_budget_the_session_ends_within_it(tokens: int) -> None:
    for seed in range(10):
        checked(session(shuffled(seed), Limits(tokens=tokens, max_parallel_calls=2)).run())


# --- what is said -----------------------------------------------------------------


def kinds(world: World) -> list[str]:
    return [f"{event.sender}>{event.recipient} {event.kind}" for event in world.log]


def test_an_ask_that_is_answered_at_once_takes_seven_messages() -> None:
    world = World([profile("host")], lambda request: Says("done")).open()
    world.ask()
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
    world = World(
        [profile("host", tools=["look"])],
        lambda request: calls(("look", {})) if request.turn < 4 else Says("done"),
    ).open()
    world.ask()
    assert len(world.run().log) == len(["SessionOpened"]) + 7 + 3 * (3 + 3)


def test_a_delegation_with_a_report_takes_twelve_messages() -> None:
    def policy(request: ModelRequest) -> Says:
        if request.profile == "kid":
            return report({"n": 1})
        return calls(task("kid", output_schema=SCHEMA)) if request.turn == 1 else Says("done")

    world = World([profile("host", ["kid"]), profile("kid")], policy).open()
    world.ask()
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


def test_a_turn_costs_four_messages_at_most_whatever_it_calls() -> None:
    world = session().run()
    turns = len(world.of(TurnRequested))
    assert len(world.of(CallModel)) <= turns
    settlements = [event for event in world.log if event.kind == "TurnSettled"]
    assert len(settlements) <= turns


def test_only_the_clock_fires_timers() -> None:
    world = session(shuffled(3)).run()
    assert all(event.sender == "clock" for event in world.events(TimerFired))
    assert all(event.sender == SUPERVISOR for event in world.events(Stop))
