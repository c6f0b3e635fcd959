"""What an item looks like: typed, immutable, encoded once, one line of JSON."""

import json
from dataclasses import FrozenInstanceError, fields
from types import SimpleNamespace
from typing import Any, cast

import pytest

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, ModelReplied
from callboard.actors.protocol.usage import ZERO
from callboard.runtime.sessions.snapshots import AgentView, AskView
from callboard.runtime.sessions.stream_items import (
    AnyStreamItem,
    Snapshot,
    StreamCut,
    StreamEvent,
    TextDelta,
    TextReset,
    ToolProgress,
    durable_items,
    snapshot_of,
)
from tests.tables import table

EVENT = Event(7, 1_000, "client", "supervisor", 0, Ask("r", Json(b'"hi"')))
AGENT = AgentView("host", "", "host", "hi", "thinking", "running", "", 1, 0, ZERO, 5, 0)
ITEMS: list[tuple[AnyStreamItem, str, int | None]] = [
    (Snapshot("s", 7, (AGENT,), (AskView(1, "r", "hi"),)), "snapshot", 7),
    (Snapshot("s", 0), "snapshot", 0),
    (StreamEvent(EVENT), "event", 7),
    (TextDelta("host.1", 2, 1, 5, "words\n\r\u2028🙂"), "text", None),
    (TextReset("host.1", 2, 1), "reset", None),
    (ToolProgress("host", 1, 0, "half"), "progress", None),
    (StreamCut(7), "cut", None),
    (StreamCut(None), "cut", None),
]


def parsed(frame: bytes) -> dict[str, str]:
    """Read a server-sent event as a browser does."""
    assert frame.endswith(b"\n\n")
    lines = frame.decode().removesuffix("\n\n").split("\n")
    assert "\r" not in frame.decode()
    return dict(line.split(": ", 1) for line in lines)  # a second data line would be lost here


@table(("item", "kind", "id"), ITEMS)
def test_an_item_is_a_server_sent_event_whose_id_is_its_seq_if_it_is_durable(
    item: AnyStreamItem, kind: str, id: int | None
) -> None:
    found = parsed(item.to_sse())
    assert item.kind == found["event"] == kind
    assert item.id == id
    assert found.get("id") == (None if id is None else str(id))
    assert json.loads(found["data"]) == item.to_dict() == json.loads(item.to_json())
    assert not item.to_dict().get("is_closed")


@table(("item", "kind", "id"), ITEMS)
def test_an_item_cannot_be_changed_and_its_encoding_changes_nothing(
    item: AnyStreamItem, kind: str, id: int | None
) -> None:
    before = repr(item)
    assert item.to_sse() is item.to_sse()
    assert repr(item) == before
    for one in fields(item):
        with pytest.raises(FrozenInstanceError):
            setattr(item, one.name, 0)


def test_an_event_shows_its_envelope_and_its_body() -> None:
    assert StreamEvent(EVENT).to_dict() == {
        "seq": 7,
        "at": 1_000,
        "sender": "client",
        "recipient": "supervisor",
        "cause": 0,
        "kind": "Ask",
        "body": {"type": "Ask", "request_id": "r", "prompt": "hi"},
    }


def test_the_content_of_an_item_is_its_fields() -> None:
    reset = TextReset("host", turn=1, attempt=2)
    assert reset.to_dict() == {"address": "host", "turn": 1, "attempt": 2}


def test_foreign_json_with_line_breaks_stays_on_one_line() -> None:
    arguments = Json(b'{\n  "path":\r\n "a\\nb"}')
    item = StreamEvent(Event(1, 0, "host", "tools", 0, CallTool(1, 0, "read", "read", arguments)))
    body = json.loads(parsed(item.to_sse())["data"])["body"]
    assert body["arguments"] == {"path": "a\nb"}


@pytest.mark.parametrize("status", ["error", "cancelled", "lost"])
def test_every_reply_that_is_none_has_a_reset(status: str) -> None:
    body = ModelReplied(3, 2, status)  # type: ignore[arg-type]  # a status
    event = Event(9, 0, "model", "host.1", 8, body)
    assert durable_items(event) == (TextReset("host.1", 3, 2), StreamEvent(event))


def test_a_snapshot_has_all_parts_of_its_builder() -> None:
    builder = cast("Any", SimpleNamespace(seq=7, is_closed=True))
    for part in ("agents", "asks", "approvals"):
        setattr(builder, part, lambda part=part: (part,))
    made = snapshot_of("s", builder)
    assert (made.session_id, made.seq) == ("s", 7)
    parts: tuple[object, ...] = (made.agents, made.asks, made.approvals, made.is_closed)
    assert parts == (("agents",), ("asks",), ("approvals",), True)


def test_a_good_reply_and_other_events_have_no_reset() -> None:
    for event in (Event(9, 0, "model", "host.1", 8, ModelReplied(3, 2)), EVENT):
        assert durable_items(event) == (StreamEvent(event),)
