"""The events of a session as spans: one for each ask, turn, tool call, approval, delegation and report.

A turn's span begins with its first request and ends with the reply that counts, retries between included.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    Delegate,
    DelegationEnded,
    ReportBack,
    ReportJudged,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.session.place_names import named
from callboard.actors.session.recorded_answers import OF_MODEL

SpanKind: TypeAlias = Literal["ask", "turn", "tool", "approval", "delegation", "report"]
_Key: TypeAlias = tuple[str, SpanKind, int, int]


class Moment(NamedTuple):
    """An event without its message: the results of tools are most of a long log."""

    seq: int
    at: int
    sender: str
    kind: str


@dataclass
class Span:
    """One thing that an agent did.

    first, last: its first and last event. body: the message that tells most, the reply of a turn and the
    beginning of all others. agent: that did it. name: of the tool or of the profiles. attempts: of a turn.
    outcome: in a word, empty while it is open.
    """

    kind: SpanKind
    first: Moment
    last: Moment
    body: AnyMessage
    agent: str
    name: str = ""
    attempts: int = 1
    outcome: str = ""

    @property
    def place(self) -> str:
        """Return the name of the call or turn; '' for an ask, which has none."""
        turn = getattr(self.body, "turn", 0)
        return named((self.agent, turn, getattr(self.body, "call", OF_MODEL))) if turn else ""

    @property
    def duration_ms(self) -> int:
        """Return its length in milliseconds, by the clock of the process that wrote the log."""
        return max(0, self.last.at - self.first.at)


class Spans:
    """The spans of a session. Feed it the events in order."""

    def __init__(self) -> None:
        self.found: list[Span] = []
        self._open: dict[_Key, Span] = {}

    def take(self, event: Event) -> None:
        """Take the next event in."""
        if take := _TAKES.get(type(event.body)):
            take(self, event, event.body)

    def begins(self, kind: SpanKind, event: Event, name: str = "") -> None:
        """Open a span, or count one more attempt of an open one."""
        key = _key(event.sender, kind, event.body)
        span = self._open.get(key)
        if span is not None:
            span.attempts += 1
            return
        begun = _moment(event)
        self._open[key] = span = Span(kind, begun, begun, event.body, event.sender, name)
        self.found.append(span)

    def ends(self, kind: SpanKind, event: Event, outcome: str, *, is_last: bool = True) -> None:
        """Close a span. is_last: False if another attempt may follow."""
        key = _key(event.recipient, kind, event.body)
        span = self._open.get(key)
        if span is None:
            return
        span.last, span.outcome = _moment(event), outcome
        span.body = event.body if kind == "turn" else span.body
        if is_last:
            del self._open[key]


def spans(events: Iterable[Event]) -> list[Span]:
    """Return the spans of a session, in the order of their first events."""
    found = Spans()
    for event in events:
        found.take(event)
    return found.found


def _moment(event: Event) -> Moment:
    return Moment(event.seq, event.at, event.sender, event.kind)


def _key(agent: str, kind: SpanKind, body: Any) -> _Key:
    """Return the key of a span; an ask has no turn, and one runs at a time."""
    return agent, kind, getattr(body, "turn", 0), getattr(body, "call", 0)


def _replied(found: Spans, event: Event, body: ModelReplied) -> None:
    outcome = body.failure.code if body.failure is not None else body.status
    found.ends("turn", event, outcome, is_last=body.status == "ok")


_TAKES: Final[dict[type, Callable[[Spans, Event, Any], None]]] = {
    Ask: lambda found, event, body: found.begins("ask", event, body.request_id),
    AskEnded: lambda found, event, body: found.ends("ask", event, body.kind),
    TurnRequested: lambda found, event, body: found.begins("turn", event),
    ModelReplied: _replied,
    CallTool: lambda found, event, body: found.begins("tool", event, body.tool),
    ToolReturned: lambda found, event, body: found.ends("tool", event, body.status),
    RequestApproval: lambda found, event, body: found.begins("approval", event, body.tool),
    ApprovalGiven: lambda found, event, body: found.ends("approval", event, body.verdict),
    Delegate: lambda found, event, body: found.begins("delegation", event, ", ".join(body.profiles)),
    DelegationEnded: lambda found, event, body: found.ends("delegation", event, body.kind),
    ReportBack: lambda found, event, body: found.begins("report", event),
    ReportJudged: lambda found, event, body: found.ends("report", event, body.verdict),
}
