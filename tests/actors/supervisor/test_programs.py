"""Programs, from the supervisor's side: free steps, lines of copies, deadlines, questions to models."""

from typing import Any

from msgspec.structs import replace

from callboard.actors.protocol.client_messages import RULES, AskEnded, Resumed, Tell, TellEnded
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import NULL, Json
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
from callboard.actors.protocol.port_messages import SetTimer, TimerFired
from callboard.actors.protocol.profiles import ModelSpec, Prices, Profile
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.scenario import NO_LIMITS, PROGRAM, profile, program_profile
from tests.actors.harness import SCHEMA, SessionHarness, raw, said
from tests.tables import table

GO = text_json("go")
QUESTION = Json(encode(Profile("ask_model", limits=Limits(max_iterations=1))))


def running(limits: Limits = NO_LIMITS, own: Limits = NO_LIMITS) -> SessionHarness:
    """Return a session whose host is a program that runs."""
    head = SessionHarness(
        program_profile("host", ["kid"], limits=own), profile("kid", ["kid"]), limits=limits
    )
    head.opens().asks()
    return head


def delegates(head: SessionHarness, call: int, copies: int = 1, **more: Any) -> list[str]:
    return said(head.hears("host", Delegate(1, call, ("kid",) * copies, GO, **more)))


def asks_model(head: SessionHarness, call: int, implicit: Json = QUESTION) -> list[Any]:
    body = Delegate(1, call, ("ask_model",), GO, implicit=implicit)
    return [post.body for post in head.hears("host", body)]


def test_a_question_whose_profile_cannot_be_read_is_denied() -> None:
    head = running()
    for number, bad in enumerate((Json(b"[]"), Json(b'{"name":1}'), Json(b"[" * 5_000 + b"]" * 5_000))):
        (end,) = asks_model(head, number, bad)
        assert isinstance(end, DelegationEnded)
        assert (end.kind, end.detail) == ("denied", "the profile of the implicit agent cannot be read")
    assert delegates(head, 9) == ["host.4:Begin"]


# --- steps ------------------------------------------------------------------------


def test_a_step_passes_the_line_takes_no_slot_and_is_charged_nothing() -> None:
    head = running(Limits(max_parallel_calls=1, tokens=500))
    delegates(head, 0)
    head.wants("host.1")
    assert said(head.hears("host", TurnRequested(1))) == ["model:CallModel"]
    assert head.state.in_flight == 1
    head.hears("host", TurnRequested(2, settled=Settled(Usage(900))))
    assert head.state.in_flight == 1
    record = head.record("host")
    assert record is not None
    assert record.spent == Usage()
    assert record.granted == (2, 1)


def test_a_step_passes_a_budget_that_is_used_up() -> None:
    head = running(Limits(tokens=1))
    assert said(head.hears("host", TurnRequested(1))) == ["model:CallModel"]


def test_a_step_is_granted_once() -> None:
    head = running()
    head.hears("host", TurnRequested(1))
    assert head.hears("host", TurnRequested(1)) == []


def test_a_step_that_is_not_settled_ends_with_the_next_request_or_with_its_program() -> None:
    head = running()
    head.hears("host", TurnRequested(1))
    assert said(head.hears("host", TurnRequested(2))) == ["model:CallModel"]
    assert said(head.hears("host", Finished("answered", "done"))) == ["client:AskEnded"]
    record = head.record("host")
    assert record is not None
    assert (record.grant, record.spent) == (None, Usage())


def test_the_call_of_a_model_has_to_be_settled_before_the_next_request() -> None:
    head = running()
    delegates(head, 0)
    head.wants("host.1")
    assert head.hears("host.1", TurnRequested(2)) == []


def test_a_step_after_a_wait_is_granted_when_the_wait_is_over() -> None:
    head = running(Limits(tokens=1))
    (timer,) = head.hears("host", TurnRequested(1, 2, after_ms=9))
    assert isinstance(timer.body, SetTimer)
    assert said(head.hears("clock", TimerFired(timer.body.timer))) == ["model:CallModel"]


# --- the line of copies -----------------------------------------------------------


def test_copies_over_the_cap_stand_in_line_in_the_order_of_the_asks() -> None:
    head = running(own=Limits(max_children=2))
    assert delegates(head, 0) == ["host.1:Begin"]
    assert delegates(head, 1, copies=2) == []
    assert delegates(head, 2) == []  # it would fit, and passes no other
    assert head.ends("host.1") != []
    assert [head.record(f"host.{at}") is not None for at in (2, 3, 4)] == [True, True, False]
    assert said(head.ends("host.2"))[-1:] == ["host.4:Begin"] or head.record("host.4") is not None


def test_copies_are_counted_over_turns() -> None:
    head = running(own=Limits(max_children=1))
    delegates(head, 0)
    head.hears("host", TurnRequested(1))
    assert delegates(head, 1) == []


def test_a_race_that_can_never_fit_is_denied() -> None:
    head = running(own=Limits(max_children=2))
    (end,) = head.hears("host", Delegate(1, 0, ("kid",) * 3, GO))
    assert isinstance(end.body, DelegationEnded)
    assert end.body.kind == "denied"


def test_a_place_is_free_when_the_copy_has_left_the_tree() -> None:
    head = running(own=Limits(max_children=1))
    delegates(head, 0)
    delegates(head, 1)
    head.hears("host.1", Delegate(1, 0, ("kid",), GO))
    head.wants("host.1.1")
    told = said(head.ends("host.1"))
    assert "host.2:Begin" not in told
    assert "host.2:Begin" in said(head.ends("host.1.1"))


def test_a_cancelled_delegation_leaves_the_line_without_having_begun() -> None:
    head = running(own=Limits(max_children=1))
    for call in range(3):
        delegates(head, call)
    (end,) = head.hears("host", CancelTask(1, 1))
    assert isinstance(end.body, DelegationEnded)
    assert (end.body.call, end.body.kind) == (1, "cancelled")
    assert head.hears("host", CancelTask(1, 1)) == []
    told = said(head.ends("host.1"))
    assert "host.2:Begin" not in told
    assert "host.3:Begin" in told


def test_a_cancelled_delegation_ends_with_its_subtree_and_frees_its_place_when_that_has_drained() -> None:
    head = running(own=Limits(max_children=1))
    delegates(head, 0)
    delegates(head, 1)
    head.hears("host.1", Delegate(1, 0, ("kid",), GO))
    told = said(head.hears("host", CancelTask(1, 0)))
    assert told == ["host.1.1:Stop", "host.1:DelegationEnded", "host.1:Stop", "host:DelegationEnded"] or set(
        told
    ) == {"host.1.1:Stop", "host.1:DelegationEnded", "host.1:Stop", "host:DelegationEnded"}


def test_a_delegation_whose_schema_is_refused_frees_its_place() -> None:
    from callboard.actors.protocol.port_messages import SchemaChecked

    head = running(own=Limits(max_children=1))
    assert delegates(head, 0, schema=raw(SCHEMA)) == ["schema:CheckSchema"]
    assert delegates(head, 1) == []
    told = said(head.hears("schema", SchemaChecked(1, "invalid")))
    assert told == ["host:DelegationEnded", "host.2:Begin"]


def test_the_line_ends_with_its_program() -> None:
    head = running(own=Limits(max_children=1))
    for call in range(3):
        delegates(head, call)
    told = said(head.ends("host"))
    assert told.count("host:DelegationEnded") == 3
    assert "host.2:Begin" not in told


# --- deadlines --------------------------------------------------------------------


def test_a_deadline_is_a_timer_for_a_moment() -> None:
    head = running()
    (timer,) = head.hears("host", Wake(70))
    assert timer.body == SetTimer(1, 0, 70)
    (woken,) = head.hears("clock", TimerFired(1))
    assert (woken.recipient, woken.body) == ("host", Woken(70))
    assert head.hears("clock", TimerFired(1)) == []


def test_a_new_deadline_replaces_the_one_before_and_none_drops_it() -> None:
    head = running()
    head.hears("host", Wake(70))
    assert said(head.hears("host", Wake(90))) == ["clock:CancelTimer", "clock:SetTimer"]
    assert said(head.hears("host", Wake())) == ["clock:CancelTimer"]
    assert head.hears("clock", TimerFired(2)) == []


def test_a_deadline_ends_with_its_program() -> None:
    head = running()
    head.hears("host", Wake(70))
    assert "clock:CancelTimer" in said(head.ends("host"))
    assert head.hears("host", Wake(90)) == []


# --- questions to models ----------------------------------------------------------


def test_a_question_begins_an_agent_that_is_bound_by_the_line_alone() -> None:
    head = running(Limits(max_agents=1, max_depth=0), Limits(max_children=1))
    (begin,) = asks_model(head, 0)
    assert isinstance(begin, Begin)
    assert (begin.profile, begin.roster, begin.limits.max_iterations) == (QUESTION, (), 1)
    assert head.state.agents == 1
    assert asks_model(head, 1) == []


# --- the first turn of a question --------------------------------------------------


def asking(limits: Limits = NO_LIMITS, **more: Any) -> SessionHarness:
    """Return a session whose host is a program, with what a runtime sets for its sessions."""
    head = SessionHarness(program_profile("host", ["kid"]), profile("kid"), limits=limits, **more)
    head.opens().asks()
    return head


def granted(head: SessionHarness, call: int) -> Need | None:
    """Ask a question. Return the need that its `Begin` grants."""
    (begin,) = asks_model(head, call)
    assert isinstance(begin, Begin)
    return begin.granted


def reserved(head: SessionHarness) -> tuple[int, int]:
    record = head.record("host")
    assert record is not None
    return record.reserved.tokens, head.state.in_flight


def test_the_first_turn_of_a_question_is_granted_with_its_begin_and_settled_by_its_end() -> None:
    head = asking(Limits(tokens=10_000))
    need = granted(head, 0)
    assert need is not None
    assert need.tokens > ModelSpec("scripted").max_tokens
    assert reserved(head) == (need.tokens, 1)
    record = head.record("host.1")
    assert record is not None
    assert record.granted == (1, 1)
    head.hears("host.1", Finished("answered", "yes", settled=Settled(Usage(9))))
    assert reserved(head) == (0, 0)


def test_a_question_without_a_slot_requests_its_turn_and_waits() -> None:
    head = asking(Limits(max_parallel_calls=1))
    assert granted(head, 0) is not None
    assert granted(head, 1) is None
    assert said(head.hears("host.2", TurnRequested(1, need=Need(9)))) == []
    ended = head.hears("host.1", Finished("answered", settled=Settled(Usage(9))))
    assert sorted(said(ended)) == ["host:DelegationEnded", "model:CallModel"]


def test_a_question_for_which_a_budget_has_no_room_yet_requests_its_turn() -> None:
    need = granted(asking(), 0)
    assert need is not None
    head = asking(Limits(tokens=need.tokens + 1))
    assert granted(head, 0) == need
    assert granted(head, 1) is None


@table("more", [{"capacity": ("scripted",)}, {"scopes": ("tenant:*",)}])
def test_a_question_whose_call_a_port_has_to_allow_requests_its_turn(more: Any) -> None:
    assert granted(asking(**more), 0) is None


def test_no_other_agent_begins_with_a_grant_and_no_question_by_the_first_rules() -> None:
    head = asking()
    (kid,) = head.hears("host", Delegate(1, 0, ("kid",), GO))
    assert isinstance(kid.body, Begin)
    assert kid.body.granted is None
    head.state = replace(head.state, rules=1)
    assert granted(head, 1) is None


def test_sub_agents_of_a_program_inherit_the_model_that_it_would_have_inherited() -> None:
    head = running()
    delegates(head, 0)
    (begin,) = asks_model(head, 1)
    assert begin.model == ModelSpec("scripted")
    big = ModelSpec("big")
    (begin,) = asks_model(head, 2, Json(encode(Profile("ask_model", model=big))))
    assert begin.model == big


def test_a_program_is_told_to_run_itself_and_needs_no_prices() -> None:
    head = SessionHarness(program_profile("host"), limits=Limits(cost_usd=1.0)).opens()
    (begin,) = [post.body for post in head.asks()]
    assert isinstance(begin, Begin)
    assert begin.model == PROGRAM
    (end,) = asks_model(head, 0)
    assert (end.kind, "prices" in end.detail) == ("denied", True)
    (begun,) = asks_model(
        head, 1, Json(encode(Profile("ask_model", model=ModelSpec("m", prices=Prices(1, 1)))))
    )
    assert isinstance(begun, Begin)


def test_a_question_is_refused_when_the_budget_is_used_up() -> None:
    head = running(Limits(tokens=0))
    (end,) = asks_model(head, 0)
    assert end.kind == "budget"


# --- ends and words ---------------------------------------------------------------


def test_the_value_of_a_program_is_that_of_its_ask() -> None:
    head = running()
    posts = head.hears("host", Finished("answered", '{"n":1}', value=Json(b'{"n":1}')))
    (ended,) = [post.body for post in posts if isinstance(post.body, AskEnded)]
    assert (bytes(ended.value), ended.text) == (b'{"n":1}', '{"n":1}')
    assert Finished("answered", "hi").value == NULL


def test_a_program_hears_no_words() -> None:
    head = running()
    (end,) = head.hears("client", Tell("t", "host", "hello"))
    assert isinstance(end.body, TellEnded)
    assert end.body.status == "refused"
    assert "program" in end.body.detail


def test_a_need_of_nothing_is_no_ordinary_need() -> None:
    assert Need() == NOTHING
    assert TurnRequested(1).need is NOTHING


def test_a_delegation_in_line_whose_agent_is_gone_ends_and_the_next_one_starts() -> None:
    people = program_profile("host", ["kid", "old"], limits=Limits(max_children=1)), profile("kid")
    head = SessionHarness(*people, profile("old")).opens()
    head.asks()
    delegates(head, 0)
    assert said(head.hears("host", Delegate(1, 1, ("old",), GO))) == []
    assert delegates(head, 2) == []
    head.hears("client", Resumed(RULES, "host", tuple(Json(encode(one)) for one in people)))
    posts = head.ends("host.1")
    first, second = [post.body for post in posts if isinstance(post.body, DelegationEnded)]
    assert (first.call, first.kind, second.call, second.kind) == (0, "answered", 1, "unavailable")
    assert said(posts)[-1] == "host.3:Begin"
    record = head.record("host")
    assert record is not None
    assert record.turn_children == 1
