"""Contexts: the supervisor asks for them beside the schema check, and begins after the last answer."""

import itertools

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import RULES, Cancel, Resumed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.actors.protocol.port_messages import ContextMade, MakeContext, SchemaChecked
from callboard.actors.protocol.profiles import Profile
from callboard.actors.supervisor.decider import decide_supervisor
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile
from tests.actors.harness import SCHEMA, SessionHarness, raw, said
from tests.actors.supervisor.test_delegating import begun, delegate, session
from tests.tables import table

KNOWING = text_json("what you should know")


def knowing(limits: Limits = NO_LIMITS) -> SessionHarness:
    kids = (profile("kid", context="c"), profile("plain"), profile("odd", context="c"))
    return session(*kids, limits=limits)


def made(head: SessionHarness, name: str = "kid", key: int = 1, **more: object) -> list[Post]:
    fields: dict[str, object] = {"content": KNOWING, **more}
    return head.hears("context", ContextMade("host", key, name, **fields))  # type: ignore[arg-type]  # fields of a ContextMade


def ends(posts: list[Post]) -> list[DelegationEnded]:
    return [post.body for post in posts if isinstance(post.body, DelegationEnded)]


def test_a_context_is_asked_for_by_the_seq_of_the_delegate_and_stands_in_the_begin() -> None:
    head = knowing(Limits(schema_timeout_s=2.5))
    (post,) = delegate(head)
    assert (post.recipient, post.body) == ("context", MakeContext("host", 1, "kid", head.seq, 2_500))
    (begin,) = made(head)
    assert isinstance(begin.body, Begin)
    assert (begin.recipient, begin.body.context) == ("host.1", KNOWING)
    record = head.record("host")
    assert record is not None
    (delegation,) = record.delegations.values()
    assert (delegation.contexts, delegation.waits, delegation.is_checking) == ((), 0, False)


def test_a_delegation_without_a_context_begins_at_once() -> None:
    (begin,) = delegate(knowing(), "plain")
    assert isinstance(begin.body, Begin)
    assert begin.body.context == NULL


def test_racers_begin_together_each_with_the_context_of_its_profile() -> None:
    head = knowing()
    posts = delegate(head, "kid", "plain", "kid", "odd")
    wanted = [post.body for post in posts if isinstance(post.body, MakeContext)]
    assert [one.profile for one in wanted] == ["kid", "odd"]
    assert made(head, "odd", content=text_json("odd one")) == []
    begins = [post.body for post in made(head) if isinstance(post.body, Begin)]
    assert [bytes(one.context) for one in begins] == [
        bytes(KNOWING), b"null", bytes(KNOWING), b'"odd one"',
    ]  # fmt: skip


@table("order", [*itertools.permutations(["schema", "kid", "odd"])])
def test_the_last_answer_begins_the_delegation_in_any_order(order: tuple[str, ...]) -> None:
    head = knowing()
    posts = delegate(head, "kid", "odd", schema=raw(SCHEMA))
    assert sorted(said(posts)) == ["context:MakeContext", "context:MakeContext", "schema:CheckSchema"]
    for who in order[:-1]:
        assert (head.accepts() if who == "schema" else made(head, who)) == []
    last = head.accepts() if order[-1] == "schema" else made(head, order[-1])
    assert begun(last) == ["host.1", "host.2"]


def test_delegations_that_share_a_schema_check_wait_for_their_own_contexts() -> None:
    head = knowing()
    delegate(head, "kid", schema=raw(SCHEMA))
    posts = delegate(head, "kid", call=1, schema=raw(SCHEMA))
    assert said(posts) == ["context:MakeContext"]
    assert made(head, key=2) == []
    assert begun(head.accepts()) == ["host.2"]
    assert begun(made(head)) == ["host.1"]


def test_a_context_that_fails_ends_the_delegation_and_later_answers_change_nothing() -> None:
    head = knowing()
    delegate(head, "kid", "odd", schema=raw(SCHEMA))
    gone = replace(head.state, profiles={})  # the same answer after a resume without its agents
    assert decide_supervisor(gone, 9, "context", ContextMade("host", 1, "kid", "failed"))[1]
    (end,) = ends(made(head, status="failed", content=NULL, detail="it raised"))
    assert (end.kind, end.address) == ("unavailable", "host.1")
    assert end.detail == "the context for kid could not be made: it raised"
    assert made(head, "odd") == []
    assert head.accepts() == []
    assert head.status("host.1") == "gone"
    (begin,) = delegate(head, "plain", call=1)
    assert begin.recipient == "host.3"  # the ordinals stay taken


def test_a_refused_schema_ends_the_delegation_before_its_context() -> None:
    head = knowing()
    delegate(head, schema=raw(SCHEMA))
    (end,) = ends(head.hears("schema", SchemaChecked(1, "invalid")))
    assert end.kind == "denied"
    assert made(head) == []


def test_the_parents_end_drops_the_context() -> None:
    head = knowing()
    delegate(head)
    assert [one.kind for one in ends(head.hears("client", Cancel()))] == ["cancelled"]
    assert made(head) == []
    assert head.status("host.1") == "gone"


def test_an_answer_to_a_delegation_that_has_begun_or_to_none_changes_nothing() -> None:
    head = knowing()
    delegate(head)
    made(head)
    before = head.state
    assert made(head, content=text_json("other")) == made(head, status="failed") == []
    assert made(head, key=9) == []
    assert head.state == before


def test_slots_are_taken_before_the_context_is_made() -> None:
    head = knowing(Limits(max_agents=2))
    delegate(head)
    (end,) = ends(delegate(head, call=1))
    assert end.detail == "at most 2 agents in one session"


# --- a resume changes the agents while they wait ----------------------------------


def changes(head: SessionHarness, *people: Profile, rules: int = RULES) -> list[Post]:
    """Resume with these agents beside the host."""
    known = [one[0] for one in head.state.profiles.values()]
    packed = tuple(Json(encode(one)) for one in (known[0], *people))
    return head.hears("client", Resumed(rules, "host", packed))


PLAIN = profile("plain")
KID = profile("kid", context="c")


@pytest.mark.parametrize("awaited", ["schema", "context"])
def test_a_delegation_whose_agent_is_gone_is_unavailable_and_its_parent_is_told_which(awaited: str) -> None:
    head = knowing()
    delegate(head, "plain", "kid", schema=raw(SCHEMA) if awaited == "schema" else NULL)
    changes(head, PLAIN)
    if awaited == "schema":
        made(head)
    (end,) = ends(head.accepts() if awaited == "schema" else made(head))
    assert (end.kind, end.address) == ("unavailable", "host.1")
    assert end.detail == "agent 'kid' is gone: the session was resumed without it"
    assert begun(delegate(head, "plain", call=1)) == ["host.3"]


@pytest.mark.parametrize(
    ("kid", "kind", "detail"),
    [
        (replace(KID, unavailable="its server is gone"), "unavailable", "its server is gone"),
        (
            replace(KID, input_schema=Json(b'{"type":"object"}')),
            "denied",
            "agent 'kid' takes the fields of its contract",
        ),
        (
            replace(KID, limits=Limits(cost_usd=1)),
            "denied",
            "a cost limit applies and the prices of scripted are not known",
        ),
    ],
)
def test_an_agent_that_has_changed_is_checked_again_before_it_begins(
    kid: Profile, kind: str, detail: str
) -> None:
    head = knowing()
    delegate(head)
    changes(head, kid)
    (end,) = ends(made(head))
    assert (end.kind, end.detail) == (kind, detail)


def test_an_agent_that_wants_a_context_only_by_now_is_unavailable() -> None:
    head = knowing()
    delegate(head, "plain", "kid")
    changes(head, replace(PLAIN, factory="make"), KID)
    (end,) = ends(made(head))
    assert end.kind == "unavailable"
    why = "the session was resumed with another definition of it"
    assert end.detail == f"a new plain could not be made: {why}"


def test_an_agent_that_has_changed_and_is_fit_begins_as_it_is_now() -> None:
    head = knowing()
    delegate(head)
    changes(head, replace(KID, description="better"))
    (begin,) = made(head)
    assert isinstance(begin.body, Begin)
    assert b"better" in bytes(begin.body.profile)


def test_under_rules_1_a_changed_agent_begins_unchecked_but_for_one_that_is_gone() -> None:
    head = knowing()
    head.state = replace(head.state, rules=1)
    delegate(head)
    delegate(head, "odd", call=1)
    changes(head, replace(KID, unavailable="its server is gone"))
    assert begun(made(head)) == ["host.1"]
    assert [one.kind for one in ends(made(head, "odd", key=2))] == ["unavailable"]
