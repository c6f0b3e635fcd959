"""The rules of contracts and of metadata hold of good sessions, and fire on damaged logs."""

from collections.abc import Callable
from typing import Final

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.conversation import joined, text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.makers import NO_ORIGINS
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import CallMetadata
from callboard.replay.testing.rules.beginnings import Contracts, Folded, context_in_message
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.requests import check_requests, requests_of
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.agent.test_request_prefix import with_context
from tests.mutants.scenarios_contracts import inputs
from tests.mutants.scenarios_state import contexts, handed_histories
from tests.replay.testing.edited_logs import Log, Which, edited, find, of_kind
from tests.tables import table

LOG = list(SessionWorld(inputs()).run().log)
PROMPTS_LOG: Final = SessionWorld(contexts()).run().log
"""A session in which `host.1` has its context in the system prompt, and `host.3` before its prompt."""


def to(agent: str) -> Which:
    """Return a test for the first delegation to an agent with a contract."""
    place = find(LOG, lambda one: isinstance(one.body, Delegate) and one.body.profiles == (agent,)).seq
    return lambda event: event.seq == place


def input_check(event: Event) -> bool:
    return isinstance(event.body, CheckSchema) and event.body.task == "input"


FIRST_CHECK = find(LOG, input_check)


def its_verdict(event: Event) -> bool:
    check = FIRST_CHECK.body
    assert isinstance(check, CheckSchema)
    return isinstance(event.body, SchemaChecked) and event.body.check == check.check


def end_of(which: Which) -> Which:
    """Return a test for the end of a delegation."""
    delegate = find(LOG, which)
    assert isinstance(delegate.body, Delegate)
    call = delegate.sender, delegate.body.turn, delegate.body.call

    def fits(event: Event) -> bool:
        body = event.body
        return isinstance(body, DelegationEnded) and (event.recipient, body.turn, body.call) == call

    return fits


def beginning() -> Which:
    """Return a test for the Begin of the first agent with a contract."""
    end = find(LOG, end_of(to("finder"))).body
    assert isinstance(end, DelegationEnded)
    return of_kind(Begin, end.address)


def _broken(profile: Json) -> Json:
    return Json(bytes(profile).replace(b'"name":"finder"', b'"name":"finder","unavailable":"broken"'))


def as_unavailable() -> Log:
    """Say in the first event that the finder, which begins, is broken."""
    opened = LOG[0].body
    assert isinstance(opened, SessionOpened)
    profiles = tuple(map(_broken, opened.profiles))
    log = edited(LOG, lambda event: event.seq == 1, profiles=profiles)
    begin = find(log, beginning()).body
    assert isinstance(begin, Begin)
    profile = Json(
        bytes(begin.profile).replace(b'"name":"finder"', b'"name":"finder","unavailable":"broken"')
    )
    return edited(log, beginning(), profile=profile)


DAMAGED: dict[str, tuple[Callable[[], Log], str]] = {
    "another prompt": (
        lambda: edited(LOG, to("finder"), prompt=text_json('{"tenant": "acme", "query": "other"}')),
        "is told something else than its input",
    ),
    "an overridden preset": (
        lambda: edited(LOG, to("finder"), prompt=text_json('{"tenant": "evil", "query": "a"}')),
        "is told something else than its input",
    ),
    "another value checked": (
        lambda: edited(LOG, lambda event: event.seq == FIRST_CHECK.seq, value=Json(b'{"query":"no"}')),
        "an input is checked that no call has",
    ),
    "another contract checked": (
        lambda: edited(LOG, lambda event: event.seq == FIRST_CHECK.seq, schema=Json(b"true")),
        "an input is checked that no call has, or against another contract",
    ),
    "a refused input": (
        lambda: edited(LOG, its_verdict, status="invalid"),
        "begins with an input that its contract did not accept",
    ),
    "no input": (
        lambda: edited(LOG, to("finder"), input=NULL),
        "begins with an input of the wrong form",
    ),
    "hidden fields told": (
        lambda: edited(LOG, of_kind(Begin, "host"), callees=(Callee("finder", Json(b"{}")),)),
        "is told of other contracts than those of its agents",
    ),
    "a broken agent begins": (as_unavailable, "begins, and it is unavailable: broken"),
}


@table("name", DAMAGED)
def test_a_log_that_breaks_the_rule_of_contracts_is_found(name: str) -> None:
    damaged, why = DAMAGED[name]
    found = check_log(damaged(), kinds=(Contracts,))
    assert any(why in str(one) for one in found), found


@pytest.mark.parametrize("kind", ["unavailable", "answered"])
def test_a_wrong_input_that_ends_as_anything_but_a_denial_is_found(kind: str) -> None:
    wrong = find(LOG, lambda one: isinstance(one.body, DelegationEnded) and bool(one.body.problems))
    log = edited(LOG, lambda event: event.seq == wrong.seq, kind=kind)
    found = check_log(log, kinds=(Contracts,))
    assert any(f"an input that is invalid ends the call as {kind}" in str(one) for one in found)


def metadata(which: Which) -> CallMetadata:
    end = find(LOG, which).body
    assert isinstance(end, DelegationEnded)
    assert end.metadata is not None
    return end.metadata


@table("agent", ["finder", "made", "plain"])
@table(
    ("field", "wrong"),
    [("subagent", "x"), ("supervisor", "x"), ("response", "invalid_input"), ("delegation_context", "x")],
)
def test_each_wrong_field_of_the_metadata_is_found(agent: str, field: str, wrong: str) -> None:
    which = end_of(to(agent))
    log = edited(LOG, which, metadata=replace(metadata(which), **{field: wrong}))
    (found,) = check_log(log, kinds=(Folded,))
    assert (found.name, found.seq) == ("folded", find(LOG, which).seq)


@pytest.mark.parametrize("agent", ["finder", "made", "plain"])
def test_an_end_without_metadata_is_found(agent: str) -> None:
    which = end_of(to(agent))
    assert [one.name for one in check_log(edited(LOG, which, metadata=None), kinds=(Folded,))] == ["folded"]


def test_the_session_itself_breaks_no_rule() -> None:
    assert check_log(LOG, is_at_rest=True) == []
    assert sum(map(input_check, LOG)) > 3


def context_of(address: str) -> Json:
    begin = next(one.body for one in PROMPTS_LOG if one.recipient == address and one.kind == "Begin")
    assert isinstance(begin, Begin)
    assert begin.context != NULL
    return begin.context


def system_of(address: str) -> Json:
    return next(asked.system for asked in requests_of(PROMPTS_LOG).values() if asked.address == address)


def broken(address: str, system: Json) -> set[str]:
    """Return the rules that an agent's first request breaks with this system prompt."""
    requests = requests_of(PROMPTS_LOG)
    seq = min(seq for seq, asked in requests.items() if asked.address == address)
    requests[seq].system = system
    return {one.name for one in check_requests(PROMPTS_LOG[:seq], requests)}


def test_a_context_is_read_at_one_place_only() -> None:
    right, context = system_of("host.1"), context_of("host.1")
    assert broken("host.1", right) == set()
    bare = Json(b'"You are lead."')
    for wrong in (bare, context, joined(context, right), joined(right, right)):
        assert broken("host.1", wrong) - {"bound"} == {"system"}


def test_a_context_of_a_message_is_not_in_the_system_prompt() -> None:
    assert broken("host.3", system_of("host.3")) == set()
    assert broken("host.3", joined(system_of("host.3"), context_of("host.3"))) == {"bound", "system"}


def test_the_place_of_a_context_is_that_of_the_profile() -> None:
    assert context_in_message(with_context("message", b'"known"')) == Json(b'"known"')
    assert context_in_message(with_context("system", b'"known"')) == NULL


def test_a_need_that_lacks_the_context_is_found() -> None:
    wished = next(
        one for one in PROMPTS_LOG if one.sender == "host.1" and isinstance(one.body, TurnRequested)
    )
    assert isinstance(wished.body, TurnRequested)
    need = replace(wished.body.need, tokens=wished.body.need.tokens - 1)
    log = [*PROMPTS_LOG]
    log[wished.seq - 1] = replace(wished, body=replace(wished.body, need=need))
    assert {one.name for one in check_requests(log)} == {"bound"}


def handed_log() -> list[Event]:
    """Return the log of a session in which `host.1` is handed the host's conversation."""
    return SessionWorld(handed_histories()).run().log


def test_a_handed_message_that_lost_its_maker_is_found() -> None:
    log = handed_log()
    requests = requests_of(log)
    seq = min(seq for seq, asked in requests.items() if asked.address == "host.1")
    assert check_requests(log, requests) == []
    requests[seq].origins = NO_ORIGINS
    assert {one.name for one in check_requests(log[:seq], requests)} == {"makers"}


def test_a_history_that_is_broken_or_another_than_was_made_is_found() -> None:
    log = handed_log()
    place, event = next(
        (at, one) for at, one in enumerate(log) if one.recipient == "host.1" and one.kind == "Begin"
    )
    assert isinstance(event.body, Begin)
    assert len(event.body.history) > 2
    for history, makers in ((event.body.history[:-1], event.body.makers), (event.body.history, ())):
        changed = replace(event, body=replace(event.body, history=history, makers=makers))
        found = check_log([*log[:place], changed])
        assert {one.name for one in found} == {"contexts"}
