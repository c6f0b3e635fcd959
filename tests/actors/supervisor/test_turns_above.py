"""Grants of sessions with budgets above them: asked for before capacity, settled once, and refused."""

import pytest

from callboard.actors.protocol.client_messages import Cancel, Resumed
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Delegate,
    DelegationEnded,
    Finished,
    Stop,
    Stopped,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CapacityGiven,
    RequestBudget,
    SettleBudget,
    TimerFired,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.supervisor.latching import LEAST_INPUT_BYTES
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile, program_profile
from tests.actors.harness import SessionHarness, said

PROMPT = text_json("go")
ASKS = ["budgets:RequestBudget"]
WAITS = ["capacity:RequestCapacity"]
GRANTED = ["model:CallModel"]
SPANS = (("*", "2026-11-28"),)


def bound(*kids: Limits, limits: Limits = NO_LIMITS, capacity: tuple[str, ...] = ()) -> SessionHarness:
    """Start an ask, bound by one budget above the session, with a kid for each of the given limits."""
    profiles = [profile("host", ["kid"]), profile("kid")]
    head = SessionHarness(*profiles, limits=limits, capacity=capacity, scopes=("*",)).opens()
    head.asks()
    for n, own in enumerate(kids):
        head.hears("host", Delegate(1, n, ("kid",), PROMPT, limits=own))
    return head


def given(head: SessionHarness, who: str, status: str = "given") -> list[str]:
    body = BudgetGiven(who, 1, 1, status, SPANS if status == "given" else ())  # type: ignore[arg-type]  # a status
    return said(head.hears("budgets", body))


REFUSED = BudgetGiven("host.1", 1, 1, "refused", (), "*", "2026-11-28", "tokens", 500, 450)


def books(head: SessionHarness) -> tuple[int, int, int]:
    """Return the tokens spent and reserved by the session, and the calls in flight."""
    host = head.record("host")
    assert host is not None
    return host.spent.tokens, host.reserved.tokens, head.state.in_flight


def test_a_call_is_made_once_the_budgets_above_the_session_have_reserved_it() -> None:
    head = bound(NO_LIMITS)
    (post,) = head.wants("host.1", 100)
    assert (post.recipient, post.body) == ("budgets", RequestBudget("host.1", 1, 1, Need(100)))
    assert books(head) == (0, 100, 1)
    assert given(head, "host.1") == GRANTED
    assert said(head.hears("host.1", TurnSettled(Usage(30)))) == []
    assert books(head) == (30, 0, 0)


def test_budgets_are_asked_for_before_capacity() -> None:
    head = bound(NO_LIMITS, capacity=("scripted",))
    assert said(head.wants("host.1")) == ASKS
    assert given(head, "host.1") == WAITS
    assert books(head) == (0, 100, 1)
    assert said(head.hears("capacity", CapacityGiven("host.1", 1, 1))) == GRANTED


def test_the_checks_of_the_session_come_first() -> None:
    head = bound(limits=Limits(tokens=50))
    assert said(head.wants("host", 100)) == ["host:Stop", "clock:SetTimer"]


def test_a_step_that_needs_nothing_asks_no_budget() -> None:
    assert said(bound().hears("host", TurnRequested(1, 1, NOTHING, "d"))) == GRANTED


def test_a_refusal_ends_the_agent_as_budget_with_the_figures() -> None:
    head = bound(NO_LIMITS)
    head.wants("host.1", 100)
    stop, end = head.hears("budgets", REFUSED)
    assert stop.body == Stop("budget", (0, 0))
    assert isinstance(end.body, DelegationEnded)
    assert end.body.kind == "budget"
    assert end.body.detail == (
        "the budget '*' is too small for another turn: it needs up to 100 tokens; 50 of 500 tokens "
        "are left in 2026-11-28"
    )
    assert books(head) == (0, 0, 0)


def test_a_refusal_for_calls_that_no_process_runs_names_their_sessions_in_money() -> None:
    head = bound(NO_LIMITS)
    head.hears("host.1", TurnRequested(1, 1, Need(100, 20_000), "d"))
    refused = BudgetGiven(
        "host.1", 1, 1, "refused", (), "batch", "", "micro_usd", 1_000_000, 0, 990_000, ("s1", "s2")
    )
    (_, end) = head.hears("budgets", refused)
    assert isinstance(end.body, DelegationEnded)
    assert end.body.detail == (
        "the budget 'batch' is too small for another turn: it needs up to $0.0200; $0.0100 of $1.00 is "
        "left, since calls of sessions that no process runs hold $0.9900; resume them: s1, s2"
    )


def test_a_refused_call_that_another_waits_for_makes_room() -> None:
    head = bound(NO_LIMITS, NO_LIMITS, limits=Limits(tokens=150))
    head.wants("host.1", 100)
    assert said(head.wants("host.2", 100)) == []
    assert "budgets:RequestBudget" in said(head.hears("budgets", REFUSED))


def test_an_agent_that_has_answered_ends_so_when_a_further_turn_is_refused() -> None:
    head = bound(NO_LIMITS)
    head.hears("host.1", TurnRequested(1, 1, Need(100), "d", otherwise="answered"))
    _, end = head.hears("budgets", REFUSED)
    assert isinstance(end.body, DelegationEnded)
    assert end.body.kind == "answered"


def test_an_agent_stopped_while_it_waits_drains_with_the_answer_and_settles_nothing() -> None:
    head = bound(Limits(deadline_s=5))
    head.wants("host.1", 100)
    head.hears("clock", TimerFired(1))
    assert said(head.hears("host.1", Stopped())) == []
    assert head.status("host.1") == "draining"
    assert given(head, "host.1", "cancelled") == []
    assert (head.status("host.1"), books(head)) == ("gone", (0, 0, 0))


def test_a_budget_that_comes_after_the_stop_is_given_back() -> None:
    head = bound(Limits(deadline_s=5))
    head.wants("host.1", 100)
    head.hears("clock", TimerFired(1))
    (post,) = head.hears("budgets", BudgetGiven("host.1", 1, 1, "given", SPANS))
    assert (post.recipient, post.body) == ("budgets", SettleBudget("host.1", 1, 1))
    assert books(head) == (0, 0, 0)


def test_a_budget_is_given_back_by_an_agent_stopped_while_it_waits_for_capacity() -> None:
    head = bound(Limits(deadline_s=5), capacity=("scripted",))
    head.wants("host.1", 100)
    given(head, "host.1")
    head.hears("clock", TimerFired(1))
    (post,) = head.hears("capacity", CapacityGiven("host.1", 1, 1, "cancelled"))
    assert post.body == SettleBudget("host.1", 1, 1)
    assert books(head) == (0, 0, 0)


def test_an_agent_stopped_before_its_turn_is_refused_or_given_back_ends_once() -> None:
    settles = [SettleBudget("host.1", 3, 2)]
    for status, posts in (("refused", []), ("cancelled", []), ("given", settles)):
        head = bound(Limits(deadline_s=5))
        head.wants("host.1", 100, turn=3, attempt=2)
        head.hears("clock", TimerFired(1))
        answer = BudgetGiven("host.1", 3, 2, status)  # type: ignore[arg-type]  # a status
        assert [one.body for one in head.hears("budgets", answer)] == posts
        record = head.record("host.1")
        assert record is not None
        assert (books(head), record.is_budgeted, record.held) == ((0, 0, 0), False, None)


def test_a_refusal_above_latches_for_a_program_unless_a_smaller_request_fits() -> None:
    least = LEAST_INPUT_BYTES + ModelSpec("m").overhead_tokens + 100
    for unit, left, latches in (
        ("tokens", least - 1, True), ("tokens", least, False), ("", least - 1, True), ("", least, False),
        ("micro_usd", -1, True), ("micro_usd", 0, False),
    ):  # fmt: skip
        profiles = [program_profile("host", ["kid"]), profile("kid")]
        head = SessionHarness(*profiles, scopes=("*",)).opens()
        head.asks()
        head.hears("host", Delegate(1, 0, ("kid",), PROMPT))
        head.wants("host.1", 100_000)
        # Of the limit, 300 are spent and 30 are reserved by sessions that no process runs.
        answer = BudgetGiven("host.1", 1, 1, "refused", (), "*", "", unit, left + 330, 300, 30, ("s",))  # type: ignore[arg-type]  # a unit
        ends = [one.body for one in head.hears("budgets", answer) if isinstance(one.body, DelegationEnded)]
        words = "a turn of host.1 was refused: the budget '*' is too small for another turn"
        assert [one.latch.startswith(words) for one in ends] == [latches], (unit, left)
        assert [not one.latch for one in ends] == [not latches], (unit, left)


def test_a_call_whose_place_is_lost_keeps_its_budget() -> None:
    head = bound(NO_LIMITS, capacity=("scripted",))
    head.wants("host.1", 100)
    given(head, "host.1")
    assert said(head.hears("capacity", CapacityGiven("host.1", 1, 1, "cancelled"))) == WAITS
    assert books(head) == (0, 100, 1)


def test_a_request_that_the_port_has_lost_is_made_again() -> None:
    head = bound(NO_LIMITS)
    head.wants("host.1", 100)
    assert given(head, "host.1", "cancelled") == ASKS
    assert books(head) == (0, 100, 1)


@pytest.mark.parametrize("end", [Stopped(), Finished("model_error")], ids=["stopped", "finished"])
def test_an_agent_that_leaves_without_accounting_is_charged_its_reservation(end: Stopped | Finished) -> None:
    head = bound(NO_LIMITS)
    head.wants("host.1", 100, turn=3, attempt=2)
    head.hears("budgets", BudgetGiven("host.1", 3, 2, "given", SPANS))
    posts = head.hears("host.1", end)
    assert [one.body for one in posts if one.recipient == "budgets"] == [SettleBudget("host.1", 3, 2, 100)]
    assert books(head) == (100, 0, 0)


def test_a_second_answer_changes_nothing() -> None:
    head = bound(NO_LIMITS)
    head.wants("host.1", 100)
    given(head, "host.1")
    assert given(head, "host.1") == []
    assert given(head, "host.7") == []
    assert head.hears("budgets", REFUSED) == []
    assert books(head) == (0, 100, 1)


def test_an_unbounded_turn_is_refused_under_a_budget_above_the_session() -> None:
    head = bound(NO_LIMITS)
    _, end = head.hears("host.1", TurnRequested(1, 1, Need(100), "d", is_unbounded=True))
    assert isinstance(end.body, DelegationEnded)
    assert end.body.kind == "budget"


@pytest.mark.parametrize(
    ("now", "asked"), [((), GRANTED), (("batch",), ASKS), (None, ASKS)], ids=["none", "another", "unchanged"]
)
def test_a_resume_says_which_budgets_bind_the_session_from_then_on(
    now: tuple[str, ...] | None, asked: list[str]
) -> None:
    head = bound(NO_LIMITS)
    head.hears("client", Resumed(1, scopes=now))
    assert said(head.wants("host.1")) == asked


def test_an_answer_after_the_end_of_the_session_still_gives_the_budget_back() -> None:
    head = bound()
    head.wants("host")
    head.hears("client", Cancel())
    head.hears("clock", TimerFired(1))  # the grace is over
    posts = head.hears("budgets", BudgetGiven("host", 1, 1, "given", SPANS))
    assert [one.body for one in posts if one.recipient == "budgets"] == [SettleBudget("host", 1, 1)]
