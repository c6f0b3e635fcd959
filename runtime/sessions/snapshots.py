"""Snapshots of a session, built event by event."""

from dataclasses import dataclass, replace
from typing import Final, Literal

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Event, Takers, is_closed_after
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ApprovalGiven, ModelReplied, RequestApproval
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.log.tree import Node, Tree


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent of a snapshot.

    parent: its address, empty for the host. prompt: the start of it. state: its activity, or its ending.
    status: running, ok, failed or cancelled. usage: its own alone.
    """

    address: str
    parent: str
    profile: str
    prompt: str
    state: str
    status: str
    detail: str
    turns: int
    tools: int
    usage: Usage
    started_at: int
    ended_at: int


@dataclass(frozen=True, slots=True)
class ReplyView:
    """One reply of the host within an ask: its text, and the seq of that event."""

    seq: int
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class AskView:
    """One ask of a snapshot: a prompt, the host's replies to it, and the outcome.

    seq: of the ask. kind: of the end; empty while it runs. text, structured_output, detail, usage: those of
    the outcome.
    """

    seq: int
    request_id: str
    prompt: object
    replies: tuple[ReplyView, ...] = ()
    kind: OutcomeKind | Literal[""] = ""
    text: str = ""
    structured_output: object = None
    detail: str = ""
    usage: Usage = ZERO


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """A call that waits for a person. seq: of the request, as in `Approval.seq`.

    forms: of the input that the call asks for, by name; None for any other call.
    """

    seq: int
    address: str
    tool: str
    effect: Effect
    arguments: object
    is_repeat: bool
    forms: object = None


class SnapshotBuilder:
    """A session up to an event. seq: of the last event that was added."""

    def __init__(self) -> None:
        self.seq = 0
        self.is_closed = False
        self._tree = Tree()
        self._asks: dict[str, AskView] = {}
        self._replies: dict[str, list[ReplyView]] = {}
        self._latest = ""
        self._approvals: dict[tuple[str, int, int], ApprovalView] = {}

    def add(self, event: Event) -> None:
        """Add the next event."""
        self.seq = event.seq
        self._tree.add(event)
        self.is_closed = is_closed_after(event.body, was_closed=self.is_closed)
        if handler := _HANDLERS.get(type(event.body)):
            handler(self, event, event.body)

    def _ask(self, event: Event, body: Ask) -> None:
        self._latest = body.request_id
        self._replies[self._latest] = []
        self._asks[self._latest] = AskView(event.seq, body.request_id, _value(body.prompt))

    def _reply(self, event: Event, body: ModelReplied) -> None:
        is_shown = event.recipient == HOST and body.status == "ok" and bool(self._latest)
        if is_shown and (text := text_of_reply(body.content)):
            self._replies[self._latest].append(ReplyView(event.seq, body.turn, text))

    def _approval(self, event: Event, body: RequestApproval) -> None:
        self._approvals[event.sender, body.turn, body.call] = ApprovalView(
            event.seq,
            event.sender,
            body.tool,
            body.effect,
            _value(body.arguments),
            body.is_repeat,
            _value(body.form),
        )

    def _approved(self, event: Event, body: ApprovalGiven) -> None:
        self._approvals.pop((event.recipient, body.turn, body.call), None)

    def _end(self, event: Event, body: AskEnded) -> None:
        self._asks[body.request_id] = replace(
            self._asks[body.request_id],
            kind=body.kind,
            text=body.text,
            structured_output=_value(body.value),
            detail=body.detail,
            usage=body.usage,
        )

    def agents(self) -> tuple[AgentView, ...]:
        """Return the agents: parents before their children."""
        return tuple(_agent(node) for _, node in self._tree.walk())

    def asks(self) -> tuple[AskView, ...]:
        """Return the asks in their order."""
        return tuple(replace(one, replies=tuple(self._replies[name])) for name, one in self._asks.items())

    def approvals(self) -> tuple[ApprovalView, ...]:
        """Return the calls that wait for a person, the oldest first."""
        return tuple(self._approvals.values())


def text_of_reply(content: Json) -> str | None:
    """Return the text of a model's reply; None if it cannot be read."""
    try:
        blocks = msgspec.json.decode(content, type=list[dict[str, object]])
    except (msgspec.DecodeError, RecursionError):
        return None
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _agent(node: Node) -> AgentView:
    return AgentView(
        node.address,
        node.address.rpartition(".")[0],
        node.profile,
        node.prompt,
        node.state,
        node.status,
        node.detail,
        node.turns,
        node.tools,
        node.usage,
        node.started_at,
        node.ended_at,
    )


def _value(json: Json) -> object:
    return msgspec.json.decode(json)


_HANDLERS: Final[Takers[SnapshotBuilder, None]] = {
    Ask: SnapshotBuilder._ask,
    ModelReplied: SnapshotBuilder._reply,
    AskEnded: SnapshotBuilder._end,
    RequestApproval: SnapshotBuilder._approval,
    ApprovalGiven: SnapshotBuilder._approved,
}
