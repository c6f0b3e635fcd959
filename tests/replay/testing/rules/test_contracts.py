"""The rules of contracts and of metadata hold of good sessions, and fire on damaged logs."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import CallMetadata
from callboard.replay.testing.rules.contracts import Contracts, Folded
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scenarios_contracts import inputs
from tests.replay.testing.edited_logs import Log, Which, edited, find, of_kind

LOG = list(SessionWorld(inputs()).run().log)


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


@pytest.mark.parametrize("name", DAMAGED)
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


@pytest.mark.parametrize("agent", ["finder", "made", "plain"])
@pytest.mark.parametrize(
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
