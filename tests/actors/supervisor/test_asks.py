"""What the client may do, and when an ask is over."""

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.bundles import Allowed, Rights
from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Cancel,
    Close,
    Resumed,
    SessionClosed,
    SessionOpened,
    ToolsChanged,
)
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.limits import Limits, fill, narrow
from callboard.actors.protocol.messages import (
    Begin,
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    Stop,
    Stopped,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    CancelTimer,
    CapacityGiven,
    CheckSchema,
    SchemaChecked,
    SetTimer,
    TimerFired,
)
from callboard.actors.protocol.profiles import ModelSpec, ToolsChange
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import SchemaProblem, Settled
from callboard.actors.supervisor.asks import host_budget
from callboard.actors.supervisor.state import Budget
from callboard.replay.testing.sessions.scenario import NO_LIMITS, PROGRAM, profile, tool_spec
from tests.actors.harness import SCHEMA, SessionHarness, raw, said
from tests.tables import table

PROMPT = text_json("go")
DEEP = b'{"name":"host","schema":' + b"[" * 100_000


def asking(schema: object = None, limits: Limits = NO_LIMITS) -> SessionHarness:
    head = SessionHarness().opens()
    head.asks(schema, limits)
    return head


def ended(posts: list[Post]) -> AskEnded:
    (body,) = [post.body for post in posts if isinstance(post.body, AskEnded)]
    return body


def delegate(head: SessionHarness, who: str = "host") -> None:
    head.hears(who, Delegate(1, 0, ("kid",), PROMPT))


# --- opening ----------------------------------------------------------------------


def test_a_session_is_opened_once() -> None:
    head = SessionHarness().opens()
    head.hears("client", SessionOpened(1, "kid", (), ModelSpec("m")))
    assert head.state.host_name == "host"


@table("damaged", [b"{}", b"3", b'{"name":1}', b'{"name":"host","unknown":1}', DEEP])
def test_a_session_with_a_damaged_profile_does_not_open(damaged: bytes) -> None:
    head = SessionHarness()
    head.hears("client", SessionOpened(1, "host", (Json(damaged),), ModelSpec("m")))
    assert ended(head.asks()).detail == "the session is not open"


def test_an_ask_for_a_host_that_is_not_there_is_denied() -> None:
    head = SessionHarness()
    head.hears("client", SessionOpened(1, "ghost", (Json(encode(profile("host"))),), ModelSpec("m")))
    assert ended(head.asks()).detail == "there is no agent 'ghost'"


# --- asking -----------------------------------------------------------------------


def test_an_ask_begins_the_host_with_the_narrowest_limits() -> None:
    head = SessionHarness(
        profile("host", ["kid"], limits=Limits(max_iterations=7, max_children=2)), limits=Limits(max_depth=2)
    ).opens()
    (post,) = head.asks(limits=Limits(max_iterations=5))
    assert isinstance(post.body, Begin)
    limits = post.body.limits
    assert (post.recipient, post.body.prompt, post.body.schema, post.body.depth) == ("host", PROMPT, NULL, 0)
    assert (limits.max_iterations, limits.max_children, limits.max_depth) == (5, 2, 2)


@table(
    ("prepare", "why"),
    [
        (lambda head: None, "another ask is running"),
        (lambda head: head.hears("client", Cancel()), "another ask is running"),
        (
            lambda head: (head.hears("client", Cancel()), head.hears("clock", TimerFired(1))),
            "agents of an earlier",
        ),
        (lambda head: (head.ends("host"), head.hears("client", Close())), "the session is closed"),
        (lambda head: head.hears("client", Close()), "the session is closed"),
    ],
)
def test_an_ask_is_denied_while_another_runs_or_drains_and_after_the_end(prepare: object, why: str) -> None:
    head = asking()
    assert callable(prepare)
    prepare(head)
    denied = ended(head.asks(name="second"))
    assert (denied.request_id, denied.kind, denied.usage, denied.by) == ("second", "denied", ZERO, head.seq)
    assert denied.detail.startswith(why)


def test_an_ask_is_denied_where_a_cost_limit_applies_and_prices_are_not_known() -> None:
    head = SessionHarness().opens()
    denied = ended(head.asks(limits=Limits(cost_usd=1)))
    assert denied.detail == "a cost limit applies and the prices of scripted are not known"
    assert said(head.asks()) == ["host:Begin"]
    people = profile("host", ["kid"], limits=Limits(cost_usd=2)), profile("kid")
    for costed in (SessionHarness(limits=Limits(cost_usd=9)), SessionHarness(*people)):
        assert ended(costed.opens().asks()).detail == denied.detail


def test_the_host_is_told_of_the_agents_that_it_may_begin() -> None:
    for depth, names in ((0, []), (1, ["kid", "host"])):
        (post,) = SessionHarness(limits=Limits(max_depth=depth)).opens().asks()
        assert isinstance(post.body, Begin)
        assert [name for name, _ in post.body.roster] == names


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (SchemaChecked(1, "invalid", (SchemaProblem("/a", "is wrong"),)), "/a: is wrong"),
        (SchemaChecked(1, "failed"), "it could not be checked"),
    ],
)
def test_an_ask_whose_schema_is_refused_ends_as_denied_and_no_agent_begins(
    answer: SchemaChecked, why: str
) -> None:
    head = SessionHarness().opens()
    assert said(head.asks(SCHEMA)) == ["schema:CheckSchema"]
    (post,) = head.hears("schema", answer)
    assert isinstance(post.body, AskEnded)
    assert (post.body.kind, post.body.detail) == ("denied", f"the output schema was refused: {why}")
    assert said(head.asks(name="r2")) == ["host:Begin"]


def test_the_hosts_own_schema_holds_where_the_ask_gives_none() -> None:
    head = SessionHarness(profile("host", schema=SCHEMA)).opens()
    head.asks()
    (begin,) = head.accepts()
    assert isinstance(begin.body, Begin)
    assert begin.body.schema == raw(SCHEMA)


def test_the_host_begins_with_all_that_its_session_its_profile_and_its_ask_say() -> None:
    host = replace(profile("host", ["tool"]), turns="any", model=PROGRAM)
    tool = replace(profile("tool"), input_schema=Json(b'{"type":"object"}'))
    top = Layer("the session", Rights(Allowed(effects=("read",))))
    people = tuple(Json(encode(one)) for one in (host, tool))
    head = SessionHarness()
    head.hears("client", SessionOpened(2, "host", people, ModelSpec("m"), permissions=(top,)))
    limits = Limits(max_iterations=3)
    head.hears("client", Ask("r1", PROMPT, limits=limits, labels=("l",)))
    (post,) = head.hears("host", Finished("answered", "done")) and head.hears(
        "client", Ask("r2", PROMPT, limits=limits, labels=("k",))
    )
    assert post.body == Begin(
        profile=people[0],
        prompt=PROMPT,
        model=PROGRAM,
        limits=narrow(fill(NO_LIMITS), limits),
        roster=(("tool", "the tool"),),
        permissions=(top,),
        labels=("k",),
        callees=(Callee("tool", tool.input_schema),),
        rules=2,
        bounds_questions=True,
    )
    record = head.record("host")
    assert record is not None
    assert record.labels == ("k", "l")


@pytest.mark.parametrize(("rules", "kinds"), [(1, ["host:Begin"]), (2, ["client:AskEnded"])])
def test_a_host_that_a_resume_made_unfit_is_denied_once_its_schema_is_accepted(
    rules: int, kinds: list[str]
) -> None:
    head = SessionHarness().opens()
    head.state = replace(head.state, rules=rules)
    head.asks(SCHEMA)
    costed = Json(encode(profile("host", limits=Limits(cost_usd=1))))
    head.hears("client", Resumed(rules, "host", (costed,)))
    assert said(head.accepts()) == kinds


def test_agents_in_doubt_stand_in_the_order_of_the_tree() -> None:
    head = asking()
    for call in range(3):
        head.hears("host", Delegate(1, call, ("kid",), PROMPT))
    head.hears("client", Cancel())
    outcome = ended(head.hears("clock", TimerFired(1)))
    assert outcome.in_doubt == ("host", "host.1", "host.2", "host.3")


@table(
    ("session", "ask", "least"),
    [(None, None, None), (100, None, 100), (None, 30, 80), (100, 30, 80), (70, 30, 70)],
)
def test_a_budget_of_the_session_counts_from_its_start_and_one_of_the_ask_from_now(
    session: int | None, ask: int | None, least: int | None
) -> None:
    tokens = host_budget(Limits(tokens=session), Limits(tokens=ask), Usage(50))
    assert tokens == Budget(least)
    of_session, of_ask = (Limits(cost_usd=None if one is None else one / 1e6) for one in (session, ask))
    assert host_budget(of_session, of_ask, Usage(micro_usd=50)) == Budget(None, least)


# --- outcomes ---------------------------------------------------------------------


def test_an_answer_ends_the_ask_with_what_it_used() -> None:
    head = asking()
    head.wants("host", 50)
    outcome = ended(head.hears("host", Finished("answered", "done", "cut", Settled(Usage(9)))))
    assert outcome == AskEnded("r1", "answered", NULL, "done", "cut", Usage(9, calls=1), by=head.seq)


def test_a_report_ends_the_ask_once_the_host_has_finished() -> None:
    head = asking(SCHEMA)
    head.accepts()
    head.hears("host", ReportBack(1, 0, Json(b'{"n":1}'), Settled(Usage(9), "here")))
    assert said(head.hears("schema", SchemaChecked(2, "ok"))) == ["host:ReportJudged"], "no grace is needed"
    outcome = ended(head.hears("host", Finished("reported", "here")))
    assert (outcome.kind, outcome.value, outcome.by) == ("reported", Json(b'{"n":1}'), head.seq - 1)


def test_a_second_ask_is_charged_only_what_it_used_itself() -> None:
    head = asking()
    for name, used in (("r2", 9), ("r3", 4)):
        head.wants("host", 50)
        assert ended(head.ends("host", used=used)).usage == Usage(used, calls=1)
        head.asks(name=name)
    assert head.state.agents == 1, "the host counts once"


def test_the_outcome_waits_until_every_agent_has_drained() -> None:
    head = asking()
    delegate(head)
    head.wants("host.1", 70)
    posts = head.ends("host", text="done without it")
    assert said(posts) == ["host.1:Stop", "host:DelegationEnded", "clock:SetTimer"]
    posts = head.hears("host.1", Stopped(Settled(Usage(70))))
    assert said(posts) == ["clock:CancelTimer", "client:AskEnded"]
    assert ended(posts).usage == Usage(70, calls=1)


@pytest.mark.parametrize(("grace", "after_ms"), [(0, 1), (2, 2_000), (None, 10_000)])
def test_the_outcome_waits_no_longer_than_the_grace(grace: float | None, after_ms: int) -> None:
    head = asking(limits=Limits(cancel_grace_s=grace))
    delegate(head)
    head.wants("host.1", 70)
    posts = head.hears("client", Cancel("enough"))
    assert posts[-1].body == SetTimer(1, after_ms)
    outcome = ended(head.hears("clock", TimerFired(1)))
    assert (outcome.kind, outcome.detail) == ("cancelled", "enough")
    assert (outcome.unsettled, outcome.in_doubt) == (Need(70), ("host", "host.1"))


def test_what_stragglers_settle_after_the_grace_belongs_to_no_ask() -> None:
    head = asking()
    head.wants("host", 70)
    head.hears("client", Cancel())
    head.hears("clock", TimerFired(1))
    head.hears("host", Stopped(Settled(Usage(50))))
    head.asks(name="r2")
    head.wants("host", 20, turn=2)
    assert ended(head.ends("host", used=5)).usage == Usage(5, calls=1)


def test_only_agents_that_have_not_drained_are_in_doubt() -> None:
    head = asking()
    delegate(head)
    delegate(head, "host.1")
    head.hears("client", Cancel())
    head.hears("host.1", Stopped())
    outcome = ended(head.hears("clock", TimerFired(1)))
    assert outcome.in_doubt == ("host", "host.1.1")


# --- deadline ---------------------------------------------------------------------


def test_a_deadline_ends_the_ask_with_what_was_said_so_far() -> None:
    head = asking(limits=Limits(deadline_s=2))
    head.wants("host", 70)
    head.hears("host", TurnSettled(Usage(3), "so far"))
    head.hears("clock", TimerFired(1))
    outcome = ended(head.hears("host", Stopped()))
    assert (outcome.kind, outcome.text, outcome.by) == ("deadline", "so far", head.seq - 1)


def test_a_deadline_counts_from_the_ask_and_not_from_when_its_schema_was_accepted() -> None:
    head = SessionHarness().opens()
    timer, check = head.asks(SCHEMA, Limits(deadline_s=2))
    assert (timer.body, type(check.body).__name__) == (SetTimer(1, 2_000), "CheckSchema")
    (post,) = head.hears("clock", TimerFired(1))
    assert ended([post]).kind == "deadline"
    assert head.hears("schema", SchemaChecked(1, "ok")) == []


def test_a_deadline_set_before_the_host_began_still_ends_it() -> None:
    head = SessionHarness().opens()
    head.asks(SCHEMA, Limits(deadline_s=2))
    head.accepts()
    assert said(head.hears("clock", TimerFired(1)))[0] == "host:Stop"


def test_an_ask_that_ends_takes_its_deadline_back() -> None:
    head = asking(limits=Limits(deadline_s=2))
    posts = head.ends("host")
    assert [post.body for post in posts[:1]] == [CancelTimer(1)]
    assert head.hears("clock", TimerFired(1)) == []
    head.asks(name="r2")
    assert head.session == "asking"


def test_a_report_that_came_before_the_deadline_still_ends_the_ask_well() -> None:
    head = asking(SCHEMA, Limits(deadline_s=2))
    head.accepts()
    head.hears("host", ReportBack(1, 0, Json(b"1")))
    head.hears("clock", TimerFired(1))
    head.hears("host", Stopped())
    assert head.session == "asking", "the report is being checked"
    assert ended(head.hears("schema", SchemaChecked(2, "ok"))).kind == "reported"


def test_a_host_that_was_stopped_may_keep_the_outcome_waiting_for_the_grace_only() -> None:
    head = asking(SCHEMA, Limits(deadline_s=2))
    head.accepts()
    head.hears("host", ReportBack(1, 0, Json(b"1")))
    head.hears("clock", TimerFired(1))
    posts = head.hears("schema", SchemaChecked(2, "ok"))
    assert said(posts) == ["host:ReportJudged", "clock:SetTimer"]
    outcome = ended(head.hears("clock", TimerFired(2)))
    assert (outcome.kind, outcome.in_doubt) == ("reported", ("host",))


# --- cancel and close -------------------------------------------------------------


def test_a_cancel_keeps_what_was_said_and_why_it_came() -> None:
    head = asking()
    head.wants("host", 70)
    head.hears("host", TurnSettled(Usage(3), "so far"))
    head.hears("client", Cancel("changed my mind"))
    outcome = ended(head.hears("host", Stopped()))
    assert (outcome.kind, outcome.text, outcome.detail) == ("cancelled", "so far", "changed my mind")


def test_a_cancel_of_one_agent_ends_its_delegation_and_leaves_the_ask_running() -> None:
    for address, stopped in (
        ("host.1", ["host.1.1", "host.1"]),
        ("host", ["host.1.1", "host.1", "host"]),
        ("", ["host.1.1", "host.1", "host"]),
        ("host.9", []),
        ("client", []),
        ("host.01", []),
    ):
        head = asking()
        for who in ("host", "host.1"):
            delegate(head, who)
        before = head.state
        found = head.hears("client", Cancel("enough", address))
        assert [post.recipient for post in found if isinstance(post.body, Stop)] == stopped
        ends = [post.body for post in found if isinstance(post.body, DelegationEnded)]
        if address == "host.1":
            assert (ends[-1].kind, ends[-1].detail) == ("cancelled", "enough")
        ask = head.state.ask
        assert ask is not None
        assert (ask.outcome is None) == (stopped[-1:] != ["host"])
        assert (head.state == before) == (not stopped)


def test_a_cancel_before_the_host_began_has_nothing_of_the_ask_before() -> None:
    head = asking()
    head.wants("host", 70)
    head.hears("host", TurnSettled(Usage(3), "words of the first ask"))
    head.ends("host")
    head.asks(SCHEMA, name="r2")
    outcome = ended(head.hears("client", Cancel()))
    assert (outcome.request_id, outcome.text, outcome.usage) == ("r2", "", ZERO)


@pytest.mark.parametrize("again", [Cancel("once more"), DeciderFailed(1, "Boom")])
def test_the_first_end_counts(again: Cancel | DeciderFailed) -> None:
    head = asking()
    head.hears("client", Cancel("first"))
    assert head.hears("host", again) == []
    assert ended(head.hears("host", Stopped())).detail == "first"


def test_closing_cancels_what_runs_and_says_last_what_was_used() -> None:
    head = asking()
    head.wants("host", 70)
    head.hears("client", Close())
    posts = head.hears("host", Stopped(Settled(Usage(30))))
    assert said(posts) == ["clock:CancelTimer", "client:AskEnded", "client:SessionClosed"]
    assert ended(posts).detail == "the session was closed"
    assert posts[-1].body == SessionClosed(Usage(30, calls=1))


def test_closing_twice_or_while_draining_says_the_end_once() -> None:
    head = asking()
    head.hears("client", Cancel("enough"))
    assert head.hears("client", Close()) == []
    assert head.hears("client", Close()) == []
    posts = head.hears("host", Stopped())
    assert ended(posts).detail == "enough"
    assert said(posts)[-1] == "client:SessionClosed"
    assert head.hears("client", Close()) == []


def test_the_record_of_a_host_whose_tools_have_changed_has_the_tools_that_it_begins_with() -> None:
    head = SessionHarness().opens()
    head.hears("client", ToolsChanged(ToolsChange((tool_spec("find"),), address="host")))
    (begin,) = head.asks()
    record = head.record("host")
    assert record is not None
    assert isinstance(begin.body, Begin)
    assert encode(record.profile) == bytes(begin.body.profile)
    assert [tool.name for tool in record.profile.tools] == ["find"]


def test_a_close_of_a_session_that_is_not_open_yet_keeps_it_from_nothing() -> None:
    head = SessionHarness()
    assert head.hears("client", Close()) == []
    assert said(head.opens().asks()) == ["host:Begin"]


def closed_before_the_host_has_drained() -> SessionHarness:
    head = asking()
    head.wants("host", 70)
    head.hears("client", Close())
    head.hears("clock", TimerFired(1))
    assert head.session == "closed"
    return head


def test_after_the_end_answers_lead_to_nothing() -> None:
    head = closed_before_the_host_has_drained()
    assert head.hears("host", Stopped(Settled(Usage(30)))) == []
    assert head.session == "closed"


def test_a_resume_after_a_close_that_was_left_over_does_not_open_the_session_again() -> None:
    head = closed_before_the_host_has_drained()
    assert head.hears("client", Resumed(1)) == []
    assert head.session == "closed"


@pytest.mark.parametrize("is_drained", [True, False])
def test_a_closed_session_is_open_again_when_it_is_reopened(is_drained: bool) -> None:
    head = closed_before_the_host_has_drained()
    if is_drained:
        head.hears("host", Stopped(Settled(Usage(30))))
    assert head.hears("client", Resumed(1, reopens=True)) == []
    if not is_drained:
        assert head.session == "straggling"
        head.hears("host", Stopped(Settled(Usage(30))))
    assert head.session == "open"
    assert not head.state.is_closing
    assert said(head.asks(name="r2"))[-1] == "host:Begin"
    assert said(head.hears("client", Close()))[-1] != "client:SessionClosed"  # the ask ends first


def test_a_check_that_is_answered_after_the_end_counts_in_a_reopened_session() -> None:
    head = SessionHarness().opens()
    head.asks({}, name="r1")
    head.hears("client", Close())
    assert head.session == "closed"
    assert head.accepts() == []
    head.hears("client", Resumed(1, reopens=True))
    assert said(head.asks({}, name="r2")) == ["host:Begin"]
    assert not head.state.checks.size


def test_a_place_that_is_given_after_the_end_is_free_in_a_reopened_session() -> None:
    head = SessionHarness(capacity=("scripted",)).opens()
    head.asks()
    head.wants("host", 70)
    head.hears("client", Close())
    head.hears("host", Stopped())
    head.hears("clock", TimerFired(1))
    assert head.session == "closed"
    assert head.hears("capacity", CapacityGiven("host", 1, 1)) == []
    head.hears("client", Resumed(1, reopens=True))
    assert (head.session, head.state.in_flight) == ("open", 0)
    assert said(head.asks(name="r2"))[-1] == "host:Begin"


def test_a_settlement_after_the_end_is_charged_once() -> None:
    head = closed_before_the_host_has_drained()
    assert head.hears("host", Delegate(1, 0, ("kid",), PROMPT, settled=Settled(Usage(30)))) == []
    assert head.hears("host", Stopped()) == []
    head.hears("client", Resumed(1, reopens=True))
    head.asks(name="r2")
    assert ended(head.ends("host", used=0)).usage == Usage()
    assert head.record("host").spent == Usage(30, calls=1)  # type: ignore[union-attr]  # the host stays


def test_a_quiet_session_holds_nothing() -> None:
    head = asking()
    head.wants("host", 70)
    head.ends("host", used=1)
    assert (head.state.live, head.state.in_flight, head.state.ask) == (0, 0, None)
    record = head.record("host")
    assert record is not None
    assert record.reserved == NOTHING


def test_an_ask_without_a_schema_takes_the_type_of_its_host_together_with_its_schema() -> None:
    typed = profile("host", schema=SCHEMA, output_type="app.Report")
    head = SessionHarness(typed).opens()
    head.asks()
    head.accepts()
    (post,) = head.hears("host", ReportBack(1, 0, raw(1)))
    assert isinstance(post.body, CheckSchema)
    assert post.body.output_type == "app.Report"
