"""Checkpoints: places of a log that tools have named."""

import pytest

from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.checkpoints import checkpoint_named, checkpoints_of


def returned(seq: int, *names: str, status: str = "ok") -> Event:
    body = ToolReturned(1, 0, status, checkpoints=names)  # type: ignore[arg-type]  # a status
    return Event(seq, 0, "tools", "host", 0, body)


EVENTS = [returned(3, "a", "b"), returned(5, "b"), returned(7, "c", status="error")]


def test_the_last_place_of_a_name_counts_and_only_that_of_a_good_result() -> None:
    assert checkpoints_of(EVENTS) == {"a": 3, "b": 5}
    assert [checkpoint_named("s", EVENTS, name) for name in "ab"] == [3, 5]


@pytest.mark.parametrize(("events", "known"), [(EVENTS, "a, b$"), ([], "none; a tool makes one by")])
def test_an_unknown_name_is_refused_with_those_that_there_are(events: list[Event], known: str) -> None:
    with pytest.raises(UnknownName, match=f"session s has no checkpoint 'c'; there are: {known}"):
        checkpoint_named("s", events, "c")
