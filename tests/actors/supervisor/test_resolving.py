"""Which agents a delegation names, and the first objection to it."""

from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.bundles import Allowed, Rights
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.limits import DEFAULTS, Limits, fill
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.supervisor.resolving import (
    CHECKED_AGAIN_SINCE,
    NAMED_SINCE,
    Denial,
    Wanted,
    profiles_of,
    resolve,
    resolve_again,
    why_denied,
)
from callboard.actors.supervisor.state import Budget, Delegation, Record, SupervisorState
from tests.tables import table

FIELDS = Json(b'{"type":"object"}')
INPUT = Json(b"{}")
FREE = ModelSpec("f", kind="function")
HOST = Profile("host", agents=("tool", "plain", "made", "gone", "twin", "absent"))
PEOPLE = (
    HOST,
    Profile("tool", "the tool", input_schema=FIELDS, context="words"),
    Profile("plain", "the plain"),
    Profile("made", "the made", factory="make"),
    Profile("gone", "the gone", unavailable="it is broken"),
    Profile("twin", input_schema=FIELDS),
)
STATE = SupervisorState(profiles={one.name: (one, NULL) for one in PEOPLE})
RECORD = Record("host", 0, 1, HOST, ModelSpec("m"), DEFAULTS, 0)
QUESTION = Json(encode(Profile("ask_model")))


def wish(*names: str, given: Json = NULL, implicit: Json = NULL) -> Delegate:
    """Return a delegation to these agents."""
    return Delegate(1, 0, names, Json(b'"p"'), input=given, implicit=implicit, closing=Need(5), room=700)


def refusal(request: Delegate, parent: Record = RECORD, state: SupervisorState = STATE) -> Denial | None:
    wanted = resolve(state, [parent], request)
    return wanted if isinstance(wanted, Denial) else why_denied(state, [parent], wanted)


def test_a_delegation_has_the_profile_of_each_racer_and_the_need_of_its_result() -> None:
    wanted = resolve(STATE, [RECORD], wish("plain", "made", "plain"))
    assert isinstance(wanted, Wanted)
    assert [profile.name for profile, _ in wanted.profiles] == ["plain", "made", "plain"]
    assert (wanted.size, wanted.result) == (700, NOTHING)
    limited = replace(RECORD, budget=Budget(tokens=100_000))
    wanted = resolve(STATE, [limited], wish("plain"))
    assert isinstance(wanted, Wanted)
    assert (wanted.size, wanted.result) == (700, Need(700))


def test_a_question_brings_its_own_profile_which_no_agent_has_to_name() -> None:
    question = wish("ask_model", implicit=QUESTION)
    deepest = replace(RECORD, depth=3)
    assert profiles_of(STATE, question) == ((Profile("ask_model"), QUESTION),)
    assert refusal(question, deepest, replace(STATE, agents=10_000)) is None
    unreadable = Denial("denied", "the profile of the implicit agent cannot be read")
    assert refusal(wish("ask_model", implicit=Json(b'{"no":1}'))) == unreadable


@table(
    ("request_", "kind", "detail"),
    [
        (wish(), "denied", "a delegation names at least one agent"),
        (wish("absent"), "denied", "there is no agent 'absent' to delegate to"),
        (wish("plain", "host"), "denied", "there is no agent 'host' to delegate to"),
        (wish("gone"), "unavailable", "it is broken"),
        (wish("plain", "gone"), "unavailable", "it is broken"),
        (wish("tool"), "denied", "agent 'tool' takes the fields of its contract"),
        (wish("plain", given=INPUT), "denied", "agent 'plain' takes a prompt"),
        (wish("tool", "twin", given=INPUT), "denied", "agents with different contracts cannot race"),
    ],
)
def test_a_delegation_that_cannot_begin_is_denied(request_: Delegate, kind: str, detail: str) -> None:
    assert refusal(request_) == (kind, detail, 0)


@pytest.mark.parametrize("request_", [wish("plain"), wish("tool", "tool", given=INPUT), wish("made")])
def test_a_call_of_the_right_form_begins(request_: Delegate) -> None:
    assert refusal(request_) is None


def test_the_first_objection_is_told_and_depth_comes_before_names() -> None:
    deepest, crowded = replace(RECORD, depth=3), replace(STATE, agents=10_000)
    for request, parent, state, words in (
        (wish("absent"), deepest, crowded, "agents may nest 3 deep"),
        (wish("absent"), RECORD, crowded, "there is no agent"),
        (wish("gone"), replace(RECORD, turn_children=32), crowded, "at most 1000 agents"),
        (wish("gone"), replace(RECORD, turn_children=32), STATE, "at most 32 delegations"),
        (wish("gone"), replace(RECORD, budget=Budget(tokens=5)), STATE, "it is broken"),
    ):
        denial = refusal(request, parent, state)
        assert denial is not None
        assert denial.detail.startswith(words)


def test_a_budget_that_leaves_nothing_is_named_with_its_place() -> None:
    child = replace(RECORD, address="host.1", depth=1, budget=Budget(tokens=505))
    wanted = resolve(STATE, [RECORD, child], wish("plain"))
    assert isinstance(wanted, Wanted)
    denial = why_denied(STATE, [RECORD, child], wanted)
    assert denial is not None
    assert (denial.kind, denial.scope) == ("budget", 1)


@table(
    ("limits", "fields", "detail"),
    [
        (Limits(max_depth=1), {}, "agents may nest 1 deep, and this one is at that depth"),
        (Limits(max_depth=2), {}, ""),
        (Limits(max_agents=3), {}, "at most 3 agents in one session"),
        (Limits(max_agents=4), {}, ""),
        (
            Limits(max_children=5),
            {"turn_children": 5},
            "at most 5 delegations in one turn, racers counted singly",
        ),
        (
            Limits(max_children=5),
            {"turn_children": 5, "background": 1},
            "at most 5 delegations in one turn, racers counted singly, with those in the background",
        ),
        (Limits(max_children=5), {"turn_children": 4}, ""),
    ],
)
def test_a_delegation_is_bounded_by_the_limits_of_its_own_parent(
    limits: Limits, fields: dict[str, int], detail: str
) -> None:
    parent = replace(RECORD, address="host.1", depth=1, limits=fill(limits), **fields)
    state, ancestry = replace(STATE, agents=3), [RECORD, parent]
    wanted = resolve(state, ancestry, wish("plain"))
    found = wanted if isinstance(wanted, Denial) else why_denied(state, ancestry, wanted)
    assert found == (Denial("denied", detail) if detail else None)


def test_a_question_whose_profile_is_nested_too_deep_is_denied() -> None:
    deep = Json(b'{"name":"q","schema":' + b"[" * 100_000)
    found = refusal(wish("q", implicit=deep))
    assert found == Denial("denied", "the profile of the implicit agent cannot be read")


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, ""),
        (1, "; there are: a0"),
        (20, f"; there are: {', '.join(f'a{at}' for at in range(20))}"),
        (22, f"; there are: {', '.join(f'a{at}' for at in range(20))} and 2 more"),
    ],
)
def test_the_error_for_an_unknown_agent_names_at_most_twenty(count: int, told: str) -> None:
    people = (*(Profile(f"a{at}") for at in range(count)), Profile("tool", input_schema=FIELDS))
    state = SupervisorState(profiles={one.name: (one, NULL) for one in people}, rules=NAMED_SINCE)
    parent = replace(RECORD, profile=Profile("host", agents=tuple(one.name for one in people)))
    denial = Denial("denied", f"there is no agent 'x' to delegate to{told}")
    assert refusal(wish("x"), parent, state) == denial


UNPRICED = "a cost limit applies and the prices of m are not known"
ONLY_M = (Layer("s", Rights(Allowed(models=("m",)))),)


@table(
    ("kid", "fields", "limits", "detail"),
    [
        (Profile("kid"), {}, Limits(), ""),
        (
            Profile("kid"),
            {"budget": Budget(None, 5)},
            Limits(),
            "a cost limit applies and the prices of m are not known",
        ),
        (Profile("kid"), {"model": FREE, "budget": Budget(None, 5)}, Limits(), ""),
        (Profile("kid"), {}, Limits(cost_usd=1), UNPRICED),
        (
            Profile("kid", limits=Limits(cost_usd=1)),
            {},
            Limits(),
            "a cost limit applies and the prices of m are not known",
        ),
        (Profile("kid", model=ModelSpec("z")), {"handed": ONLY_M}, Limits(), "model 'z' is denied by s"),
        (Profile("kid"), {"handed": ONLY_M}, Limits(), ""),
    ],
)
def test_a_child_may_use_its_model_and_pay_for_it_also_when_it_begins_later(
    kid: Profile, fields: dict[str, Any], limits: Limits, detail: str
) -> None:
    """Put the agent below a host with a free model and without a budget, a layer or a limit."""
    host = replace(RECORD, model=FREE)
    parent = replace(RECORD, address="host.1", depth=1, profile=Profile("p", agents=("kid",)), **fields)
    state = SupervisorState(profiles={"kid": (kid, NULL)}, rules=CHECKED_AGAIN_SINCE)
    request = replace(wish("kid"), limits=limits)
    denial = Denial("denied", detail) if detail else None
    wanted = resolve(state, [host, parent], request)
    assert isinstance(wanted, Wanted)
    assert why_denied(state, [host, parent], wanted) == denial
    waiting = Delegation(1, 1, 0, (1,), request=request)
    assert resolve_again(state, [host, parent], waiting) == (denial or ((kid, NULL),))
