"""The items of `Session.stream`: immutable, and each encoded once for all of its readers.

    kind       id    content
    snapshot   seq   the session up to an event: all that a view needs to draw it
    event      seq   an event of the log
    text             a piece of a reply under way
    reset            the end of a reply that failed: its text does not count
    lost             a part of the text of a reply under way did not arrive (streams of a `Client` only)
    progress         words of a running tool
    cut              the end of a reader that was too slow, and where it goes on

An id is the seq of a durable event. Only durable items have one, so a reader that comes back with the last id
that it saw misses no event and sees none twice.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.runtime.sessions.snapshots import AgentView, ApprovalView, AskView, SnapshotBuilder

_encode: Final = msgspec.json.Encoder().encode


class StreamItem:
    """The common part of all items. kind: the name of the item, also as an SSE event."""

    # Beside the fields of the items, so that no copy, comparison or web framework sees it.
    __slots__ = ("_frame",)

    kind: ClassVar[str] = ""
    __match_args__: ClassVar[tuple[str, ...]] = ()
    _frame: bytes

    @property
    def id(self) -> int | None:
        """Return the seq up to which a reader has everything durable; None if the item is not durable."""
        return None

    def to_dict(self) -> dict[str, object]:
        """Return the content as Python values."""
        found: dict[str, object] = msgspec.json.decode(self._content())
        return found

    def to_json(self) -> str:
        """Return the content as JSON on one line."""
        return self._content().decode()

    def to_sse(self) -> bytes:
        r"""Return the item as a server-sent event.

        >>> TextReset("host", turn=1, attempt=1).to_sse()
        b'event: reset\ndata: {"address":"host","turn":1,"attempt":1}\n\n'
        """
        try:
            return self._frame
        except AttributeError:  # its first reader
            object.__setattr__(self, "_frame", self._framed())
        return self._frame

    def _framed(self) -> bytes:
        head = b"" if self.id is None else b"id: %d\n" % self.id
        return b"%bevent: %b\ndata: %b\n\n" % (head, self.kind.encode(), self._content())

    def _content(self) -> bytes:
        return _on_one_line(_encode({name: getattr(self, name) for name in self.__match_args__}))


@dataclass(frozen=True, slots=True)
class Snapshot(StreamItem):
    """A session up to an event, as the first item of a stream.

    seq: the last event in it; 0 before the first. agents: parents before their children. asks: the
    conversation with the host. approvals: the calls that wait for a person.
    """

    kind: ClassVar[str] = "snapshot"
    session_id: str
    seq: int
    agents: tuple[AgentView, ...] = ()
    asks: tuple[AskView, ...] = ()
    approvals: tuple[ApprovalView, ...] = ()
    is_closed: bool = False

    @property
    def id(self) -> int | None:
        """Return the seq of the last event in it."""
        return self.seq


@dataclass(frozen=True, slots=True)
class StreamEvent(StreamItem):
    """An event of the log."""

    kind: ClassVar[str] = "event"
    event: Event

    @property
    def id(self) -> int | None:
        """Return the seq of the event."""
        return self.event.seq

    def _content(self) -> bytes:
        event = self.event
        envelope = {
            "seq": event.seq,
            "at": event.at,
            "sender": event.sender,
            "recipient": event.recipient,
            "cause": event.cause,
            "kind": event.kind,
            "body": Json(encode(event.body)),
        }
        return _on_one_line(_encode(envelope))


@dataclass(frozen=True, slots=True)
class TextDelta(StreamItem):
    """A piece of the text of a reply in progress.

    address, turn, attempt: name the reply. offset: characters of it before this piece; 0 starts it again.
    """

    kind: ClassVar[str] = "text"
    address: str
    turn: int
    attempt: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class TextReset(StreamItem):
    """The end of a reply that failed: drop its text. The next attempt has a number of its own."""

    kind: ClassVar[str] = "reset"
    address: str
    turn: int
    attempt: int


@dataclass(frozen=True, slots=True)
class TextLost(StreamItem):
    """A gap in the text of a reply under way, which another process runs. Its event has the whole text.

    address, turn, attempt: name the reply. offset, chars: the characters of it that did not arrive.
    """

    kind: ClassVar[str] = "lost"
    address: str
    turn: int
    attempt: int
    offset: int
    chars: int


@dataclass(frozen=True, slots=True)
class ToolProgress(StreamItem):
    """A text of a running tool about its progress. turn, call: name the call of the agent."""

    kind: ClassVar[str] = "progress"
    address: str
    turn: int
    call: int
    text: str


@dataclass(frozen=True, slots=True)
class StreamCut(StreamItem):
    """The last item of a reader that was too slow: continue with `stream(after=after)`.

    after: None if the reader saw no durable item, so that it starts with a snapshot again.
    """

    kind: ClassVar[str] = "cut"
    after: int | None


AnyStreamItem: TypeAlias = (
    Snapshot | StreamEvent | TextDelta | TextReset | TextLost | ToolProgress | StreamCut
)
"""The kinds of items, for `match`."""


def snapshot_of(session_id: str, builder: SnapshotBuilder) -> Snapshot:
    """Return the snapshot of the events that a builder was given."""
    parts = builder.agents(), builder.asks(), builder.approvals()
    return Snapshot(session_id, builder.seq, *parts, builder.is_closed)


def durable_items(event: Event) -> tuple[TextReset | StreamEvent, ...]:
    """Return the items of an event: itself, after a reset if it is a model call that gave no reply."""
    body, item = event.body, StreamEvent(event)
    if isinstance(body, ModelReplied) and body.status != "ok":
        return TextReset(event.recipient, body.turn, body.attempt), item
    return (item,)


def _on_one_line(content: bytes) -> bytes:
    # Foreign JSON keeps its own bytes, line breaks between its values too; in its texts they are escaped.
    if b"\n" in content or b"\r" in content:
        return content.replace(b"\n", b" ").replace(b"\r", b" ")
    return content
