"""Every invariant holds of good logs, and fails on a log that breaks it: that one, and no other."""

import sys
from collections.abc import Callable

import pytest

from callboard.actors.protocol.client_messages import AskEnded, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    DelegationEnded,
    Finished,
    ReportJudged,
    Stop,
    Stopped,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    CheckSchema,
    SetTimer,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.usage import Need, Usage
from callboard.replay.testing.rules.invariants import INVARIANTS, LogChecker, check_log, invariant
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld
from tests.golden import SESSIONS, golden
from tests.replay.testing.edited_logs import (
    Log,
    Which,
    again,
    appended,
    edited,
    elsewhere,
    find,
    inserted,
    limited,
    of_kind,
    swapped,
)
from tests.replay.testing.scenarios import TWO, cancelled, closed, rich
from tests.session_plans import Plan, play
from tests.tables import table

RICH, CANCELLED, CLOSED = rich().log, cancelled().log, closed().log
PAIR = SessionWorld(TWO).run().log


def below(address: str) -> Which:
    """Return a test for the Begins of an agent and of those below it."""
    return lambda event: isinstance(event.body, Begin) and event.recipient.startswith(address)


def earlier() -> Log:
    log = list(RICH)
    last = log[-1]
    return [*log[:-1], type(last)(last.seq, 0, last.sender, last.recipient, last.cause, last.body)]


def started_for_the_stopped() -> Log:
    call = find(CANCELLED, of_kind(CallTool, sender="host"))
    return appended(CANCELLED, "tools", "host", call.seq, ToolStarted(1, 0))


def settled_after_the_stop() -> Log:
    stop = find(CANCELLED, of_kind(Stop, "host"))
    return appended(CANCELLED, "host", "supervisor", stop.seq, TurnSettled())


def parents_first() -> Log:
    child, parent = find(CANCELLED, of_kind(Stop, "host.1.1")), find(CANCELLED, of_kind(Stop, "host.1"))
    return swapped(CANCELLED, child, parent)


def after_the_end() -> Log:
    return appended(CLOSED, "supervisor", "clock", 2, SetTimer(7, 1))


def answered_after_its_end() -> Log:
    first = find(PAIR, of_kind(DelegationEnded))
    return inserted(PAIR, first, "host.2", Stop("cancelled"))


def without_room() -> Log:
    """Let the closing turn of the host need more than its budget has left."""
    log = edited(RICH, of_kind(SessionOpened), limits=Limits(tokens=100_000))
    return edited(log, of_kind(Delegate, sender="host.1"), closing=Need(100_000, 0))


DOCTORED: dict[str, Callable[[], Log]] = {
    "order": earlier,
    "one-answer": lambda: again(RICH, of_kind(ToolReturned)),
    "one-end": lambda: again(RICH, of_kind(DelegationEnded)),
    "one-judgement": lambda: again(RICH, of_kind(ReportJudged)),
    "one-life": lambda: again(RICH, of_kind(Finished, sender="host.1.1")),
    "nothing-after-the-end": after_the_end,
    "nothing-after-stop": started_for_the_stopped,
    "only-drains": settled_after_the_stop,
    "transitive-stop": parents_first,
    "first-valid-wins": lambda: edited(RICH, _reported, value=Json(b'{"n":3}')),
    "depth": lambda: edited(RICH, of_kind(Begin, "host.2"), depth=2),
    "turns": lambda: limited(RICH, below("host.1"), max_report_attempts=1),
    "children": lambda: limited(RICH, of_kind(Begin), max_children=2),
    "parallel-calls": lambda: limited(RICH, of_kind(Begin), max_parallel_calls=1),
    "tool-limits": lambda: limited(RICH, of_kind(Begin), max_tool_calls=1),
    "budgets": lambda: edited(RICH, of_kind(SessionOpened), limits=Limits(tokens=1_000)),
    "nothing-refused-that-fits": lambda: edited(CANCELLED, of_kind(Stop, "host.1"), reason="budget"),
    "room-to-delegate": without_room,
    "usage-is-the-sum": lambda: edited(RICH, of_kind(AskEnded), usage=Usage(1)),
    "narrowing": lambda: limited(RICH, of_kind(Begin, "host.2"), max_agents=5_000),
    "approvals": lambda: edited(RICH, of_kind(ApprovalGiven), verdict="denied"),
    "checked": lambda: edited(RICH, _report_check, output_type="app.Other"),
    "isolation": lambda: edited(RICH, of_kind(Begin, "host.1"), prompt=text_json("and all I know")),
}


def _reported(event: object) -> bool:
    body = getattr(event, "body", None)
    return isinstance(body, DelegationEnded) and body.kind == "reported"


def _report_check(event: object) -> bool:
    body = getattr(event, "body", None)
    return isinstance(body, CheckSchema) and body.task == "report"


FOLLOWS = {
    "budgets": ["closing-turns", "room-to-delegate", "rooms", "same-books"],
    "room-to-delegate": ["closing-turns", "same-books"],
    "usage-is-the-sum": ["spending"],
}
"""A budget that is overshot has no room for a closing turn; a wrong sum of the session is one of its ask. The
supervisor kept the books of the log before it was changed."""


@table("name", [one.name for one in INVARIANTS if one.name in DOCTORED])
def test_a_log_that_breaks_one_rule_breaks_that_rule_and_no_other(name: str) -> None:
    found = check_log(DOCTORED[name]())
    assert {breach.name for breach in found} == {name, *FOLLOWS.get(name, ())}, [str(one) for one in found]
    own = [one for one in found if one.name == name]
    assert own[0].rule == invariant(name).rule
    assert own[0].detail


def test_an_answer_of_an_ended_agent_breaks_its_rule() -> None:
    found = check_log(answered_after_its_end())
    assert {breach.name for breach in found} == {"answer-in-time"}


@pytest.mark.parametrize(("tokens", "is_breach"), [(100, False), (100_000, True)])
def test_a_delegation_that_is_refused_for_a_budget_with_room_breaks_its_rule(
    tokens: int, is_breach: bool
) -> None:
    log = edited(RICH, of_kind(SessionOpened), limits=Limits(tokens=tokens))
    delegate = find(log, of_kind(Delegate, sender="host.1"))
    assert isinstance(delegate.body, Delegate)
    end = DelegationEnded(delegate.body.turn, delegate.body.call, "budget", "host.1.1", by=delegate.seq)
    refused = appended(log[: delegate.seq], "supervisor", "host.1", delegate.seq, end)
    found = {(breach.name, breach.seq) for breach in check_log(refused, is_at_rest=True)}
    assert (("room-to-delegate", delegate.seq) in found) == is_breach


def test_a_grant_that_is_never_settled_is_left_over_when_all_have_drained() -> None:
    log = elsewhere(CANCELLED, of_kind(Stopped, sender="host.1.1"), "clock")
    assert {breach.name for breach in check_log(log, is_at_rest=True)} == {"nothing-reserved", "order"}


@pytest.mark.parametrize("log", [RICH, CANCELLED, CLOSED], ids=["rich", "cancelled", "closed"])
def test_good_logs_break_no_rule_and_neither_does_any_prefix_of_them(log: Log) -> None:
    assert check_log(log, is_at_rest=True) == []
    for length in range(len(log)):
        assert check_log(log[:length]) == []


@table("name", SESSIONS)
def test_recorded_sessions_break_no_rule(name: str) -> None:
    assert check_log(golden(name), is_at_rest=True) == []


def test_open_work_is_a_breach_only_in_a_log_that_is_at_rest() -> None:
    asked = find(RICH, of_kind(Begin)).seq
    assert check_log(RICH[:asked]) == []
    assert {breach.name for breach in check_log(RICH[:asked], is_at_rest=True)} == {"one-life"}


def test_a_checker_hears_a_log_as_it_grows() -> None:
    checker = LogChecker()
    for event in DOCTORED["depth"]():
        checker.hear(event)
        is_told = event.recipient == "host.2"
        if is_told:
            break
    assert not checker.is_clean
    assert checker.breaches[0].seq == event.seq
    assert "host.2" in str(checker.breaches[0])


def test_an_invariant_is_found_by_its_name() -> None:
    assert invariant("depth").name == "depth"
    with pytest.raises(UnknownName, match="there is no invariant 'nonsense'; there are: order,"):
        invariant("nonsense")
    assert len({one.name for one in INVARIANTS}) == len(INVARIANTS)
    assert all(one.rule.endswith(".") for one in INVARIANTS)


@table("seed", range(30))
def test_a_log_can_be_checked_in_one_pass(seed: int) -> None:
    world = play(Plan(seed))
    assert check_log(iter(world.log), is_at_rest=world.failure is None) == []


def fanned_out(agents: int, calls_at_once: int) -> Log:
    """Record a host that delegates to so many agents at once, most of which wait for a model call."""
    asked = calls(*(task("kid") for _ in range(agents)))
    made = Scenario(
        (profile("host", ["kid"]), profile("kid")),
        lambda request: asked if (request.profile, request.turn) == ("host", 1) else Reply("done"),
        [ask()],
        Limits(max_children=agents, max_parallel_calls=calls_at_once),
    )
    return SessionWorld(made).run().log


def steps_to_check(log: Log) -> int:
    """Count the function calls that checking a log takes."""
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event.endswith("call")

    sys.setprofile(count)
    try:
        breaches = check_log(log)
    finally:
        sys.setprofile(None)
    assert breaches == []
    return steps


@pytest.mark.parametrize("calls_at_once", [1, 1_000])
def test_a_log_that_is_four_times_as_long_takes_about_four_times_the_steps(calls_at_once: int) -> None:
    few, many = fanned_out(30, calls_at_once), fanned_out(120, calls_at_once)
    assert steps_to_check(many) / steps_to_check(few) < 1.3 * len(many) / len(few)


@pytest.mark.parametrize("log", [RICH, CANCELLED, CLOSED], ids=["rich", "cancelled", "closed"])
def test_whichever_event_a_log_lacks_the_gap_is_named(log: Log) -> None:
    for index in range(len(log) - 1):
        found = check_log([*log[:index], *log[index + 1 :]], is_at_rest=True)
        assert any(one.name == "order" and one.detail == f"event {index + 1} is missing" for one in found)
