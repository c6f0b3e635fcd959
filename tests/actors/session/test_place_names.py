"""The names of places: printed and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import TellEnded
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, DelegationEnded, Stopped, Told
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from callboard.actors.session.place_names import (
    call_name,
    call_named,
    call_of,
    checkpoint_named,
    checkpoints_of,
    few_named,
    moment_name,
    named,
    seq_of,
)
from callboard.actors.session.recorded_answers import OF_MODEL
from tests.tables import table

CALL = CallTool(2, 1, "look", "read", Json(b"{}"))
RESULT = ToolReturned(2, 1, "ok", Json(b'"3"'))


def events(*posts: tuple[str, str, AnyMessage]) -> list[Event]:
    return [Event(seq, 0, *post[:2], 0, post[2]) for seq, post in enumerate(posts, 1)]


@given(
    st.sampled_from(["host", "host.1", "host.12.3"]),
    st.integers(1, 10**6),
    st.integers(0, 99) | st.just(OF_MODEL),
)
def test_a_name_that_is_printed_is_read_back(agent: str, turn: int, call: int) -> None:
    assert call_named(named((agent, turn, call))) == (agent, turn, call)


@table("text", ["", "host", "host:", ":1", "x:1", "host:1:2:3", "host:x", "host:-1", "host:²", "7"])
def test_another_text_names_no_call(text: str) -> None:
    assert call_named(text) is None


def test_the_events_of_a_call_and_of_a_turn_have_its_name() -> None:
    found = events(
        ("host.1", "tools", CALL),
        ("tools", "host.1", RESULT),
        ("model", "host.1", ModelReplied(2, content=Json(b"[]"))),
        ("supervisor", "host", DelegationEnded(1, 0, "answered")),
        ("supervisor", "client", TellEnded("r", "heard", 2)),
        ("supervisor", "host", Told(1, "Hurry")),
    )
    assert list(map(call_name, found)) == ["host.1:2:1", "host.1:2:1", "host.1:2", "host:1:0", "", ""]


def test_a_call_is_its_answer_and_without_one_its_request() -> None:
    both = events(("host", "tools", CALL), ("tools", "host", RESULT), ("host", "tools", CALL))
    assert seq_of(both, ("host", 2, 1)) == 2
    assert seq_of(both[:1], ("host", 2, 1)) == 1
    assert seq_of(both, ("host", 2, 0)) == 0
    failed = ModelReplied(2, 1, "error", Json(b"[]"))
    tries = events(
        *[("model", "host", one) for one in (failed, ModelReplied(2, content=Json(b"[]")), failed)]
    )
    assert seq_of(tries, ("host", 2, OF_MODEL)) == 2
    assert call_of(tries[0]) == ("host", 2, OF_MODEL)


def test_a_list_of_calls_begins_with_those_of_the_agent_that_was_meant() -> None:
    calls = [("host", turn, 0) for turn in range(20)] + [("host.8", 3, 0)]
    assert few_named(calls, "host.8").startswith("host.8:3:0, host:0:0, ")
    assert few_named(calls).endswith("host:11:0, ...")
    assert few_named([]) == "none"


def test_a_moment_is_named_by_its_call_or_by_its_agent() -> None:
    for sender, recipient, body, name in (
        ("host.1", "tools", CALL, "CallTool host.1:2:1"),
        ("tools", "host.1", RESULT, "ToolReturned host.1:2:1"),
        ("supervisor", "host.1", Told(1, "hurry"), "Told host.1"),
        ("host.1", "supervisor", Stopped(), "Stopped host.1"),
    ):
        assert moment_name(Event(1, 0, sender, recipient, 0, body)) == name


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
