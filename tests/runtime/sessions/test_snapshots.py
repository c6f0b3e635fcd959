"""The snapshot of a session, built event by event."""

from callboard import Agent, Runtime, ScriptedModel, call, fail, say
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
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import Step
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
    assert built(("model", "host", reply("before any ask"))).asks() == ()


def test_agents_are_shown_with_their_work_parents_first_and_an_ask_with_its_use() -> None:
    def policy(request: ModelRequest) -> Step:
        if request.profile == "kid":
            return (
                fail("permission_error", "not today", is_retryable=False) if request.turn == 1 else say("x")
            )
        return call("task", agent="kid", prompt="Help me.") if request.turn == 1 else say("done")

    log = MemoryLog()
    runtime = Runtime(log, model=ScriptedModel(policy))
    outcome = runtime.run_sync(Agent("host", agents=[Agent("kid")]), "Go.", session_id="s")
    found, empty = SnapshotBuilder(), SnapshotBuilder()
    assert (empty.seq, empty.agents(), empty.asks()) == (0, (), ())
    events = Recording.open(MemoryReader(log), "s").events
    for event in events:
        found.add(event)
    host, kid = found.agents()
    assert (host.address, host.parent, host.profile, host.prompt) == ("host", "", "host", "Go.")
    assert (host.state, host.status, host.detail, host.turns, host.tools) == ("answered", "ok", "", 2, 0)
    assert (kid.address, kid.parent, kid.profile, kid.prompt) == ("host.1", "host", "kid", "Help me.")
    assert (kid.state, kid.status, kid.turns, kid.tools) == ("model_error", "failed", 1, 0)
    assert "not today" in kid.detail
    assert host.usage.calls == 2
    assert host.started_at <= kid.started_at <= kid.ended_at <= host.ended_at
    assert host.started_at >= events[0].at > 0
    (ask,) = found.asks()
    assert (ask.usage, ask.detail) == (outcome.usage, outcome.detail)


def test_the_reason_of_an_end_is_shown() -> None:
    found = built(ASK, ("supervisor", "client", AskEnded("r", "failed", detail="no disk", usage=Usage(7))))
    (ask,) = found.asks()
    assert (ask.kind, ask.detail, ask.usage) == ("failed", "no disk", Usage(7))


def test_a_reply_that_nests_too_deep_has_no_text() -> None:
    deep = b'[{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}]"
    assert text_of_reply(Json(deep)) is None
