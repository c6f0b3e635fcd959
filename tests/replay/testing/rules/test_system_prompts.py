"""The rule of system prompts finds a context that stands elsewhere."""

from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.conversation import joined
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.makers import NO_ORIGINS
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.requests import check_requests, requests_of
from callboard.replay.testing.rules.system_prompts import context_in_message
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.agent.test_request_prefix import with_context
from tests.mutants.scenarios_state import contexts, handed_histories

LOG: Final = SessionWorld(contexts()).run().log
"""A session in which `host.1` has its context in the system prompt, and `host.3` before its prompt."""


def context_of(address: str) -> Json:
    begin = next(one.body for one in LOG if one.recipient == address and one.kind == "Begin")
    assert isinstance(begin, Begin)
    assert begin.context != NULL
    return begin.context


def system_of(address: str) -> Json:
    return next(asked.system for asked in requests_of(LOG).values() if asked.address == address)


def broken(address: str, system: Json) -> set[str]:
    """Return the rules that an agent's first request breaks with this system prompt."""
    requests = requests_of(LOG)
    seq = min(seq for seq, asked in requests.items() if asked.address == address)
    requests[seq].system = system
    return {one.name for one in check_requests(LOG[:seq], requests)}


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
    wished = next(one for one in LOG if one.sender == "host.1" and isinstance(one.body, TurnRequested))
    assert isinstance(wished.body, TurnRequested)
    need = replace(wished.body.need, tokens=wished.body.need.tokens - 1)
    log = [*LOG]
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
