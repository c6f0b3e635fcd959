"""The rules of programs: they hold of good logs and of each prefix, and fail on logs that break them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import RULES, Resumed
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Begin,
    CancelTask,
    Delegate,
    DelegationEnded,
    Finished,
    TurnRequested,
    Wake,
    Woken,
)
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CancelCall,
    CheckSchema,
    MakeContext,
    ToolReturned,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.rules import programs
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.resumes import go_on
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import delegate
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.campaign import without_faults
from tests.mutants.scenarios_programs import PROGRAMS, Running, cast, everything
from tests.mutants.scenarios_state import last_words
from tests.mutants.scripts import DONE
from tests.replay.testing.edited_logs import Log, appended, edited, find, limited, of_kind
from tests.tables import table


def log_of(name: str, seed: int = 1, rules: int = RULES) -> Log:
    scenario = without_faults(replace(PROGRAMS[name], rules=rules))
    return SessionWorld(scenario).run(in_random_order(seed)).log


GATHER, FIRST, TIMEOUTS = log_of("gather"), log_of("first_of_many"), log_of("timeouts", 2)
GRANTED = log_of("gather", rules=1)  # each step has a grant
HOST_ASKS = of_kind(TurnRequested, sender="host")


def given_up_and_started() -> Log:
    cancel = find(FIRST, of_kind(CancelCall))
    body = cancel.body
    assert isinstance(body, CancelCall)
    call = CallTool(body.turn, body.call, "look", "read", find(FIRST, of_kind(CallTool)).body.arguments)  # type: ignore[union-attr]  # found by its kind
    return appended(FIRST, "host", "tools", cancel.cause, call)


def asks_after_the_return() -> Log:
    end = find(GATHER, of_kind(Finished, sender="host"))
    return appended(GATHER, "host", "supervisor", end.cause, TurnRequested(99))


def started_out_of_line() -> Log:
    tools = [event for event in GATHER if isinstance(event.body, CallTool) and event.sender == "host"]
    return appended(GATHER, "host", "tools", tools[-1].cause, tools[0].body)


def cancelled_by_nobody() -> Log:
    return edited(GATHER, of_kind(ToolReturned, "host"), status="cancelled")


DOCTORED: dict[str, tuple[type[Invariant], Callable[[], Log]]] = {
    "a step with a need": (programs.FreeSteps, lambda: edited(GRANTED, HOST_ASKS, need=Need(1))),
    "a step that waits": (programs.FreeSteps, lambda: edited(GRANTED, of_kind(CallModel), agent="host.1")),
    "more copies than may be": (
        programs.LiveCopies,
        lambda: limited(GATHER, of_kind(Begin, "host"), max_children=1),
    ),
    "a question with turns": (programs.Questions, lambda: limited(GATHER, of_kind(Begin), max_iterations=9)),
    "a tool out of line": (programs.ToolLine, started_out_of_line),
    "a call that starts although it was given up": (programs.GivenUp, given_up_and_started),
    "a delegation that goes on": (programs.GivenUp, lambda: edited(FIRST, of_kind(DelegationEnded), call=77)),
    "a call that nobody gave up": (programs.GivenUp, cancelled_by_nobody),
    "a step of an agent that is no program": (
        programs.FreeSteps,
        lambda: appended(GATHER, find(GATHER, of_kind(Begin), 1).recipient, "model", 0, RunStep(1)),
    ),
    "an answer that is not heard": (programs.StepAnswers, lambda: edited(GATHER, of_kind(RunStep), new=())),
    "a call given up whose answer is missing": (
        programs.StepAnswers,
        lambda: edited(FIRST, of_kind(CancelCall), turn=88),
    ),
    "a step after the return": (programs.AfterReturn, asks_after_the_return),
    "a deadline that is not its own": (programs.Deadlines, lambda: edited(TIMEOUTS, of_kind(Woken), until=5)),
    "a deadline that was replaced": (programs.Deadlines, lambda: edited(TIMEOUTS, of_kind(Wake), until=5)),
}


@table("name", DOCTORED)
def test_a_log_that_breaks_the_rule_is_found(name: str) -> None:
    rule, doctored = DOCTORED[name]
    found = check_log(doctored(), is_at_rest=True, kinds=(rule,))
    assert {breach.rule for breach in found} == {rule.rule}


@pytest.mark.parametrize("log", [GATHER, FIRST, TIMEOUTS], ids=["gather", "first_of_many", "timeouts"])
def test_good_logs_break_no_rule_and_neither_does_any_prefix_of_them(log: Log) -> None:
    assert check_log(log, is_at_rest=True) == []
    assert [one for length in range(len(log)) for one in check_log(log[:length])] == []


def test_a_delegation_that_waits_for_its_context_lets_a_later_one_pass() -> None:
    def host(prompt: object) -> Running:
        got = yield from everything(delegate("a", "slow"), delegate("b", "quick"))
        return got

    people = [program_profile("host", ["slow", "quick"]), profile("slow", context="c"), profile("quick")]
    policy = cast({"host": host}, slow=[DONE], quick=[DONE])
    log = SessionWorld(Scenario(people, policy, [ask()], context=last_words)).run(in_random_order(1)).log
    begun = [event.recipient for event in log if isinstance(event.body, Begin)]
    assert begun == ["host", "host.2", "host.1"]
    assert check_log(log, is_at_rest=True) == []


@table(("more", "context"), [({"output_schema": {"type": "object"}}, ""), ({}, "c")])
def test_a_delegation_that_a_port_holds_up_keeps_its_place_under_a_lower_limit(
    more: dict[str, Any], context: str
) -> None:
    """It has taken its place before the session goes on with the limit."""

    def host(prompt: object) -> Running:
        got = yield from everything(*(delegate(f"k{n}", "kid", **more) for n in range(3)))
        return got

    people = [program_profile("host", ["kid"]), profile("kid", context=context)]
    policy = cast({"host": host}, kid=[DONE])
    resumed = Resumed(RULES, limits=Limits(max_children=1))
    world = SessionWorld(Scenario(people, policy, [ask()], context=last_words, resumed=resumed))
    while not world.events(CheckSchema) and not world.events(MakeContext):
        world.make(world.moves()[0])
    log = go_on(world.scenario, world.log).run().log
    begun = [event.recipient for event in log if isinstance(event.body, Begin)]
    assert begun[1:] == ["host.1", "host.2", "host.3"]
    assert check_log(log, is_at_rest=True) == []


def test_the_sessions_have_what_the_rules_are_about() -> None:
    assert [event for event in FIRST if isinstance(event.body, CancelTask)]
    assert [event for event in TIMEOUTS if isinstance(event.body, Woken)]
    assert [event for event in GATHER if isinstance(event.body, Delegate) and event.body.implicit]
    assert Limits().max_steps is None
