"""The snapshot of a session, built event by event."""

from callboard.actors.protocol.client_messages import Ask, AskEnded, Resumed, SessionClosed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    ModelReplied,
    RequestApproval,
    SchemaChecked,
)
from callboard.runtime.sessions.snapshots import ApprovalView, SnapshotBuilder, text_of_reply


def built(*bodies: tuple[str, str, AnyMessage]) -> SnapshotBuilder:
    found = SnapshotBuilder()
    for seq, (sender, recipient, body) in enumerate(bodies, 1):
        found.add(Event(seq, 0, sender, recipient, 0, body))
    return found


def reply(text: str, turn: int = 1) -> ModelReplied:
    return ModelReplied(turn, 1, "ok", Json(b'[{"type":"text","text":"%b"}]' % text.encode()))


ASK = ("client", "supervisor", Ask("r", Json(b'"hi"')))


def test_an_ask_has_the_replies_of_the_host_and_its_outcome() -> None:
    found = built(
        ASK,
        ("model", "host", reply("one")),
        ("model", "host.1", reply("of a child")),
        ("model", "host", ModelReplied(2, 1, "error")),
        ("model", "host", reply("", 2)),
        ("model", "host", reply("two", 3)),
    )
    (ask,) = found.asks()
    assert (ask.seq, ask.request_id, ask.prompt, ask.kind) == (1, "r", "hi", "")
    assert [(one.seq, one.turn, one.text) for one in ask.replies] == [(2, 1, "one"), (6, 3, "two")]
    found.add(Event(7, 0, "supervisor", "client", 0, AskEnded("r", "reported", Json(b'{"n":1}'), "two")))
    (ask,) = found.asks()
    assert (ask.kind, ask.text, ask.structured_output) == ("reported", "two", {"n": 1})
    assert len(ask.replies) == 2
    assert not found.is_closed
    found.add(Event(8, 0, "supervisor", "client", 0, SessionClosed()))
    assert (found.is_closed, found.seq) == (True, 8)
    found.add(Event(9, 0, "schema", "supervisor", 4, SchemaChecked(1, "ok")))  # it comes late
    assert found.is_closed
    found.add(Event(10, 0, "client", "supervisor", 0, Resumed(1, reopens=True)))
    assert not found.is_closed


def test_an_approval_is_open_until_it_is_answered() -> None:
    request = RequestApproval(1, 0, "pay", "write", Json(b'{"euros":5}'))
    other = RequestApproval(1, 1, "pay", "write", Json(b"[]"), is_repeat=True)
    found = built(ASK, ("host.1", "approvals", request), ("host.1", "approvals", other))
    assert found.approvals() == (
        ApprovalView(2, "host.1", "pay", "write", {"euros": 5}, False),
        ApprovalView(3, "host.1", "pay", "write", [], True),
    )
    found.add(Event(4, 0, "approvals", "host.1", 2, ApprovalGiven(1, 0, "denied")))
    assert [one.seq for one in found.approvals()] == [3]


def test_unreadable_content_of_a_reply_has_no_text() -> None:
    assert text_of_reply(Json(b"3")) is None
    assert text_of_reply(Json(b'[{"type":"text","text":7},{"type":"text","text":"ab"}]')) == "ab"
    found = built(ASK, ("model", "host", ModelReplied(1, 1, "ok", Json(b'"odd"'))))
    assert found.asks()[0].replies == ()
