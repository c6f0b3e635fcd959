"""The events of a session as spans: one for each ask, turn, tool call, approval, delegation and report.

A turn's span begins with its first request and ends with the reply that counts, retries between included.
A call that its agent refused by itself has a span too, at the reply that holds it: no event is its own.
Spans of their own have also what comes from outside and changes the course: messages to a running agent,
cancels, timers that fire, contexts, and changes of tools, agents, limits or permissions.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Cancel,
    Forked,
    Resumed,
    RevokePermission,
    Tell,
    TellEnded,
    ToolsChanged,
)
from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind
from callboard.actors.protocol.events import Event, Takers
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    AnyMessage,
    CancelTask,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    Stopped,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    CancelTimer,
    ContextMade,
    MakeContext,
    ModelReplied,
    RequestApproval,
    SetTimer,
    TimerFired,
    ToolReturned,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.wishes import first_turn
from callboard.actors.session.place_names import named
from callboard.actors.session.recorded_answers import OF_MODEL
from callboard.replay.descriptions import BAD_OUTCOMES, words_of
from callboard.replay.formats import duration
from callboard.replay.refused_calls import RefusedCall

SpanKind: TypeAlias = Literal[
    "ask",
    "turn",
    "tool",
    "approval",
    "delegation",
    "report",
    "refused",
    "tell",
    "cancel",
    "timer",
    "context",
    "change",
]
_FAILURE_CHARS: Final = 500
_TOLD: Final = frozenset({"turn", "approval"})
"""Spans that have their failure elsewhere: a turn in its reply, an approval in its note."""

_FINE: Final = frozenset({"", "ok", "stopped"})

_Key: TypeAlias = tuple[str, SpanKind, int | str, int]


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
    beginning of all others; of a refused call, the call. agent: that did it. name: of the tool or of the
    profiles. attempts: of a turn. outcome: in a word, empty while it is open. note: what the body does not
    tell: the failures before a reply and another model that gave it, the changed arguments of an approval,
    the turn in which a message was read and the tools that had started by then. failure: why it ended badly,
    in one line.
    """

    kind: SpanKind
    first: Moment
    last: Moment
    body: AnyMessage | RefusedCall
    agent: str
    name: str = ""
    attempts: int = 1
    outcome: str = ""
    note: str = ""
    failure: str = ""

    @property
    def place(self) -> str:
        """Return the name of the call or turn; '' for an ask, which has none."""
        turn = getattr(self.body, "turn", 0)
        return named((self.agent, turn, getattr(self.body, "call", OF_MODEL))) if turn else ""

    @property
    def is_bad(self) -> bool:
        """Return whether the request was not carried out. A turn that failed has the code of the failure."""
        return self.outcome in BAD_OUTCOMES or (self.kind == "turn" and self.outcome not in _FINE)

    @property
    def reason(self) -> str:
        """Return the reason if the request was not carried out, else an empty text."""
        return self.body.reason if isinstance(self.body, RefusedCall) else self.failure

    @property
    def duration_ms(self) -> int:
        """Return its length in milliseconds, by the clocks of the processes that wrote the log.

        Negative if the clock was set back meanwhile, such as by a resume on another machine.
        """
        return self.last.at - self.first.at


class Spans:
    """The spans of a session. Feed it the events in order."""

    def __init__(self) -> None:
        self.found: list[Span] = []
        self._open: dict[_Key, Span] = {}
        self._tools: defaultdict[str, list[Span]] = defaultdict(list)
        self._timers: dict[int, Moment] = {}
        self._retries: set[int] = set()
        self._ungranted: dict[str, Event] = {}  # by agent, its request for a turn
        self._reasons: dict[str, OutcomeKind] = {}  # by agent, why it is to end
        self.last_at = 0  # of the event before the one that is taken

    def take(self, event: Event) -> None:
        """Add the next event."""
        if take := _TAKES.get(type(event.body)):
            take(self, event, event.body)
        self.last_at = event.at

    def begins(self, kind: SpanKind, event: Event, name: str = "") -> None:
        """Open a span, or count one more attempt of an open one."""
        self.counts(_key(event.sender, kind, event.body), event, name)

    def counts(self, key: _Key, event: Event, name: str = "") -> None:
        """Open the span of this key for the sender, or count one more attempt of an open one."""
        span = self._open.get(key)
        if span is not None:
            span.attempts += 1
            return
        self.opens(key, event, event.sender, name)

    def opens(self, key: _Key, event: Event, agent: str, name: str = "") -> Span:
        """Open a span of this key."""
        begun = _moment(event)
        self._open[key] = span = Span(key[1], begun, begun, event.body, agent, name)
        self.found.append(span)
        if span.kind == "tool":
            self._tools[agent].append(span)
        return span

    def happens(self, kind: SpanKind, event: Event, agent: str, name: str = "", note: str = "") -> None:
        """Add a span of one event."""
        self.opens((agent, kind, event.seq, 0), event, agent, name).outcome = "done"
        self._open.pop((agent, kind, event.seq, 0)).note = note

    def ends(self, kind: SpanKind, event: Event, outcome: str, *, is_last: bool = True) -> None:
        """Close a span. is_last: False if another attempt may follow."""
        key = _key(event.recipient, kind, event.body)
        span = self._open.get(key)
        if span is None:
            return
        span.last, span.outcome = _moment(event), outcome
        span.body = event.body if kind == "turn" else span.body
        if outcome in BAD_OUTCOMES and kind not in _TOLD:
            span.failure = _failure(event.body, outcome)[:_FAILURE_CHARS]
        if is_last:
            del self._open[key]

    def closes(self, key: _Key, event: Event, outcome: str) -> Span | None:
        """Close the span of this key, and return it."""
        span = self._open.pop(key, None)
        if span is not None:
            span.last, span.outcome = _moment(event), outcome
        return span

    def notes(self, event: Event, kind: SpanKind, note: str) -> None:
        """Add a note to an open span of the recipient."""
        span = self._open.get(_key(event.recipient, kind, event.body))
        if span is not None and note:
            span.note += "; " * bool(span.note) + note

    def tools_meanwhile(self, span: Span) -> list[str]:
        """Return the tools that an agent had started before a message to it was read, newest first."""
        found = []
        for tool in reversed(self._tools[span.agent]):
            if tool.outcome and tool.last.seq < span.first.seq:
                break
            found.append(tool.name)
        return found

    def sets(self, event: Event, body: SetTimer) -> None:
        """Note when a timer was set. The wait before another attempt is told by its turn."""
        if event.cause not in self._retries:
            self._timers[body.timer] = _moment(event)

    def fires(self, event: Event, body: TimerFired) -> None:
        """Add a timer that fired."""
        set_at = self._timers.pop(body.timer, None)
        if set_at is None:
            return
        note = f"set by event {set_at.seq}, {(event.at - set_at.at) / 1_000:,.1f} s before"
        self.happens("timer", event, event.recipient, "", note)


def spans(events: Iterable[Event]) -> list[Span]:
    """Return the spans of a session, in the order of their first events."""
    found = Spans()
    for event in events:
        found.take(event)
    return found.found


def with_refusals(found: Iterable[Span], refused: Iterable[RefusedCall]) -> list[Span]:
    """Return spans with those of refused calls, in the order of their first events."""
    return sorted([*found, *map(_refusal, refused)], key=lambda span: span.first.seq)


def _refusal(call: RefusedCall) -> Span:
    at = Moment(call.reply, call.replied_at, "model", "ModelReplied")
    return Span("refused", at, at, call, call.agent, call.tool, outcome="refused")


def _moment(event: Event) -> Moment:
    return Moment(event.seq, event.at, event.sender, event.kind)


def _key(agent: str, kind: SpanKind, body: object) -> _Key:
    """Return the key of a span; an ask has no turn, and one runs at a time."""
    return agent, kind, getattr(body, "turn", 0), getattr(body, "call", 0)


def _asked(found: Spans, event: Event, body: TurnRequested | RunStep) -> None:
    found.begins("turn", event)
    if isinstance(body, TurnRequested):
        found._ungranted[event.sender] = event
        if body.after_ms:
            found._retries.add(event.seq)


def _gone(found: Spans, event: Event, body: Finished | Stopped) -> None:
    """Close a turn that was requested and never granted, since its agent has ended."""
    reason = found._reasons.pop(event.sender, "cancelled")
    if (asked := found._ungranted.pop(event.sender, None)) is not None:
        kind = body.kind if isinstance(body, Finished) else reason
        outcome = kind if STATUS[kind] == "failed" else "stopped"
        found.closes(_key(event.sender, "turn", asked.body), event, outcome)


def _called(found: Spans, event: Event, body: CallModel) -> None:
    found._ungranted.pop(body.agent, None)
    if (first := first_turn(body)) is not None:
        found.counts(_key(event.sender, "turn", first), event)


def _replied(found: Spans, event: Event, body: ModelReplied) -> None:
    outcome = body.failure.code if body.failure is not None else body.status
    found.notes(event, "turn", f"answered by {body.model}" if body.model else "")
    if body.status != "ok" and (span := found._open.get(_key(event.recipient, "turn", body))):
        span.note = _with_attempt(span.note, body.attempt, outcome)
    found.ends("turn", event, outcome, is_last=body.status == "ok")


def _with_attempt(note: str, attempt: int, outcome: str) -> str:
    """Return a note with a failed attempt, as one of several that failed in the same way if it is one."""
    before, separator, last = note.rpartition("; ")
    first, _, said = last.removeprefix("attempts ").removeprefix("attempt ").partition(": ")
    if last.startswith("attempt") and said == outcome:
        return f"{before}{separator}attempts {first.partition(' to ')[0]} to {attempt}: {outcome}"
    return f"{note}{'; ' * bool(note)}attempt {attempt}: {outcome}"


def _failure(body: AnyMessage, outcome: str) -> str:
    if isinstance(body, AskEnded | DelegationEnded):
        return body.detail or EXPLAINED[body.kind]
    return words_of(body).removeprefix(f"{outcome}: ")


def _approved(found: Spans, event: Event, body: ApprovalGiven) -> None:
    changed = body.arguments != NULL
    found.notes(event, "approval", f"changed to {bytes(body.arguments).decode()}" if changed else "")
    found.notes(event, "approval", body.note)
    found.ends("approval", event, body.verdict)


def _told(found: Spans, event: Event, body: TellEnded) -> None:
    span = found.closes(("", "tell", body.request_id, 0), event, body.status)
    if span is None:
        return
    span.note = f"read in turn {body.turn}" if body.status == "heard" else body.detail
    if tools := found.tools_meanwhile(span):
        span.note += f", after {', '.join(reversed(tools[:3]))} had started"


def _changed(found: Spans, event: Event, body: Resumed | Forked) -> None:
    resumed = body.resumed if isinstance(body, Forked) else body
    parts = {"agents": resumed.profiles, "model": resumed.model, "limits": resumed.limits}
    pause = event.at - found.last_at
    note = ""
    if isinstance(body, Resumed) and pause > 0:
        note = (
            f"resumed {duration(pause)} after the event before; calls that were under way include that time"
        )
    name = ", ".join(name for name, value in parts.items() if value)
    found.happens("change", event, event.sender, name, note)


_TAKES: Final[Takers[Spans, object]] = {
    Ask: lambda found, event, body: found.begins("ask", event, body.request_id),
    AskEnded: lambda found, event, body: found.ends("ask", event, body.kind),
    **dict.fromkeys((TurnRequested, RunStep), _asked),
    Stop: lambda found, event, body: found._reasons.update({event.recipient: body.reason}),
    **dict.fromkeys((Finished, Stopped), _gone),
    CallModel: _called,
    ModelReplied: _replied,
    CallTool: lambda found, event, body: found.begins("tool", event, body.tool),
    ToolReturned: lambda found, event, body: found.ends("tool", event, body.status),
    RequestApproval: lambda found, event, body: found.begins("approval", event, body.tool),
    ApprovalGiven: _approved,
    Delegate: lambda found, event, body: found.begins("delegation", event, ", ".join(body.profiles)),
    DelegationEnded: lambda found, event, body: found.ends("delegation", event, body.kind),
    ReportBack: lambda found, event, body: found.begins("report", event),
    ReportJudged: lambda found, event, body: found.ends("report", event, body.verdict),
    Tell: lambda found, event, body: found.opens(("", "tell", body.request_id, 0), event, body.address),
    TellEnded: _told,
    Cancel: lambda found, event, body: found.happens("cancel", event, event.sender, body.address or "ask"),
    CancelTask: lambda found, event, body: found.happens("cancel", event, event.sender, "task"),
    SetTimer: Spans.sets,
    CancelTimer: lambda found, event, body: found._timers.pop(body.timer, None),
    TimerFired: Spans.fires,
    MakeContext: lambda found, event, body: found.opens(
        ("", "context", event.seq, 0), event, body.parent, body.profile
    ),
    ContextMade: lambda found, event, body: found.closes(("", "context", event.cause, 0), event, body.status),
    Resumed: _changed,
    Forked: _changed,
    ToolsChanged: lambda found, event, body: found.happens("change", event, event.sender, "tools"),
    RevokePermission: lambda found, event, body: found.happens("change", event, event.sender, "permission"),
}
