"""An event is a message in an envelope; neither can change."""

import pytest

from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import Cancel


def test_an_event_knows_its_kind_from_its_body() -> None:
    assert Event(1, 0, "client", "supervisor", 0, Cancel()).kind == "Cancel"


def test_an_envelope_cannot_be_changed() -> None:
    event = Event(1, 0, "client", "supervisor", 0, Cancel())
    with pytest.raises(AttributeError):
        event.seq = 2  # type: ignore[misc]  # the subject of this test
    with pytest.raises(AttributeError):
        Post("host", Cancel()).recipient = "x"  # type: ignore[misc]  # the subject of this test
