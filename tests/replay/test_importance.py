"""A long list of events is cut, but not where a person has to look."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Finished, Told, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ModelReplied,
    SchemaChecked,
    ToolReturned,
)
from callboard.replay.importance import essential, is_bookkeeping, is_failure, matters

EMPTY = Json(b"{}")
PLAIN = (CallTool(1, 0, "look", "read", EMPTY), ToolReturned(1, 0, "ok", EMPTY), Finished("answered"))
SILENT = (CallModel("host", 1), TurnRequested(1), SchemaChecked(1, "ok"))
LOUD = (
    ToolReturned(1, 0, "error", EMPTY),
    ModelReplied(1, 1, "error", EMPTY),
    ModelReplied(1, content=EMPTY, model="small"),
    TurnRequested(1, attempt=2),
    TurnRequested(1, model="small"),
    SchemaChecked(1, "invalid"),
    ApprovalGiven(1, 0, "denied"),
    ApprovalGiven(1, 0, "approved", arguments=EMPTY),
    Tell("r", "host", "Wait!"),
    Told(1, "Wait!"),
    Finished("budget"),
)


def event(seq: int, body: AnyMessage) -> Event:
    return Event(seq, 0, "host", "supervisor", 0, body)


@pytest.mark.parametrize("body", LOUD)
def test_failures_retries_other_models_and_messages_matter(body: AnyMessage) -> None:
    assert matters(event(1, body))
    assert not is_bookkeeping(event(1, body))


def test_grants_and_checks_are_bookkeeping_and_the_rest_is_not() -> None:
    assert all(is_bookkeeping(event(1, body)) and not matters(event(1, body)) for body in SILENT)
    assert not any(is_bookkeeping(event(1, body)) or matters(event(1, body)) for body in PLAIN)
    assert [is_failure(event(1, body)) for body in LOUD].count(True) == 5


@given(st.lists(st.sampled_from([*PLAIN, *SILENT, *LOUD])), st.integers(2, 12))
def test_a_cut_list_keeps_order_ends_and_all_that_matters(bodies: list[AnyMessage], most: int) -> None:
    events = [event(seq, body) for seq, body in enumerate(bodies, 1)]
    found = essential(events, most)
    assert [one.seq for one in found] == sorted({one.seq for one in found})
    assert {one.seq for one in events if matters(one)} <= {one.seq for one in found}
    assert found[:1] == events[:1]
    assert found[-1:] == events[-1:]
    assert len(found) <= max(most, sum(map(matters, events)) + 2)
    if len(events) > most and any(is_bookkeeping(one) for one in found[1:-1]):
        raise AssertionError("bookkeeping goes first")
