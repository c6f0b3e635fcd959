"""Server-sent events, split where they end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.models.layered.dialects import Split, data_of, event_of, value_of

EVENTS = [
    b"data: 1\n\n",
    b": comment\r\nevent: a\r\ndata:2\r\n\r\n",
    b"\n",
    b"data: 3\ndata: 4\n\n",
    b"data: 5\n",
]


@given(cuts=st.lists(st.integers(0, sum(map(len, EVENTS))), max_size=8).map(sorted))
def test_a_stream_is_split_into_its_events_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    data = b"".join(EVENTS)
    split = Split()
    found = []
    for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True):
        found += list(split.take(data[a:b]))
    assert [*found, split.end()] == EVENTS
    assert split.end() == b""


@pytest.mark.parametrize(
    ("event", "data"),
    [(b"data: [DONE]\n\n", b"[DONE]"), (EVENTS[1], b"2"), (EVENTS[3], b"3\n4"), (b": alive\n\n", b"")],
)
def test_the_data_of_an_event_are_those_of_its_lines(event: bytes, data: bytes) -> None:
    assert data_of(event) == data


def test_a_value_with_half_a_character_is_written_and_read() -> None:
    assert value_of(event_of({"a": "\ud83d"})) == {"a": "\ud83d"}
