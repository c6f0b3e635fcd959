"""An event is a message in an envelope; neither can change."""

import pytest

from callboard.actors.protocol.client_messages import Cancel, Resumed, SessionClosed
from callboard.actors.protocol.events import Event, Post, is_closed_after
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import SchemaChecked
from tests.tables import table


def test_an_event_knows_its_kind_from_its_body() -> None:
    assert Event(1, 0, "client", "supervisor", 0, Cancel()).kind == "Cancel"


def test_an_envelope_cannot_be_changed() -> None:
    event = Event(1, 0, "client", "supervisor", 0, Cancel())
    with pytest.raises(AttributeError):
        event.seq = 2  # type: ignore[misc]  # the subject of this test
    with pytest.raises(AttributeError):
        Post("host", Cancel()).recipient = "x"  # type: ignore[misc]  # the subject of this test


@table(
    ("body", "before", "after"),
    [
        (SessionClosed(), False, True),
        (SchemaChecked(1, "ok"), True, True),
        (SchemaChecked(1, "ok"), False, False),
        (Resumed(1), True, True),
        (Resumed(1, reopens=True), True, False),
    ],
)
def test_a_session_is_closed_from_its_end_to_its_reopening(
    body: AnyMessage, before: bool, after: bool
) -> None:
    assert is_closed_after(body, was_closed=before) is after
