"""Programs in whole sessions: the figures of their caps, and a stop at every point of a gather."""

from collections import Counter

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Begin,
    CancelTask,
    Delegate,
    DelegationEnded,
    Finished,
    Stopped,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    CancelCall,
    SetTimer,
    ToolReturned,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.step_messages import RunStep
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import (
    Reply,
    Step,
    delegate,
    last_reply,
    question,
    reply_of,
    tool,
)
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.effort import effort
from tests.mutants.campaign import without_faults
from tests.mutants.scenarios_programs import PROGRAMS

PEOPLE = [program_profile("host", ["kid"], ["look"]), profile("kid")]


def in_a_row(steps: int, step: Step, request: ModelRequest) -> Reply:
    """Take the same step so many times, each after the answer to the one before, and return."""
    if request.profile != "host":
        return Reply("done")
    number = request.turn
    named = step.asks[0]._replace(id=f"a{number}")
    return reply_of(Step((named,)), number) if number <= steps else last_reply("done", number)


def most_at_once(world: SessionWorld) -> int:
    """Return the largest number of sub-agents that had begun and not ended."""
    live = most = 0
    for event in world.log:
        live += isinstance(event.body, Begin) and event.recipient != "host"
        live -= isinstance(event.body, Finished | Stopped) and event.sender != "host"
        most = max(most, live)
    return most


def ends_of(world: SessionWorld) -> Counter[str]:
    return Counter(ended.kind for ended in world.of(DelegationEnded))


@pytest.mark.slow
def test_a_gather_of_1000_delegates_is_never_denied_and_never_more_than_32_at_once() -> None:
    asks = tuple(delegate(f"k{at}", "kid") for at in range(1_000))
    left = set(range(1_000))

    def policy(request: ModelRequest) -> Reply:
        if request.profile != "host":
            return Reply("done")
        if request.turn == 1:
            return reply_of(Step(asks), 1)
        newest = request.messages[-1]
        left.difference_update(at for at in range(1_000) if f'"k{at}"'.encode() in bytes(newest))
        return reply_of(Step(), request.turn) if left else last_reply("done", request.turn)

    world = SessionWorld(Scenario(PEOPLE, policy, [ask()], Limits(max_agents=1_001))).run(steps=100_000)
    assert world.ended.kind == "answered"
    assert ends_of(world) == {"answered": 1_000}
    assert most_at_once(world) == 32
    assert check_log(world.log, is_at_rest=True) == []


@pytest.mark.slow
def test_thousands_of_questions_in_a_row_are_all_answered() -> None:
    many = effort(1_500, 5_000)  # more than Python may nest calls

    def policy(request: ModelRequest) -> Reply:
        return in_a_row(many, Step((question("q"),)), request)

    world = SessionWorld(Scenario(PEOPLE, policy, [ask()])).run(steps=100_000)
    assert world.ended.kind == "answered"
    assert ends_of(world) == {"answered": many}
    assert most_at_once(world) == 1
    assert check_log(world.log, is_at_rest=True) == []


@pytest.mark.slow
def test_1000_steps_without_models_use_and_charge_nothing() -> None:
    def policy(request: ModelRequest) -> Reply:
        return in_a_row(1_000, Step((tool("t", "look"),)), request)

    world = SessionWorld(Scenario(PEOPLE, policy, [ask(limits=Limits(tokens=1))])).run(steps=100_000)
    assert world.ended.kind == "answered"
    assert (world.ended.usage.tokens, world.ended.usage.calls) == (0, 0)
    assert (world.host.spent.tokens, world.host.reserved.tokens) == (0, 0)
    assert len(world.of(CallTool)) == 1_000


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(4))
def test_a_session_of_programs_breaks_no_rule_in_a_random_order(name: str, seed: int) -> None:
    world = SessionWorld(without_faults(PROGRAMS[name])).run(in_random_order(seed))
    assert breaches_of(world) == []


@pytest.mark.parametrize("name", ["gather", "first_of_many", "timeouts", "stopped"])
def test_a_cancel_at_every_point_leaves_nothing(name: str) -> None:
    scenario = without_faults(PROGRAMS[name])
    length = len(SessionWorld(scenario).run().made)
    for point in range(0, length, 5):
        world = SessionWorld(scenario)
        for _ in range(point):
            world.make(world.moves()[0])
        if not world.of(AskEnded):
            world.cancel()
        assert breaches_of(world.run(in_random_order(point))) == [], point


def test_the_answer_of_a_call_that_was_given_up_is_logged_and_not_delivered() -> None:
    world = SessionWorld(without_faults(PROGRAMS["first_of_many"])).run(in_random_order(1))
    cancelled = {
        (one.turn, one.call): event for event in world.log if isinstance(one := event.body, CancelCall)
    }
    assert cancelled
    assert world.of(CancelTask)
    late = [
        event.seq
        for event in world.log
        if isinstance(one := event.body, ToolReturned | ApprovalGiven) and (one.turn, one.call) in cancelled
    ]
    assert len(late) >= len(cancelled)
    assert not {seq for wish in world.of(RunStep) for seq in wish.new}.intersection(late)
    assert len(world.of(Delegate)) == len(world.of(DelegationEnded))


def test_a_deadline_is_one_timer_that_is_set_for_a_moment() -> None:
    world = SessionWorld(without_faults(PROGRAMS["timeouts"])).run()
    timers = world.of(SetTimer)
    assert timers
    assert all(timer.until is not None and not timer.after_ms for timer in timers)
    assert not world.timers
