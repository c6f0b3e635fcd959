"""The rules that are not ready-made ones hold of good logs too, and fail on logs that break them."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import AskEnded, Close, SessionClosed, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    DelegationEnded,
    Finished,
    ReportJudged,
    Stop,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CancelTimer,
    CheckSchema,
    SetTimer,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.rules.admission import Closing, FirstCome
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.budgets import ReserveHolds, Rooms, Spending
from callboard.replay.testing.rules.caps import Children, Deserved
from callboard.replay.testing.rules.ends import Cancelled, Closed, OneAnswer
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.reports import Checked
from callboard.replay.testing.rules.stops import OneStop, Started
from callboard.replay.testing.rules.timers import Timers
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.harness import SCHEMA
from tests.golden import SESSIONS, golden
from tests.mutants.scripts import DONE, LOOK, by_place, greedy, race, script
from tests.replay.testing.edited_logs import Log, again, appended, edited, find, limited, of_kind
from tests.replay.testing.scenarios import PROFILES, TWO, cancelled, closed, policy, rich
from tests.tables import table

PROMPT = text_json("go")
RICH, CANCELLED, CLOSED = rich().log, cancelled().log, closed().log
TIMED = SessionWorld(Scenario(PROFILES, policy, [ask(limits=Limits(deadline_s=5))])).run().log
ONE_SLOT = SessionWorld(Scenario(PROFILES, policy, [ask()], Limits(max_parallel_calls=1))).run().log


def not_closed() -> Log:
    close = find(CLOSED, of_kind(Close))
    rest = [event for event in CLOSED if not isinstance(event.body, SessionClosed)]
    return appended(rest, "supervisor", "clock", close.seq, SetTimer(9, 1))


def never_started() -> Log:
    return [replace(event, cause=1) if isinstance(event.body, ToolStarted) else event for event in RICH]


def refused_at_its_closing_turn() -> Log:
    """Let the host end as `budget` when it wants to read its delegations, and needs more than it said."""
    log = SessionWorld(TWO).run().log
    wish = [one for one in log if isinstance(one.body, TurnRequested) and one.sender == "host"][-1]
    log = edited(log[: wish.seq], of_kind(SessionOpened), limits=Limits(tokens=100_000))
    log = edited(log, lambda event: event.seq == wish.seq, need=Need(100_001))
    return appended(log, "supervisor", "host", wish.seq, Stop("budget"))


DOCTORED: dict[type[Invariant], Callable[[], Log]] = {
    Checked: lambda: edited(RICH, _is_accepted, verdict="invalid"),
    Timers: lambda: edited(TIMED, of_kind(CancelTimer), timer=99),
    Deserved: lambda: edited(RICH, of_kind(Finished, sender="host.1.1"), kind="iteration_cap"),
    Closing: lambda: edited(RICH, of_kind(SessionOpened), limits=Limits(tokens=1_000)),
    FirstCome: lambda: limited(ONE_SLOT, of_kind(Begin), max_parallel_calls=3),
    Spending: lambda: edited(RICH, of_kind(AskEnded), usage=Usage(1)),
    OneStop: lambda: again(CANCELLED, of_kind(Stop)),
    Closed: not_closed,
    Cancelled: lambda: edited(CANCELLED, of_kind(AskEnded), kind="answered"),
    Started: never_started,
    Rooms: lambda: edited(RICH, of_kind(DelegationEnded), room=7_999),
    ReserveHolds: refused_at_its_closing_turn,
}


def _is_accepted(event: object) -> bool:
    body = getattr(event, "body", None)
    return isinstance(body, ReportJudged) and body.verdict == "accepted"


@table("rule", DOCTORED, ids=lambda rule: rule.name)
def test_a_log_that_breaks_a_rule_is_found(rule: type[Invariant]) -> None:
    found = check_log(DOCTORED[rule](), is_at_rest=True, kinds=(rule,))
    assert {breach.rule for breach in found} == {rule.rule}
    assert all(breach.detail for breach in found)


@table("log", [RICH, CANCELLED, CLOSED, TIMED, ONE_SLOT])
def test_good_logs_break_none_of_them_and_neither_does_any_prefix(log: Log) -> None:
    assert check_log(log, is_at_rest=True, kinds=tuple(DOCTORED)) == []
    for length in range(len(log)):
        assert check_log(log[:length], kinds=tuple(DOCTORED)) == []


@table("name", SESSIONS)
def test_recorded_sessions_break_none_of_them(name: str) -> None:
    assert check_log(golden(name), is_at_rest=True, kinds=tuple(DOCTORED)) == []


# --- delegations that share a check -------------------------------------------------


def fan_out(request: ModelRequest) -> Reply:
    """Delegate three times with one schema: the check of the first is the check of all."""
    if request.profile != "host":
        return calls(("report_back", {"n": 1}))
    return Reply("done") if request.turn > 1 else calls(*[task("kid", output_schema=SCHEMA)] * 3)


SHARED = SessionWorld(Scenario([profile("host", ["kid"]), profile("kid")], fan_out, [ask()])).run().log


def test_delegations_that_wait_in_silence_break_no_rule_and_count() -> None:
    checks = [one.body.task for one in SHARED if isinstance(one.body, CheckSchema)]
    assert checks == ["accept", "report", "report", "report"]
    assert check_log(SHARED, is_at_rest=True) == []
    assert [one for length in range(len(SHARED)) for one in check_log(SHARED[:length])] == []
    found = check_log(limited(SHARED, of_kind(Begin), max_children=2), is_at_rest=True, kinds=(Children,))
    assert [breach.detail for breach in found] == ["host has 3 children in turn 1"]


def test_a_delegation_after_the_close_does_not_count() -> None:
    """After the close of its session no delegation begins, even if its schema was being checked."""
    last = max(one.seq for one in SHARED if isinstance(one.body, Delegate))
    check = find(SHARED, of_kind(CheckSchema))
    assert isinstance(check.body, CheckSchema)
    log = [one for one in SHARED if one.seq <= max(last, check.seq)]
    log = appended(log, "client", "supervisor", 0, Close())
    log = appended(log, "supervisor", "client", log[-1].seq, SessionClosed())
    for call in range(3, 40):
        late = Delegate(1, call, ("kid",), PROMPT, check.body.schema)
        log = appended(log, "host", "supervisor", 0, late)
    assert check_log(log, kinds=(Children,)) == []


# --- the line -----------------------------------------------------------------------


def two_teams(request: ModelRequest) -> Reply:
    """Run a team with two helpers and one with one helper; each leader uses its whole allowance."""
    if request.turn > 1 or request.profile == "helper":
        return Reply("done")
    if request.profile == "host":
        return calls(task("pair"), task("single"))
    helpers = (task("helper"), task("helper")) if request.profile == "pair" else (task("helper"),)
    return replace(calls(*helpers), percent=100)


def in_line() -> SessionWorld:
    """Let the second helper of the first team wait for its team's budget; then another helper asks."""
    people = [
        profile("host", ["pair", "single"]),
        profile("pair", ["helper"], limits=Limits(tokens=4_800)),
        profile("single", ["helper"]),
        profile("helper"),
    ]
    world = SessionWorld(Scenario(people, two_teams, [ask()], Limits(tokens=7_350, max_result_chars=100)))
    while moves := [move for move in world.moves() if not move.strand.startswith("model host.1.")]:
        world.make(moves[0])
    return world


def test_who_waits_for_two_budgets_is_not_passed_by_one_below_the_wider_one() -> None:
    log = in_line().log
    asked = {event.sender: event for event in log if isinstance(event.body, TurnRequested)}
    granted = {event.body.agent for event in log if isinstance(event.body, CallModel)}
    assert "host.1.1" in granted
    assert asked["host.1.2"].seq < asked["host.2.1"].seq
    assert not granted & {"host.1.2", "host.2.1"}
    wish = asked["host.2.1"].body
    assert isinstance(wish, TurnRequested)
    grant = CallModel("host.2.1", asked["host.2.1"].seq)
    passed = appended(log, "supervisor", "model", asked["host.2.1"].seq, grant)
    found = check_log(passed, is_at_rest=True, kinds=(FirstCome,))
    assert [breach.detail for breach in found] == [
        "host.2.1 overtakes host.1.2, which waits for a budget of both"
    ]


def test_an_ask_that_was_not_cancelled_does_not_end_as_cancelled() -> None:
    log = edited(RICH, of_kind(AskEnded), kind="cancelled")
    assert [breach.name for breach in check_log(log, is_at_rest=True, kinds=(Cancelled,))] == ["cancelled"]


def test_who_waits_in_line_breaks_no_rule() -> None:
    assert check_log(in_line().run().log, is_at_rest=True, kinds=(*DOCTORED,)) == []


def retry_beside_others(request: ModelRequest) -> Reply:
    """Run four sub-agents in one budget; the first is overloaded at first."""
    if request.profile == "host":
        return Reply("done") if request.turn > 1 else calls(*map(task, ("flaky", "kid", "kid", "greedy")))
    if request.profile == "flaky" and request.attempt == 1:
        busy = ModelFailure("overloaded", is_retryable=True, retry_after_ms=5)
        return Reply(failure=busy, usage=Usage())
    return Reply("done")


def moved_without(world: SessionWorld, *held: str) -> None:
    while moves := [move for move in world.moves() if not any(part in move.strand for part in held)]:
        world.make(moves[0])


def test_one_that_waits_since_its_back_off_comes_before_one_that_asked_later() -> None:
    people = [
        profile("host", ["kid", "flaky", "greedy"]),
        profile("kid", max_tokens=1_500),
        profile("flaky", max_tokens=1_500),
        profile("greedy", max_tokens=2_700),
    ]
    limits = Limits(tokens=4_500, max_result_chars=100)
    world = SessionWorld(Scenario(people, retry_beside_others, [ask()], limits))
    moved_without(world, "host.2", "host.3", "host.4")
    moved_without(world, "model host.2", "model host.3", "host.4")
    world.jump()
    moved_without(world, "model host.2", "model host.3", "host.4")
    log = world.run().log
    fired = find(log, of_kind(TimerFired)).seq
    asked = next(one.seq for one in log if one.sender == "host.4" and isinstance(one.body, TurnRequested))
    granted = [one.body.agent for one in log if isinstance(one.body, CallModel) and one.seq > asked]
    assert fired < asked
    assert granted == ["host.1", "host.4", "host"]
    assert check_log(log, is_at_rest=True) == []

    passed = [one for one in log if one.seq <= asked]  # and who asked later does not come first
    passed = edited(passed, lambda one: one.seq == asked, need=Need(1))
    passed = appended(passed, "supervisor", "model", asked, CallModel("host.4", asked))
    found = check_log(passed, is_at_rest=True, kinds=(FirstCome,))
    assert [breach.detail for breach in found] == [
        "host.4 overtakes host.1, which waits for a budget of both"
    ]


# --- answers ------------------------------------------------------------------------


def test_the_answers_of_one_that_fails_while_it_drains_may_come_after_the_outcome() -> None:
    policy = Scenario(
        [profile("host", [], ["look"])], lambda request: calls(("look", {}), ("look", {})), [ask()]
    )
    world = SessionWorld(policy)
    while len(world.of(CallTool)) < 2:
        world.make(world.moves()[0])
    world.reply("tool host/1.0")
    world.deliver("host", "Fault")
    while not world.of(Stop):
        world.deliver("supervisor")
    world.deliver("host", "Fault")
    world.deliver("supervisor")
    world.deliver("supervisor")
    world.run()
    assert check_log(world.log, is_at_rest=True, kinds=(OneAnswer,)) == []


def test_a_call_that_was_interrupted_is_never_told_as_not_started_when_it_is_made_again() -> None:
    called = find(RICH, lambda event: isinstance(event.body, CallTool) and event.body.effect == "write")
    log = edited(
        RICH,
        lambda event: event.cause == called.seq and isinstance(event.body, ToolReturned),
        status="interrupted",
    )
    returned = find(log, lambda event: event.cause == called.seq and isinstance(event.body, ToolReturned))
    once_more = replace(called, seq=len(log) + 1)
    told = replace(returned, seq=len(log) + 2, cause=once_more.seq)
    assert check_log([*log, once_more, told], kinds=(Started,)) == []
    assert isinstance(told.body, ToolReturned)
    claimed = replace(told, body=replace(told.body, status="cancelled"))
    found = check_log([*log, once_more, claimed], kinds=(Started,))
    assert [breach.name for breach in found] == ["started"]


@pytest.mark.parametrize("tokens", [5_000, 8_000, 8_900, 10_000])
def test_a_loser_that_goes_on_may_use_what_the_next_turn_of_its_parent_needs(tokens: int) -> None:
    policy = script(
        host=[calls(race("kid", "kid")), calls(task("kid")), DONE], kid=[by_place(calls(LOOK), DONE), DONE]
    )
    people = [profile("host", ["kid"], limits=Limits(tokens=tokens)), profile("kid", [], ["look"])]
    limits = Limits(max_result_chars=50)
    world = SessionWorld(Scenario(people, greedy(policy), [ask()], limits))
    late = ("model host.1/1", "model host.1/2")
    while moves := world.moves():
        world.make(next((move for move in moves if move.strand not in late), moves[0]))
    assert world.ended.kind == ("answered" if tokens == 10_000 else "budget")
    assert check_log(world.log, is_at_rest=True) == []
