"""A resume changes the agents of a session: now, or once the running ask has ended."""

from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.bundles import Allowed, Rights
from callboard.actors.protocol.client_messages import RULES, AskEnded, Close, Resumed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.limits import Limits, fill
from callboard.actors.protocol.messages import Begin, Delegate, Finished, TurnRequested
from callboard.actors.protocol.port_messages import CallModel, ExtendTimer
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.sessions.scenario import profile, program_profile
from tests.actors.harness import SCHEMA, SessionHarness, said


def resumed(host: str, *, later: bool = True, model: str = "") -> Resumed:
    spec = ModelSpec(model) if model else None
    return Resumed(1, host, (Json(encode(profile(host))),), spec, from_next_ask=later)


def in_an_ask() -> SessionHarness:
    head = SessionHarness().opens()
    head.asks()
    return head


def next_begin(head: SessionHarness) -> tuple[str, str]:
    """Return the host and the default model of the next ask."""
    (post,) = head.asks(name="r2")
    assert isinstance(post.body, Begin)
    assert f'"{head.state.host_name}"'.encode() in bytes(post.body.profile)
    return head.state.host_name, head.state.model.name


def test_agents_for_later_wait_for_the_end_of_the_ask() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2", model="new"))
    assert (head.state.host_name, head.state.model.name) == ("host", "scripted")
    head.hears("host", Finished("answered", "done"))
    assert (head.state.host_name, head.state.later) == ("v2", None)
    assert next_begin(head) == ("v2", "new")


def test_the_last_resume_before_the_end_decides() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2"))
    head.hears("client", Resumed(1))  # no change
    head.hears("client", resumed("v3"))
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("v3", "scripted")


def test_agents_for_now_replace_those_for_later() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2"))
    head.hears("client", resumed("v3", later=False))
    assert head.state.host_name == "v3"
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("v3", "scripted")


def test_a_model_alone_waits_too() -> None:
    head = in_an_ask()
    head.hears("client", Resumed(1, model=ModelSpec("new"), from_next_ask=True))
    assert head.state.model.name == "scripted"
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("host", "new")


def test_a_later_change_of_the_model_keeps_the_agents_that_wait() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2"))
    head.hears("client", Resumed(1, model=ModelSpec("new"), from_next_ask=True))
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("v2", "new")


def test_without_an_ask_there_is_nothing_to_wait_for() -> None:
    head = SessionHarness().opens()
    head.hears("client", resumed("v2"))
    assert next_begin(head) == ("v2", "scripted")


def test_a_damaged_profile_changes_nothing() -> None:
    head = in_an_ask()
    before = head.state
    head.hears("client", Resumed(1, "v2", (Json(b"{}"),)))
    assert head.state == before


def test_the_rules_of_the_first_event_hold_for_the_whole_life_of_a_session() -> None:
    head = SessionHarness().opens()
    head.hears("client", Resumed(head.state.rules + 1))
    (post,) = head.asks()
    assert isinstance(post.body, Begin)
    assert post.body.rules == head.state.rules == RULES


# --- limits and deadlines -----------------------------------------------------------------


def with_limits(limits: Limits, *, in_check: bool = False) -> SessionHarness:
    """Return a session of 50,000 tokens, and an ask of 9,000 after 1,000 were spent, with a delegation."""
    people = profile("host", ["kid"], limits=Limits(max_children=5)), profile("kid")
    head = SessionHarness(*people, limits=Limits(tokens=50_000, deadline_s=60)).opens()
    head.asks()
    head.wants("host")
    head.ends("host", used=1_000)
    head.asks(SCHEMA if in_check else None, Limits(tokens=9_000, deadline_s=30), name="r2")
    if not in_check:
        wanted = Delegate(
            1, 0, ("kid",), text_json("go"), closing=Need(70), room=600, limits=Limits(deadline_s=9)
        )
        head.hears("host", wanted)
    head.hears("client", Resumed(1, limits=limits))
    return head


@pytest.mark.parametrize(
    ("limits", "tokens", "max_children"),
    [
        (Limits(tokens=50_000), 10_000, 5),
        (Limits(tokens=5_000), 5_000, 5),
        (Limits(), 10_000, 5),
        (Limits(max_children=2), 10_000, 2),
    ],
)
def test_other_limits_hold_for_the_session_and_the_running_ask_and_keep_the_reserve(
    limits: Limits, tokens: int, max_children: int
) -> None:
    head = with_limits(limits)
    host, ask = head.record("host"), head.state.ask
    assert host is not None
    assert ask is not None
    assert (host.budget.tokens, host.budget.micro_usd) == (tokens, None)
    assert (host.kept.turn, host.kept.results) == (Need(70), Need(600))
    assert host.limits == ask.limits
    assert (host.limits.max_children, host.limits.tokens) == (max_children, min(9_000, tokens))
    assert head.state.limits == fill(limits)


def test_other_limits_without_an_ask_hold_from_the_next_one_on() -> None:
    head = SessionHarness().opens()
    head.hears("client", Resumed(1, limits=Limits(max_children=3)))
    assert head.state.limits.max_children == 3
    (begin,) = head.asks()
    assert isinstance(begin.body, Begin)
    assert begin.body.limits.max_children == 3


def test_an_ask_whose_schema_is_being_checked_begins_with_the_other_limits() -> None:
    head = with_limits(Limits(max_children=2), in_check=True)
    former = head.record("host")
    assert former is not None
    assert former.limits.max_children == 5
    begin = next(one.body for one in head.accepts() if isinstance(one.body, Begin))
    assert begin.limits.max_children == 2


def test_every_running_deadline_is_extended_and_no_other_timer() -> None:
    head = with_limits(Limits())
    head.hears("host.1", TurnRequested(1, 2, Need(1), "d", after_ms=5))
    deadlines = [number for number, timer in head.state.timers.items() if timer.purpose == "deadline"]
    posts = head.hears("client", Resumed(1, extend_ms=70))
    assert [(one.recipient, one.body) for one in posts] == [
        ("clock", ExtendTimer(number, 70)) for number in deadlines
    ]
    assert 0 < len(deadlines) < head.state.timers.size


def test_a_resume_opens_no_session_that_was_never_opened_and_reopens_one_that_says_so() -> None:
    head = SessionHarness()
    head.hears("client", Resumed(1, limits=Limits(max_children=3), reopens=True))
    assert head.state == SessionHarness().state
    head.opens()
    head.hears("client", Close())
    phases = []
    for resumed_by in (Resumed(1), Resumed(1, reopens=True)):
        head.hears("client", resumed_by)
        phases.append((head.state.phase, head.state.is_closing))
    assert phases == [("closed", True), ("open", False)]
    head.asks()
    head.hears("client", Resumed(1, reopens=True))
    assert head.session == "asking"


def test_further_bounds_of_rights_are_added_below_those_of_before() -> None:
    head = SessionHarness().opens()
    first, second = (Layer(by, Rights(Allowed(tools=(by,)))) for by in ("a", "b"))
    for layers in ((first,), (second,), (first,)):
        head.hears("client", Resumed(1, permissions=layers))
    assert head.state.permissions == (first, second)


@pytest.mark.parametrize(("rules", "granted"), [(1, []), (2, ["host.2"])])
@pytest.mark.parametrize(
    "scarce", [Limits(tokens=30_000), Limits(max_parallel_calls=1)], ids=["room", "slots"]
)
def test_a_request_that_waits_is_granted_when_a_resume_brings_what_it_waits_for(
    scarce: Limits, rules: int, granted: list[str]
) -> None:
    head = SessionHarness(profile("host", ["kid"]), profile("kid"), limits=scarce).opens()
    head.state = replace(head.state, rules=rules)
    head.asks()
    for call in (0, 1):
        head.hears("host", Delegate(1, call, ("kid",), text_json("help"), delegations=2))
    head.wants("host.1", 16_000)
    assert said(head.wants("host.2", 16_000)) == []
    posts = head.hears("client", Resumed(rules, limits=Limits(tokens=90_000)))
    found = [post.body.agent for post in posts if isinstance(post.body, CallModel)]
    # A free slot was given to the first request at every decision before, too.
    assert found == (granted if scarce.tokens else ["host.2"])


def test_a_delegation_of_a_program_that_waits_begins_when_a_resume_lets_it_have_more() -> None:
    lead = program_profile("host", ["kid"])
    head = SessionHarness(lead, profile("kid"), limits=Limits(max_children=1)).opens()
    head.asks()
    begun = [
        said(head.hears("host", Delegate(1, call, ("kid",), text_json("help"), delegations=2)))
        for call in (0, 1)
    ]
    assert begun == [["host.1:Begin"], []]
    assert said(head.hears("client", Resumed(RULES, limits=Limits(max_children=2)))) == ["host.2:Begin"]


# --- an ask that waits for its schema --------------------------------------------------


def in_a_check(*people: Profile, **more: Any) -> list[Post]:
    """Resume an ask while its schema is checked, with these agents, the host first. Return the next posts."""
    head = SessionHarness(profile("host", limits=Limits(max_iterations=9))).opens()
    head.asks(SCHEMA)
    packed = tuple(Json(encode(one)) for one in people)
    head.hears("client", Resumed(RULES, people[0].name, packed, **more))
    return head.accepts()


def test_the_host_begins_as_it_is_when_its_schema_is_accepted() -> None:
    (post,) = in_a_check(profile("v2", limits=Limits(max_iterations=3)))
    assert isinstance(post.body, Begin)
    assert b'"v2"' in bytes(post.body.profile)
    assert post.body.limits.max_iterations == 3


@pytest.mark.parametrize(
    ("host", "more", "why"),
    [
        (profile("host"), {"limits": Limits(cost_usd=1)}, "the prices of scripted are not known"),
        (
            profile("host"),
            {"permissions": (Layer("s", Rights(Allowed(models=("other",)))),)},
            "model 'scripted' is denied by s",
        ),
    ],
)
def test_an_ask_is_denied_whose_host_a_resume_has_made_unfit(
    host: Profile, more: dict[str, Any], why: str
) -> None:
    (post,) = in_a_check(host, **more)
    assert isinstance(post.body, AskEnded)
    assert post.body.kind == "denied"
    assert why in post.body.detail


def test_an_ask_is_denied_whose_host_is_gone() -> None:
    head = SessionHarness().opens()
    head.asks(SCHEMA)
    other = (Json(encode(profile("other"))),)
    head.hears("client", Resumed(RULES, "host", other, limits=Limits(tokens=9)))
    (post,) = head.accepts()
    assert isinstance(post.body, AskEnded)
    assert (post.body.kind, post.body.detail) == ("denied", "there is no agent 'host'")


def test_limits_bind_a_running_host_by_its_own_profile() -> None:
    head = SessionHarness(profile("host", limits=Limits(max_children=7))).opens()
    head.asks()
    later = (Json(encode(profile("host", limits=Limits(max_children=2)))),)
    head.hears("client", Resumed(RULES, "host", later, limits=Limits(max_children=20)))
    record = head.record("host")
    assert record is not None
    assert record.limits.max_children == 7


@pytest.mark.parametrize("rules", [1, 2])
@pytest.mark.parametrize("is_in_check", [True, False])
def test_new_agents_bind_an_ask_that_has_not_begun_and_by_the_first_rules_any(
    rules: int, is_in_check: bool
) -> None:
    head = SessionHarness(profile("host", limits=Limits(max_children=7))).opens()
    head.asks()
    head.ends("host")
    head.state = replace(head.state, rules=rules)
    head.asks(SCHEMA if is_in_check else None, name="r2")
    later = (Json(encode(profile("host", limits=Limits(max_children=2)))),)
    head.hears("client", Resumed(rules, "host", later))
    ask = head.state.ask
    assert ask is not None
    assert ask.limits.max_children == (2 if is_in_check and rules == 2 else 7)
    head.hears("client", Resumed(rules, limits=Limits(max_children=20)))
    ask = head.state.ask
    assert ask is not None
    assert ask.limits.max_children == (2 if is_in_check or rules == 1 else 7)


def test_limits_that_stay_free_no_place_of_a_program() -> None:
    head = SessionHarness(program_profile("host", ["kid"]), profile("kid"), limits=Limits(max_children=1))
    head.opens().asks()
    assert said(head.hears("host", Delegate(1, 0, ("kid",), text_json("go")))) == ["host.1:Begin"]
    assert head.hears("host", Delegate(1, 1, ("kid",), text_json("go"))) == []
    assert head.hears("client", Resumed(RULES, limits=Limits(max_children=1))) == []
    assert said(head.hears("client", Resumed(RULES, limits=Limits(max_children=2)))) == ["host.2:Begin"]


def test_agents_that_wait_keep_their_model_in_a_resume_without_one() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2", model="new"))
    head.hears("client", resumed("v3"))
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("v3", "new")
