"""Grants: the conditions for a model call, its reservation and its settlement."""

from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Cancel, Resumed
from callboard.actors.protocol.compaction_messages import SummaryRefused
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    Stop,
    Stopped,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    CallModel,
    CancelTimer,
    CapacityGiven,
    RequestCapacity,
    SetTimer,
    TimerFired,
)
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor.reserve import NO_RESERVE, Reserve
from callboard.actors.supervisor.state import Wish
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile, program_profile
from tests.actors.harness import SessionHarness, said
from tests.tables import table

PROMPT = text_json("go")


def asked(*kids: Limits, limits: Limits = NO_LIMITS, closing: int = 0) -> SessionHarness:
    """Start an ask whose host has delegated to one kid for each of the given limits."""
    profiles = [profile("host", [f"kid{n}" for n in range(len(kids))])]
    profiles += [profile(f"kid{n}", ["kid0"], limits=own) for n, own in enumerate(kids)]
    head = SessionHarness(*profiles, limits=limits).opens()
    head.asks()
    for n in range(len(kids)):
        head.hears("host", Delegate(1, n, (f"kid{n}",), PROMPT, closing=Need(closing)))
    return head


def settle(head: SessionHarness, who: str, used: int | None, text: str = "") -> list[str]:
    usage = None if used is None else Usage(input_tokens=used)
    return said(head.hears(who, TurnSettled(usage, text)))


def account(head: SessionHarness, who: str = "host") -> tuple[int, int]:
    """Return the tokens spent and reserved in a scope."""
    record = head.record(who)
    assert record is not None
    return record.spent.tokens, record.reserved.tokens


GRANTED = ["model:CallModel"]


# --- grant and settlement ---------------------------------------------------------


def test_the_grant_is_the_request_with_the_name_of_the_agent() -> None:
    head = asked()
    (post,) = head.hears("host", TurnRequested(1, 1, Need(100, 7), "digest", (2, 3)))
    assert post.recipient == "model"
    assert post.body == CallModel("host", head.seq)


def test_a_grant_is_reserved_in_every_scope_until_its_answer_is_settled() -> None:
    head = asked(NO_LIMITS)
    head.wants("host.1", 100)
    assert (account(head, "host.1"), account(head)) == ((0, 100), (0, 100))
    settle(head, "host.1", 30)
    assert (account(head, "host.1"), account(head)) == ((30, 0), (30, 0))
    assert head.state.in_flight == 0


def test_an_answer_of_unknown_use_is_charged_the_whole_reservation() -> None:
    head = asked()
    head.wants("host", 100)
    settle(head, "host", None)
    record = head.record("host")
    assert record is not None
    assert record.spent == Usage(charged_tokens=100, calls=1, unknown_calls=1)


def test_a_grant_is_settled_once() -> None:
    head = asked()
    head.wants("host", 100)
    for _ in range(3):
        settle(head, "host", 30)
    assert (account(head), head.state.in_flight) == ((30, 0), 0)


@table(
    "body",
    [
        TurnSettled(Usage(30)),
        TurnRequested(2, 1, Need(50), "d", settled=Settled(Usage(30))),
        Delegate(1, 0, ("kid0",), PROMPT, settled=Settled(Usage(30))),
        ReportBack(1, 0, text_json("x"), Settled(Usage(30))),
        Finished("answered", settled=Settled(Usage(30))),
    ],
    ids=lambda body: type(body).__name__,
)
def test_every_message_to_the_supervisor_can_carry_a_settlement(body: TurnSettled) -> None:
    head = asked(NO_LIMITS)
    head.wants("host.1", 100)
    head.hears("host.1", body)
    assert account(head)[0] == 30


def test_one_that_was_stopped_still_settles_and_only_then_gives_its_slot_back() -> None:
    head = asked(NO_LIMITS, limits=Limits(max_parallel_calls=1))
    head.wants("host.1", 100)
    head.hears("client", Cancel())
    assert (head.state.in_flight, account(head)) == (1, (0, 100))
    head.hears("host.1", Stopped(Settled(Usage(20))))
    assert (head.state.in_flight, account(head)) == (0, (20, 0))


def test_one_that_leaves_without_settling_is_charged_its_reservation() -> None:
    head = asked(NO_LIMITS)
    head.wants("host.1", 100)
    posts = head.hears("host.1", Finished("answered", "done"))
    assert (head.state.in_flight, account(head)) == (0, (100, 0))
    assert said(posts) == ["host:DelegationEnded"]


def test_what_was_said_is_kept_as_partial_work() -> None:
    head = asked(NO_LIMITS)
    for said_now in ("first", "second", ""):
        head.wants("host.1", 100)
        settle(head, "host.1", 1, said_now)
    (_, end, *_) = head.hears("host.1", DeciderFailed(1, "Boom"))
    assert isinstance(end.body, DelegationEnded)
    assert (end.body.text, end.body.usage) == ("second", Usage(3, calls=3))


def test_the_words_of_a_step_that_needs_nothing_are_kept_too() -> None:
    head = asked(NO_LIMITS)
    head.wants("host.1", 0)
    assert settle(head, "host.1", 0, "so far") == []
    record = head.record("host.1")
    assert record is not None
    assert (record.text, record.spent) == ("so far", ZERO)


def test_no_agent_has_two_calls_or_two_requests_at_once() -> None:
    head = asked()
    assert said(head.wants("host", 100)) == GRANTED
    assert head.wants("host", 100, turn=2) == []
    assert (head.state.in_flight, account(head)) == (1, (0, 100))


def test_a_request_of_an_unknown_agent_or_of_one_that_waits_changes_nothing() -> None:
    head = asked(NO_LIMITS, NO_LIMITS, limits=Limits(max_parallel_calls=1))
    head.wants("host.1")
    assert head.state.next_ticket == 1  # a request that is granted at once needs no ticket
    head.wants("host.2")
    before = head.state
    for who in ("host.9", "host.2"):
        assert head.wants(who, turn=2) == []
        assert head.hears(who, TurnSettled(ZERO)) == []
        assert head.state == before


# --- budgets ----------------------------------------------------------------------


@pytest.mark.parametrize(("need", "kind"), [(100, "CallModel"), (101, "Stop")])
def test_the_last_token_of_a_budget_can_be_used_and_one_more_ends_the_agent(need: int, kind: str) -> None:
    head = asked(limits=Limits(tokens=100))
    (post, *_) = head.wants("host", need)
    assert type(post.body).__name__ == kind


def test_a_budget_ends_only_the_agents_it_binds() -> None:
    head = asked(Limits(tokens=50), NO_LIMITS)
    posts = head.wants("host.1", 51)
    assert said(posts) == ["host.1:Stop", "host:DelegationEnded"]
    end = posts[1].body
    assert isinstance(end, DelegationEnded)
    assert (end.kind, end.detail) == (
        "budget",
        "its budget is too small for another turn: it needs up to 51 tokens; 50 tokens are left, "
        "0 of 50 are spent",
    )
    assert said(head.wants("host.2", 51)) == GRANTED


def test_a_budget_of_someone_above_is_named() -> None:
    head = asked(NO_LIMITS, limits=Limits(tokens=200), closing=150)
    end = head.wants("host.1", 51)[1].body
    assert isinstance(end, DelegationEnded)
    assert end.detail == (
        "the budget of host is too small for another turn: it needs up to 51 tokens "
        "beside 150 tokens for closing turns; 200 tokens are left, 0 of 200 are spent"
    )


def test_children_leave_their_ancestors_closing_turn_alone() -> None:
    head = asked(NO_LIMITS, limits=Limits(tokens=200), closing=150)
    assert said(head.wants("host.1", 50)) == GRANTED
    settle(head, "host.1", 50)
    assert said(head.wants("host.1", 1, turn=2))[0] == "host.1:Stop"
    assert said(head.wants("host", 150, turn=2)) == GRANTED


def test_the_closing_turn_is_kept_until_the_parent_asks_for_its_next() -> None:
    head = asked(NO_LIMITS, limits=Limits(tokens=1_000), closing=150)
    record = head.record("host")
    assert record is not None
    assert record.kept.total == Need(150)
    head.ends("host.1")
    head.wants("host", 10, turn=2)
    record = head.record("host")
    assert record is not None
    assert record.kept.total == NOTHING


def test_a_call_waits_for_the_reservations_of_others_and_then_fits() -> None:
    head = asked(NO_LIMITS, NO_LIMITS, limits=Limits(tokens=100))
    assert said(head.wants("host.1", 60)) == GRANTED
    assert head.wants("host.2", 60) == []
    assert settle(head, "host.1", 40) == GRANTED
    assert account(head) == (40, 60)


def test_what_no_longer_fits_after_a_settlement_is_refused_then() -> None:
    head = asked(NO_LIMITS, NO_LIMITS, limits=Limits(tokens=100))
    head.wants("host.1", 60)
    head.wants("host.2", 60)
    assert settle(head, "host.1", 41) == ["host.2:Stop", "host:DelegationEnded"]


def test_the_budget_of_an_ask_counts_from_its_start_and_the_sessions_from_the_beginning() -> None:
    head = SessionHarness(limits=Limits(tokens=250)).opens()
    head.asks(limits=Limits(tokens=100), name="r1")
    head.wants("host", 100)
    head.ends("host", used=100)
    head.asks(limits=Limits(tokens=100), name="r2")
    assert said(head.wants("host", 100, turn=2)) == GRANTED
    head.ends("host", used=100)
    head.asks(limits=Limits(tokens=100), name="r3")
    assert said(head.wants("host", 51, turn=3))[0] == "host:Stop"


def test_a_summary_that_a_budget_refuses_is_left_out_and_its_agent_goes_on() -> None:
    for waits in (False, True):
        head = asked(NO_LIMITS, NO_LIMITS, limits=Limits(tokens=100))
        if waits:
            head.wants("host.2", 60)
        wanted = TurnRequested(3, 1, Need(60 if waits else 101), "d", purpose="summary")
        posts = head.hears("host.1", wanted)
        if waits:
            assert posts == []
            posts = head.hears("host.2", TurnSettled(Usage(41)))
        (post,) = posts
        assert post.recipient == "host.1"
        assert isinstance(post.body, SummaryRefused)
        assert post.body.turn == 3
        assert post.body.detail.startswith("the budget of host is too small")
        record = head.record("host.1")
        assert record is not None
        assert (record.wanted, record.is_running, lines(head)) == (None, True, [])


# --- slots ------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_as_many_calls_are_in_flight_as_the_limit_says_and_not_one_more(slots: int) -> None:
    head = asked(*[NO_LIMITS] * 4, limits=Limits(max_parallel_calls=slots))
    granted = [len(head.wants(f"host.{n}")) for n in range(1, 5)]
    assert granted == [1] * slots + [0] * (4 - slots)
    assert settle(head, "host.1", 1) == GRANTED
    assert head.state.in_flight == slots


def test_an_ask_may_narrow_the_slots_of_its_session() -> None:
    head = SessionHarness(limits=Limits(max_parallel_calls=5)).opens()
    head.asks(limits=Limits(max_parallel_calls=1))
    for call in range(2):
        head.hears("host", Delegate(1, call, ("kid",), PROMPT))
    assert [len(head.wants(f"host.{n}")) for n in (1, 2)] == [1, 0]


def test_slots_are_given_in_the_order_of_requests() -> None:
    head = asked(*[NO_LIMITS] * 4, limits=Limits(max_parallel_calls=1))
    for n in (3, 1, 4, 2):
        head.wants(f"host.{n}")
    order = [3]
    for _ in range(3):
        (post,) = head.hears(f"host.{order[-1]}", TurnSettled(ZERO))
        assert isinstance(post.body, CallModel)
        order.append(int(post.body.agent[-1]))
    assert order == [3, 1, 4, 2]


def test_parents_that_wait_for_children_hold_no_slot() -> None:
    head = asked(NO_LIMITS, limits=Limits(max_parallel_calls=1, max_depth=9))
    parent = "host.1"
    for _ in range(5):
        assert said(head.wants(parent)) == GRANTED
        head.hears(parent, Delegate(1, 0, ("kid0",), PROMPT, settled=Settled(Usage(1))))
        parent += ".1"
    assert said(head.wants(parent)) == GRANTED


# --- back-off ---------------------------------------------------------------------


def test_a_back_off_holds_nothing_and_ends_with_its_timer() -> None:
    head = asked(limits=Limits(tokens=100, max_parallel_calls=1))
    head.wants("host", 100)
    (timer,) = head.hears(
        "host", TurnRequested(1, 2, Need(90), "d", after_ms=500, settled=Settled(Usage(10)))
    )
    asked_at = head.seq
    assert timer.body == SetTimer(1, 500)
    assert (head.state.in_flight, account(head), head.status("host")) == (0, (10, 0), "backing off")
    (grant,) = head.hears("clock", TimerFired(1))
    assert grant.body == CallModel("host", asked_at)


def test_a_back_off_that_is_stopped_takes_its_timer_back() -> None:
    head = asked()
    head.wants("host", attempt=2, after_ms=500)
    posts = head.hears("client", Cancel())
    assert [post.body for post in posts[:2]] == [Stop("cancelled"), CancelTimer(1)]
    assert head.hears("clock", TimerFired(1)) == []


def test_a_retry_keeps_what_the_turn_has_delegated() -> None:
    head = asked(NO_LIMITS, limits=Limits(max_children=1))
    head.ends("host.1")
    head.wants("host", turn=1, attempt=2)
    (end,) = head.hears("host", Delegate(1, 1, ("kid0",), PROMPT, settled=Settled(ZERO)))
    assert isinstance(end.body, DelegationEnded)
    assert end.body.kind == "denied"


# --- models that the runtime limits -----------------------------------------------


def limited(*kids: Limits, limits: Limits = NO_LIMITS) -> SessionHarness:
    """Do as `asked`, in a runtime that limits the calls of the model."""
    profiles = [profile("host", ["kid"]), profile("kid")]
    head = SessionHarness(*profiles, limits=limits, capacity=("other", "scripted")).opens()
    head.asks()
    for n, own in enumerate(kids):
        head.hears("host", Delegate(1, n, ("kid",), PROMPT, limits=own))
    return head


def given(head: SessionHarness, who: str, status: str = "given") -> list[str]:
    return said(head.hears("capacity", CapacityGiven(who, 1, 1, status)))  # type: ignore[arg-type]  # a status


WAITS = ["capacity:RequestCapacity"]


def test_a_limited_model_is_called_only_once_a_place_is_given() -> None:
    head = limited(NO_LIMITS)
    (post,) = head.wants("host.1", 100)
    wish = head.seq
    assert (post.recipient, post.body) == ("capacity", RequestCapacity("host.1", 1, 1, "scripted", Need(100)))
    assert (account(head, "host.1"), account(head), head.state.in_flight) == ((0, 100), (0, 100), 1)
    (call,) = head.hears("capacity", CapacityGiven("host.1", 1, 1))
    assert (call.recipient, call.body) == ("model", CallModel("host.1", wish))
    assert (account(head, "host.1"), account(head), head.state.in_flight) == ((0, 100), (0, 100), 1)
    settle(head, "host.1", 30)
    assert (account(head, "host.1"), account(head), head.state.in_flight) == ((30, 0), (30, 0), 0)


def test_a_model_without_limits_is_called_at_once_beside_limited_ones() -> None:
    head = SessionHarness(capacity=("other",)).opens()
    head.asks()
    assert said(head.wants("host")) == GRANTED


def test_a_request_that_waits_for_a_place_takes_a_slot() -> None:
    head = limited(NO_LIMITS, NO_LIMITS, limits=Limits(max_parallel_calls=1))
    assert said(head.wants("host.1")) == WAITS
    assert said(head.wants("host.2")) == []
    assert given(head, "host.1") == GRANTED
    assert settle(head, "host.1", 30) == WAITS


def test_an_agent_stopped_while_it_waits_drains_with_the_answer_and_is_charged_nothing() -> None:
    head = limited(Limits(deadline_s=5))
    head.wants("host.1", 100)
    stop = head.hears("clock", TimerFired(1))[0].body
    assert stop == Stop("deadline", (0, 0))
    assert said(head.hears("host.1", Stopped())) == []
    assert (head.status("host.1"), account(head), head.state.live) == ("draining", (0, 100), 2)
    assert given(head, "host.1", "cancelled") == []
    assert (head.status("host.1"), account(head), head.state.live) == ("gone", (0, 0), 1)
    assert head.state.in_flight == 0


def test_an_agent_that_drains_after_the_answer_is_released_once() -> None:
    head = limited(Limits(deadline_s=5))
    head.wants("host.1", 100)
    head.hears("clock", TimerFired(1))
    assert given(head, "host.1", "cancelled") == []
    assert (head.status("host.1"), account(head), head.state.in_flight) == ("draining", (0, 0), 0)
    assert given(head, "host.1", "cancelled") == []
    head.hears("host.1", Stopped())
    assert (head.status("host.1"), account(head), head.state.in_flight) == ("gone", (0, 0), 0)


def test_a_place_that_comes_after_the_stop_makes_no_call() -> None:
    head = limited(Limits(deadline_s=5))
    head.wants("host.1", 100)
    head.hears("clock", TimerFired(1))
    assert given(head, "host.1") == []
    assert (account(head), head.state.in_flight) == ((0, 0), 0)


def test_an_ask_ends_only_when_the_requests_for_places_are_answered() -> None:
    head = limited()
    head.wants("host")
    assert said(head.hears("client", Cancel())) == ["host:Stop", "clock:SetTimer"]
    assert said(head.hears("host", Stopped())) == []
    assert given(head, "host", "cancelled") == ["clock:CancelTimer", "client:AskEnded"]


def test_a_released_request_makes_room_for_those_that_wait() -> None:
    head = limited(Limits(deadline_s=5), NO_LIMITS, limits=Limits(tokens=150))
    head.wants("host.1", 100)
    assert said(head.wants("host.2", 100)) == []
    head.hears("clock", TimerFired(1))
    assert given(head, "host.1", "cancelled") == WAITS
    assert lines(head) == []


def lines(head: SessionHarness) -> list[str]:
    """Return the requests that stand in line: for a slot, at the host, and at its first child."""
    scopes = [record for who in ("host", "host.1") if (record := head.record(who)) is not None]
    waiting = [f"{who} at {record.address}" for record in scopes for who in record.waiting.values()]
    return [*head.state.queue.values(), *waiting]


def test_an_agent_whose_place_is_lost_goes_behind_its_own_tasks_that_wait_for_its_budget() -> None:
    profiles = [
        profile("host", ["kid"]),
        profile("kid", ["kid"], limits=Limits(tokens=1_300), background=True),
    ]
    head = SessionHarness(*profiles, capacity=("scripted",)).opens()
    head.asks()
    head.hears("host", Delegate(1, 0, ("kid",), PROMPT))
    head.hears("host.1", Delegate(1, 0, ("kid",), PROMPT, mode="background", room=10))
    assert said(head.wants("host.1", 500, turn=2)) == WAITS
    assert said(head.wants("host.1.1", 400)) == []
    assert lines(head) == ["host.1.1 at host.1"]
    posts = head.hears("capacity", CapacityGiven("host.1", 1, 1, "cancelled"))
    asked_for = [post.body.agent for post in posts if isinstance(post.body, RequestCapacity)]
    assert (asked_for, lines(head)) == (["host.1.1", "host.1"], [])


def test_a_parent_that_keeps_less_for_its_next_turn_goes_behind_the_task_that_fits_now() -> None:
    profiles = [profile("host", ["kid"], background=True), profile("kid")]
    head = SessionHarness(*profiles, limits=Limits(tokens=2_000)).opens()
    head.asks()
    for call in (0, 1):
        task = Delegate(1, call, ("kid",), PROMPT, closing=Need(900), mode="background", room=10)
        head.hears("host", task)
    assert said(head.wants("host.1", 500)) == GRANTED
    assert head.wants("host.2", 400) == []
    assert lines(head) == ["host.2 at host"]
    posts = [one.body for one in head.wants("host", 20, turn=2)]
    assert [one.agent for one in posts if isinstance(one, CallModel)] == ["host.2", "host"]
    assert (lines(head), account(head)) == ([], (0, 920))


def test_a_place_refused_to_a_running_agent_is_requested_again() -> None:
    head = limited(NO_LIMITS)
    head.wants("host.1", 100)
    assert given(head, "host.1", "cancelled") == WAITS
    assert (account(head), head.state.in_flight) == ((0, 100), 1)


def test_a_second_place_for_one_request_changes_nothing() -> None:
    head = limited(NO_LIMITS)
    head.wants("host.1", 100)
    given(head, "host.1")
    assert given(head, "host.1") == []
    assert given(head, "host.7") == []
    assert (account(head), head.state.in_flight) == ((0, 100), 1)


@pytest.mark.parametrize(
    ("now", "told"), [((), GRANTED), (("scripted",), WAITS), (None, WAITS)], ids=["none", "this", "unchanged"]
)
def test_a_resume_says_which_models_are_limited_from_then_on(
    now: tuple[str, ...] | None, told: list[str]
) -> None:
    head = limited(NO_LIMITS)
    head.hears("client", Resumed(1, capacity=now))
    assert said(head.wants("host.1")) == told


# --- requests without a bound -----------------------------------------------------


@pytest.mark.parametrize("limits", [Limits(tokens=10**9), NO_LIMITS])
def test_a_request_without_a_bound_is_granted_only_where_no_budget_is_set(limits: Limits) -> None:
    head = asked(limits=limits)
    told = said(head.hears("host", TurnRequested(2, 1, Need(10), "d", is_unbounded=True)))
    assert ("model:CallModel" in told) == (limits == NO_LIMITS)


def test_the_end_of_an_agent_without_a_bound_names_the_model_and_the_reason() -> None:
    head = asked(Limits(tokens=10**9))
    request = TurnRequested(1, 1, Need(10), "d", is_unbounded=True)
    ends = [post.body for post in head.hears("host.1", request) if isinstance(post.body, DelegationEnded)]
    (end,) = ends
    assert end.kind == "budget"
    assert "scripted states no most tokens" in end.detail
    head = asked(Limits(tokens=10**9))
    request = TurnRequested(1, 1, Need(10), "d", model="other", is_unbounded=True)
    assert "other states no most tokens" in str(head.hears("host.1", request))


def test_a_refusal_at_the_limit_of_a_child_is_no_refusal_of_the_program_above() -> None:
    for own, otherwise, latches in (
        (Limits(tokens=5), "", False),
        (NO_LIMITS, "", True),
        (NO_LIMITS, "answered", False),
    ):
        head = SessionHarness(
            program_profile("host", ["kid"]), profile("kid"), limits=Limits(tokens=10)
        ).opens()
        head.asks()
        head.hears("host", Delegate(1, 0, ("kid",), PROMPT, limits=own))
        head.hears("host.1", TurnRequested(1, 1, Need(100), "d", otherwise=otherwise))  # type: ignore[arg-type]  # a kind
        host = head.record("host")
        assert host is not None
        assert bool(host.program and host.program.refusal) == latches


def test_an_agent_that_has_answered_ends_so_if_its_further_turn_has_no_bound() -> None:
    head = asked(Limits(tokens=10**9))
    request = TurnRequested(1, 1, Need(10), "d", otherwise="answered", is_unbounded=True)
    ends = [post.body for post in head.hears("host.1", request) if isinstance(post.body, DelegationEnded)]
    assert [end.kind for end in ends] == ["answered"]


# --- what a settled turn leaves -------------------------------------------------------------


def test_a_settled_call_leaves_no_turn_that_is_granted() -> None:
    for need in (0, 100):
        head = asked(NO_LIMITS)
        head.wants("host.1", need, turn=3, attempt=2)
        record = head.record("host.1")
        assert record is not None
        assert record.granted == (3, 2)
        settle(head, "host.1", 30 if need else 0)
        record = head.record("host.1")
        assert record is not None
        assert (record.granted, record.grant, record.wanted) == ((0, 0), None, None)


def test_a_place_is_requested_for_the_turn_the_attempt_and_the_model_that_is_asked() -> None:
    head = limited(NO_LIMITS)
    wish = TurnRequested(3, 2, Need(100), "d", model="other")
    (post,) = head.hears("host.1", wish)
    assert post.body == RequestCapacity("host.1", 3, 2, "other", Need(100))
    record = head.record("host.1")
    assert record is not None
    assert (record.wanted, record.turn) == (Wish(wish, head.seq), 0)


def test_a_request_for_a_lost_place_wakes_those_that_wait_at_every_scope_above() -> None:
    head = limited(NO_LIMITS, NO_LIMITS, limits=Limits(tokens=150))
    head.wants("host.1", 100)
    assert said(head.wants("host.2", 100)) == []
    assert given(head, "host.1", "cancelled") == WAITS  # the first in line is now the one that waited
    host = head.record("host")
    assert host is not None
    assert [*host.waiting.values()] == ["host.1"]


def test_an_end_for_a_budget_names_the_lowest_scope_that_is_too_small_and_ends_once() -> None:
    head = asked(Limits(tokens=50), limits=Limits(tokens=60))
    (end,) = [one.body for one in head.wants("host.1", 100) if isinstance(one.body, DelegationEnded)]
    assert end.detail.startswith("its budget is too small for another turn: it needs up to 100 tokens")
    assert head.state.live == 2
    head = asked(Limits(tokens=50))
    wish = TurnRequested(1, 1, Need(100), "d", otherwise="answered")
    ends = [post.body for post in head.hears("host.1", wish) if isinstance(post.body, DelegationEnded)]
    assert [end.kind for end in ends] == ["answered"]


def test_labels_of_a_request_that_waits_are_those_of_its_agent() -> None:
    head = asked(NO_LIMITS)
    head.hears("host.1", TurnRequested(1, 1, Need(9), "d", labels=("b", "a"), after_ms=50))
    record = head.record("host.1")
    assert record is not None
    assert record.labels == ("a", "b")
    assert record.turn_timer > 0
    ((number, _),) = [one for one in head.state.timers.items() if one[1].purpose == "turn"]
    assert said(head.hears("clock", TimerFired(number))) == GRANTED
    record = head.record("host.1")
    assert record is not None
    assert (record.turn_timer, record.labels) == (0, ("a", "b"))


def keeping() -> SessionHarness:
    """Make an agent below the host that keeps 40 tokens for its next turn, while its delegation runs."""
    head = asked(NO_LIMITS, limits=Limits(tokens=1_000))
    head.hears("host.1", Delegate(1, 0, ("kid0",), PROMPT, closing=Need(40)))
    return head


def kept(head: SessionHarness, who: str = "host.1") -> Reserve:
    record = head.record(who)
    assert record is not None
    return record.kept


@table(
    ("more", "turn", "summary"),
    [
        ({}, 0, 0),
        ({"purpose": "summary"}, 40, 0),
        ({"attempt": 2}, 40, 0),
        ({"after_ms": 5}, 0, 0),
        ({"summary": Need(30)}, 0, 30),
        ({"summary": Need(30), "after_ms": 5}, 0, 30),
        ({"summary": Need(998)}, 0, 0),
    ],
)
def test_a_turn_frees_what_was_kept_for_it_and_a_summary_or_another_attempt_does_not(
    more: dict[str, Any], turn: int, summary: int
) -> None:
    head = keeping()
    fields: dict[str, Any] = {"turn": 2, "attempt": 1, **more}
    head.hears("host.1", TurnRequested(need=Need(3), digest="d", **fields))
    assert (kept(head).turn, kept(head).summary) == (Need(turn), Need(summary))
    assert kept(head, "host").turn == NOTHING


def test_the_labels_of_a_refused_turn_are_those_of_the_end() -> None:
    head = asked(NO_LIMITS, limits=Limits(tokens=1_000))
    wanted = TurnRequested(1, 1, Need(3), "d", labels=("secret",), is_unbounded=True)
    (end,) = [one.body for one in head.hears("host.1", wanted) if isinstance(one.body, DelegationEnded)]
    assert (end.kind, end.labels) == ("budget", ("secret",))


def test_a_summary_is_kept_within_a_budget_only() -> None:
    head = asked(NO_LIMITS)
    head.hears("host.1", TurnRequested(1, 1, Need(3), "d", summary=Need(5)))
    assert kept(head) == NO_RESERVE


@pytest.mark.parametrize(("mode", "turn"), [("background", Need(60)), ("await", Need(40))])
def test_a_settled_turn_says_what_tasks_in_the_background_have_to_leave(mode: str, turn: Need) -> None:
    head = asked(NO_LIMITS, limits=Limits(tokens=1_000))
    head.hears("host.1", Delegate(1, 0, ("kid0",), PROMPT, closing=Need(40), mode=mode))  # type: ignore[arg-type]  # a mode
    head.hears("host.1", TurnSettled(closing=Need(60)))
    assert kept(head).turn == turn
