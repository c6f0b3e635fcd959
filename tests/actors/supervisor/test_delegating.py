"""Delegating: the denials and their reasons, the slots, and the start of a child."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.protocol.bundles import Allowed, Rights
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.limits import Limits, fill, narrow
from callboard.actors.protocol.messages import Begin, DeciderFailed, Delegate, DelegationEnded, Stopped
from callboard.actors.protocol.origin import named
from callboard.actors.protocol.port_messages import (
    CheckSchema,
    ContextMade,
    SchemaChecked,
    SetTimer,
    TimerFired,
)
from callboard.actors.protocol.profiles import ModelSpec, Prices, Profile
from callboard.actors.protocol.usage import ZERO, Need
from callboard.actors.protocol.value_types import AskedRequest, CallMetadata, SchemaProblem
from callboard.replay.testing.sessions.scenario import NO_LIMITS, PROGRAM, profile, program_profile
from tests.actors.harness import SCHEMA, SessionHarness, raw, said
from tests.tables import table

PROMPT = text_json("go")
PRICES = Prices(1e-06, 1e-06)


def session(
    *kids: Profile, limits: Limits = NO_LIMITS, host: Limits = NO_LIMITS, ask: Limits = NO_LIMITS
) -> SessionHarness:
    """Start an ask whose host may delegate to these agents."""
    names = [kid.name for kid in kids] or ["kid"]
    head = SessionHarness(
        profile("host", names, limits=host), *(kids or [profile("kid", ["kid"])]), limits=limits
    )
    head.opens().asks(limits=ask)
    return head


def delegate(
    head: SessionHarness, *profiles: str, who: str = "host", call: int = 0, **more: object
) -> list[Post]:
    return head.hears(who, Delegate(1, call, profiles or ("kid",), PROMPT, **more))  # type: ignore[arg-type]  # fields by name


def denial(posts: list[Post]) -> str:
    """Return the reason of a denied delegation; '' if it began."""
    (post,) = posts
    if isinstance(post.body, DelegationEnded):
        assert post.body.kind == "denied"
        assert (post.body.usage, post.body.unsettled, post.body.value) == (ZERO, Need(), NULL)
        return post.body.detail
    return ""


def begun(posts: list[Post]) -> list[str]:
    return [post.recipient for post in posts if isinstance(post.body, Begin)]


# --- what a child is told ---------------------------------------------------------


def test_a_child_is_told_its_profile_the_prompt_and_nothing_else_of_its_parent() -> None:
    head = session(profile("kid", ["kid"], ["look"], limits=Limits(max_iterations=4)))
    (post,) = delegate(head)
    begin = post.body
    assert isinstance(begin, Begin)
    assert post.recipient == "host.1"
    assert msgspec.json.decode(begin.profile)["name"] == "kid"
    assert (begin.prompt, begin.schema, begin.depth) == (PROMPT, NULL, 1)
    assert begin.roster == (("kid", "the kid"),)
    assert (begin.limits.max_iterations, begin.limits.max_children) == (4, 32)


def test_a_child_inherits_its_parents_model_unless_its_profile_names_one() -> None:
    plain = msgspec.structs.replace(profile("plain", ["plain"]), model=None)
    own = msgspec.structs.replace(profile("own", ["plain"]), model=ModelSpec("special"))
    head = session(plain, own)
    (first,) = delegate(head, "own")
    (second,) = delegate(head, "plain", who="host.1")
    assert isinstance(first.body, Begin)
    assert isinstance(second.body, Begin)
    assert (first.body.model.name, second.body.model.name) == ("special", "special")
    (third,) = delegate(head, "plain")
    assert isinstance(third.body, Begin)
    assert third.body.model.name == "scripted"


def test_a_child_gets_the_narrower_of_its_parents_limits_and_its_own() -> None:
    kid = profile("kid", ["kid"], limits=Limits(max_iterations=9, max_children=3, tool_timeout_s=200))
    head = session(kid, limits=Limits(max_iterations=5, max_report_attempts=2), ask=Limits(max_children=2))
    (post,) = delegate(head, limits=Limits(max_iterations=4))
    assert isinstance(post.body, Begin)
    limits = post.body.limits
    assert (limits.max_iterations, limits.max_children, limits.max_report_attempts) == (4, 2, 2)
    assert limits.tool_timeout_s == 120


def test_budgets_and_deadlines_of_a_parent_bind_through_the_parent_and_are_not_copied() -> None:
    head = session(limits=Limits(tokens=1_000, deadline_s=5))
    (post,) = delegate(head)
    assert isinstance(post.body, Begin)
    assert (post.body.limits.tokens, post.body.limits.deadline_s) == (None, None)


def test_a_childs_own_deadline_counts_from_its_beginning() -> None:
    head = session(profile("kid", limits=Limits(deadline_s=2)))
    timer, begin = delegate(head)
    assert timer.body == SetTimer(1, 2_000)
    assert isinstance(begin.body, Begin)
    stop, end = head.hears("clock", TimerFired(1))
    assert said([stop]) == ["host.1:Stop"]
    assert isinstance(end.body, DelegationEnded)
    assert end.body.kind == "deadline"


def test_the_schema_of_the_call_comes_before_that_of_the_profile() -> None:
    head = session(profile("kid", schema=SCHEMA))
    (by_profile,) = delegate(head)
    (by_call,) = delegate(head, schema=raw({"type": "array"}))
    assert isinstance(by_profile.body, CheckSchema)
    assert isinstance(by_call.body, CheckSchema)
    assert (by_profile.body.schema, by_call.body.schema) == (raw(SCHEMA), raw({"type": "array"}))


# --- denials ------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_agents_nest_as_deep_as_the_limit_says_and_not_one_deeper(depth: int) -> None:
    head = session(limits=Limits(max_depth=depth))
    who = "host"
    for _ in range(depth):
        (address,) = begun(delegate(head, who=who))
        who = address
    assert denial(delegate(head, who=who)) == f"agents may nest {depth} deep, and this one is at that depth"


def test_at_the_depth_limit_no_agent_is_offered() -> None:
    head = session(limits=Limits(max_depth=1))
    (post,) = delegate(head)
    assert isinstance(post.body, Begin)
    assert post.body.roster == ()


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_turn_has_as_many_children_as_the_limit_says_and_not_one_more(most: int) -> None:
    head = session(limits=Limits(max_children=most))
    for call in range(most):
        assert begun(delegate(head, call=call))
    assert denial(delegate(head, call=most)).startswith(f"at most {most} delegations in one turn")
    head.wants("host", turn=2)
    if most:
        assert begun(delegate(head))


@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_session_has_as_many_agents_as_the_limit_says_the_host_included(most: int) -> None:
    head = session(limits=Limits(max_agents=most))
    for call in range(most - 1):
        assert begun(delegate(head, call=call))
    assert denial(delegate(head, call=9)) == f"at most {most} agents in one session"


def test_an_ended_agent_still_counts_against_the_agents_of_a_session() -> None:
    head = session(limits=Limits(max_agents=2))
    delegate(head)
    head.ends("host.1")
    assert denial(delegate(head)) == "at most 2 agents in one session"


def test_an_ask_may_narrow_the_agents_of_its_session() -> None:
    head = session(limits=Limits(max_agents=9), ask=Limits(max_agents=2))
    assert begun(delegate(head))
    assert denial(delegate(head)) == "at most 2 agents in one session"


@pytest.mark.parametrize("limits", [Limits(max_children=3), Limits(max_agents=4)])
def test_racers_count_singly_and_a_race_that_does_not_fit_is_denied_whole(limits: Limits) -> None:
    head = session(limits=limits)
    assert denial(delegate(head, "kid", "kid", "kid", "kid")).startswith("at most")
    assert begun(delegate(head, "kid", "kid", "kid")) == ["host.5", "host.6", "host.7"]


@pytest.mark.parametrize("name", ["stranger", "host", "x" * 10_000])
def test_only_those_on_the_allowlist_can_be_delegated_to(name: str) -> None:
    head = session()
    why = denial(delegate(head, name))
    assert why.startswith("there is no agent '")
    assert len(why) < 200


def test_the_error_for_an_unknown_agent_names_those_that_task_can_start() -> None:
    head = session()
    assert denial(delegate(head, "kit")) == "there is no agent 'kit' to delegate to; there are: kid"
    head.state = replace(head.state, rules=1)
    assert denial(delegate(head, "kit")) == "there is no agent 'kit' to delegate to"


def test_one_stranger_in_a_race_denies_it_whole() -> None:
    assert denial(delegate(session(), "kid", "stranger")).startswith("there is no agent 'stranger'")


def test_a_delegation_without_an_agent_is_denied() -> None:
    posts = session().hears("host", Delegate(1, 0, (), PROMPT))
    assert denial(posts) == "a delegation names at least one agent"


def test_a_denied_delegation_takes_its_ordinals_too() -> None:
    head = session()
    assert denial(delegate(head, "stranger", "stranger"))
    (end,) = delegate(head, "stranger")
    assert isinstance(end.body, DelegationEnded)
    assert end.body.address == "host.3"
    assert begun(delegate(head)) == ["host.4"]


def test_ordinals_go_on_counting_over_turns_and_asks() -> None:
    head = session()
    delegate(head)
    head.wants("host", turn=2)
    assert begun(delegate(head)) == ["host.2"]
    for who in ("host.1", "host.2", "host"):
        head.ends(who)
    head.asks(name="r2")
    assert begun(delegate(head)) == ["host.3"]


def test_an_agent_that_has_ended_delegates_nothing_and_takes_no_ordinal() -> None:
    head = session()
    delegate(head)
    head.wants("host.1")
    head.hears("host.1", DeciderFailed(1, "Boom"))
    (end,) = delegate(head, who="host.1")
    assert isinstance(end.body, DelegationEnded)
    why = "the agent that delegated has ended"
    assert end == Post("host.1", DelegationEnded(1, 0, "cancelled", detail=why, by=head.seq))


def test_the_end_of_a_denied_delegation_names_its_call_its_agents_and_its_cause() -> None:
    head = session(profile("kid", ["odd"]), profile("odd"))
    delegate(head)
    (end,) = delegate(head, "odd", "stranger", who="host.1", call=7)
    why = "there is no agent 'stranger' to delegate to; there are: odd"
    metadata = CallMetadata("odd", "kid", "error", "")
    denied = DelegationEnded(1, 7, "denied", address="host.1.1", detail=why, by=head.seq, metadata=metadata)
    assert end == Post("host.1", denied)
    assert begun(delegate(head, "odd", who="host.1")) == ["host.1.3"]


@pytest.mark.parametrize(("name", "schema", "kind"), [("stranger", None, "denied"), ("boss", None, "budget")])
def test_a_program_is_refused_for_good_by_a_budget_only(name: str, schema: object, kind: str) -> None:
    head = SessionHarness(program_profile("host", ["boss"]), profile("boss"), limits=Limits(tokens=0))
    head.opens().asks()
    (end,) = delegate(head, name)
    assert isinstance(end.body, DelegationEnded)
    assert (end.body.kind, end.body.latch) == (kind, end.body.detail if kind == "budget" else "")


def test_a_denial_by_a_budget_latches_for_no_program_above_an_agent_that_reads_it() -> None:
    people = program_profile("host", ["boss"]), profile("boss", ["kid"]), profile("kid")
    head = SessionHarness(*people, limits=Limits(tokens=9)).opens()
    head.asks()
    delegate(head, "boss")
    (end,) = delegate(head, "kid", who="host.1", closing=Need(9))
    assert isinstance(end.body, DelegationEnded)
    assert end.body.kind == "budget"
    record = head.record("host")
    assert record is not None
    assert record.program is None


def test_a_child_begins_with_all_that_its_call_its_profile_and_its_context_say() -> None:
    boss = replace(profile("boss", ["tool"], context="c"), turns="any", model=PROGRAM)
    tool = replace(profile("tool"), input_schema=Json(b'{"type":"object"}'))
    top = Layer("the session", Rights(Allowed(effects=("read",))))
    head = session(boss, tool)
    head.hears("client", Resumed(2, permissions=(top,)))
    head.ends("host")
    head.asks(name="r2")
    asked = AskedRequest("q", "digest", 5, 7)
    more: dict[str, Any] = {
        "labels": ("l",),
        "description": "d",
        "asked": asked,
        "limits": Limits(max_iterations=3),
    }
    assert said(delegate(head, "boss", **more)) == ["context:MakeContext"]
    history, makers = (text_json("earlier"),), ((0, named("m")),)
    made = ContextMade("host", 1, "boss", content=text_json("know"), history=history, makers=makers)
    (post,) = head.hears("context", made)
    begin = post.body
    assert isinstance(begin, Begin)
    limits = narrow(fill(NO_LIMITS), Limits(max_iterations=3))
    assert begin == Begin(
        profile=Json(encode(boss)),
        prompt=PROMPT,
        model=PROGRAM,
        limits=limits,
        depth=1,
        roster=(("tool", "the tool"),),
        context=text_json("know"),
        permissions=(top,),
        labels=("l",),
        callees=(Callee("tool", tool.input_schema),),
        history=history,
        makers=makers,
        rules=2,
        bounds_questions=True,
        description="d",
        asked=asked,
    )


# --- budgets ----------------------------------------------------------------------


@pytest.mark.parametrize(("closing", "may"), [(99, True), (100, False), (200, False)])
def test_a_delegation_that_would_leave_no_token_to_a_child_is_refused_as_budget(
    closing: int, may: bool
) -> None:
    head = session(limits=Limits(tokens=100))
    (post,) = delegate(head, closing=Need(closing))
    assert isinstance(post.body, Begin) == may
    if isinstance(post.body, DelegationEnded):
        assert post.body.kind == "budget"
        assert post.body.detail == (
            "the budget of host leaves nothing for a sub-agent: 0 of 100 tokens are spent, "
            f"the next turn needs up to {closing}, and the results of its delegations up to 0"
        )


def with_a_cost_limit() -> SessionHarness:
    free = profile("kid", prices=Prices(0, 0))
    host = profile("host", ["kid"], prices=PRICES)
    head = SessionHarness(host, free, limits=Limits(cost_usd=0.0001)).opens()
    head.asks()
    return head


@pytest.mark.parametrize(("closing", "may"), [(100, True), (101, False)])
def test_a_turn_may_cost_nothing_so_only_an_overdrawn_cost_budget_refuses(closing: int, may: bool) -> None:
    (post,) = delegate(with_a_cost_limit(), closing=Need(0, closing))
    assert isinstance(post.body, Begin) == may


@pytest.mark.parametrize(
    ("rules", "amounts"),
    [
        (1, "0 of 100 micro-dollars are spent, the next turn needs up to 101, and the results of"),
        (2, "$0 of $0.0001 is spent, the next turn needs up to $0.000101, and the results of"),
    ],
)
def test_a_refusal_tells_money_in_dollars_since_the_second_rules(rules: int, amounts: str) -> None:
    head = with_a_cost_limit()
    head.state = replace(head.state, rules=rules)
    (post,) = delegate(head, closing=Need(0, 101))
    assert isinstance(post.body, DelegationEnded)
    assert amounts in post.body.detail


def test_an_ancestors_budget_refuses_as_well() -> None:
    head = session(limits=Limits(tokens=100))
    delegate(head)
    head.wants("host.1", 90)
    head.ends("host.1", used=90)
    delegate(head)
    (post,) = delegate(head, who="host.2", closing=Need(10))
    assert isinstance(post.body, DelegationEnded)
    assert post.body.detail == (
        "the budget of host leaves nothing for a sub-agent: 90 of 100 tokens are spent, "
        "the next turn needs up to 10, and the results of its delegations up to 0"
    )


@table("where", ["session", "host", "ask", "kid", "call"])
def test_a_cost_limit_without_known_prices_is_denied_at_the_start(where: str) -> None:
    cost = {where: Limits(cost_usd=1)}
    kid = profile("kid", limits=cost.get("kid", NO_LIMITS))
    host = profile("host", ["kid"], limits=cost.get("host", NO_LIMITS), prices=PRICES)
    head = SessionHarness(host, kid, limits=cost.get("session", NO_LIMITS)).opens()
    head.asks(limits=cost.get("ask", NO_LIMITS))
    why = denial(delegate(head, limits=cost.get("call", NO_LIMITS)))
    assert why == "a cost limit applies and the prices of scripted are not known"


def test_every_racers_prices_must_be_known() -> None:
    priced, unpriced = profile("a", prices=PRICES), profile("b")
    head = SessionHarness(
        profile("host", ["a", "b"], prices=PRICES), priced, unpriced, limits=Limits(cost_usd=1)
    ).opens()
    head.asks()
    assert denial(delegate(head, "a", "b"))
    assert begun(delegate(head, "a", "a")) == ["host.3", "host.4"]


# --- schemas ----------------------------------------------------------------------


def test_no_agent_begins_before_the_schema_is_accepted() -> None:
    head = session(limits=Limits(schema_timeout_s=3))
    (check,) = delegate(head, schema=raw(SCHEMA))
    assert check == Post("schema", CheckSchema(1, "accept", raw(SCHEMA), timeout_ms=3_000))
    (begin,) = head.accepts()
    assert isinstance(begin.body, Begin)
    assert (begin.recipient, begin.body.schema) == ("host.1", raw(SCHEMA))


def test_a_schema_that_was_accepted_is_not_asked_about_again() -> None:
    head = session()
    delegate(head, schema=raw(SCHEMA))
    head.accepts()
    assert begun(delegate(head, schema=raw(SCHEMA))) == ["host.2"]
    assert said(delegate(head, schema=Json(b'{"type": "object"}'))) == ["schema:CheckSchema"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            SchemaChecked(1, "invalid", (SchemaProblem("/a", "is wrong"), SchemaProblem("", "b"))),
            "/a: is wrong; /: b",
        ),
        (SchemaChecked(1, "failed"), "it could not be checked"),
    ],
)
def test_a_schema_that_is_refused_or_cannot_be_checked_denies_the_delegation(
    answer: SchemaChecked, why: str
) -> None:
    head = session()
    delegate(head, schema=raw(SCHEMA))
    assert denial(head.hears("schema", answer)) == f"the output schema was refused: {why}"
    assert begun(delegate(head)) == ["host.2"], "its ordinal is taken"


def test_agent_slots_are_taken_while_the_schema_is_checked() -> None:
    head = session(limits=Limits(max_agents=2))
    delegate(head, schema=raw(SCHEMA))
    assert denial(delegate(head)) == "at most 2 agents in one session"
    assert begun(head.accepts()) == ["host.1"]


def test_a_check_whose_parent_has_ended_meanwhile_never_begins() -> None:
    head = session()
    delegate(head)
    delegate(head, who="host.1", schema=raw(SCHEMA))
    posts = head.hears("host.1", DeciderFailed(1, "Boom"))
    assert said(posts) == ["host.1:DelegationEnded", "host.1:Stop", "host:DelegationEnded"]
    assert head.accepts() == []
    head.hears("host.1", Stopped())
    assert head.status("host.1") == "gone"


def test_delegations_with_the_same_schema_share_the_check_that_is_under_way() -> None:
    head = session()
    assert said(delegate(head, schema=raw(SCHEMA))) == ["schema:CheckSchema"]
    assert delegate(head, call=1, schema=raw(SCHEMA)) == []
    assert said(delegate(head, call=2, schema=raw({"type": "array"}))) == ["schema:CheckSchema"]
    assert delegate(head, call=3, schema=raw(SCHEMA)) == []
    assert begun(head.accepts()) == ["host.1", "host.2", "host.4"]
    assert begun(head.accepts(2)) == ["host.3"]
    assert begun(delegate(head, call=4, schema=raw(SCHEMA))) == ["host.5"], "it is known by now"


def test_a_refused_schema_is_refused_for_every_delegation_that_waits() -> None:
    head = session()
    for call in range(3):
        delegate(head, call=call, schema=raw(SCHEMA))
    posts = head.hears("schema", SchemaChecked(1, "invalid", (SchemaProblem("/a", "is wrong"),)))
    ends = [post.body for post in posts if isinstance(post.body, DelegationEnded)]
    assert [(end.call, end.kind) for end in ends] == [(0, "denied"), (1, "denied"), (2, "denied")]
    assert said(delegate(head, call=3, schema=raw(SCHEMA))) == ["schema:CheckSchema"], "it may be mended"


def test_when_a_check_fails_every_other_delegation_that_waited_gets_its_own() -> None:
    head = session()
    for call in range(3):
        delegate(head, call=call, schema=raw(SCHEMA))
    posts = head.hears("schema", SchemaChecked(1, "failed"))
    assert said(posts) == ["host:DelegationEnded", "schema:CheckSchema", "schema:CheckSchema"]
    assert said(head.hears("schema", SchemaChecked(2, "failed"))) == ["host:DelegationEnded"]
    assert begun(head.accepts(3)) == ["host.3"]
    assert begun(delegate(head, call=3, schema=raw(SCHEMA))) == ["host.4"]


def test_a_delegation_with_less_time_for_a_check_gets_its_own() -> None:
    hasty = profile("hasty", ["kid"], limits=Limits(schema_timeout_s=1))
    head = session(hasty, profile("kid"), limits=Limits(schema_timeout_s=3))
    assert begun(delegate(head, "hasty")) == ["host.1"]
    delegate(head, "kid", call=1, schema=raw(SCHEMA))
    (check,) = delegate(head, "kid", who="host.1", schema=raw(SCHEMA))
    assert check == Post("schema", CheckSchema(2, "accept", raw(SCHEMA), timeout_ms=1_000))
    assert begun(head.accepts(2)) == ["host.1.1"]
    assert begun(head.accepts(1)) == ["host.2"]


def test_an_ended_delegation_does_not_begin_when_the_shared_check_is_answered() -> None:
    head = session()
    delegate(head)
    delegate(head, call=1, schema=raw(SCHEMA))
    assert delegate(head, who="host.1", schema=raw(SCHEMA)) == []
    head.hears("host.1", DeciderFailed(1, "Boom"))
    assert begun(head.accepts()) == ["host.2"]


def test_a_race_uses_one_schema_for_all_that_of_the_first_where_the_call_has_none() -> None:
    first, second = profile("a", schema=SCHEMA), profile("b", schema={"type": "array"})
    head = session(first, second)
    delegate(head, "a", "b")
    posts = head.accepts()
    assert begun(posts) == ["host.1", "host.2"]
    for post in posts:
        assert isinstance(post.body, Begin)
        assert post.body.schema == raw(SCHEMA)
    assert [msgspec.json.decode(p.body.profile)["name"] for p in posts if isinstance(p.body, Begin)] == [
        "a",
        "b",
    ]
