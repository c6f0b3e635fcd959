"""Sessions as a store lists them: a row for each, kept up to date by the appends, so that no event is read.

The message in the log -> the status of its session:

    status       changed by
    open         SessionOpened, AskEnded; Resumed after SessionClosed
    unfinished   Ask
    closed       SessionClosed

`kind` is the ending of the last outcome, `host` the last recorded one. Tags and metadata are copies of those
in `SessionOpened`.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import CLIENT
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    AnyMessage,
    Ask,
    AskEnded,
    Resumed,
    SessionClosed,
    SessionOpened,
)

SessionStatus: TypeAlias = Literal["open", "unfinished", "closed"]
"""`open`: no ask is under way. `unfinished`: an ask has no outcome. `closed`: nothing is left to be done."""

STATUSES: Final = ("open", "unfinished", "closed")
RESUMED: Final = "resumed"  # a change that opens a closed session, and leaves another one as it is
_CURSOR: Final = re.compile(r"(-?\d{1,19})\.(\d{1,19})", re.ASCII)


class SessionRow(msgspec.Struct, frozen=True, gc=False):
    """A session of a store.

    created_ms, last_ms: the times of its creation and of its last event, in milliseconds since 1970 UTC;
    last_ms is 0 without an event. title: the start of its first prompt. head: the seq of its last event.
    number: its place in the order in which the log's sessions came. kind: the ending of its last outcome,
    such as `answered` or `budget`; empty if there is none. host: the name of its host agent.
    """

    session_id: str
    epoch: int
    head: int
    created_ms: int
    title: str
    number: int = 0
    status: SessionStatus = "open"
    kind: OutcomeKind | Literal[""] = ""
    last_ms: int = 0
    host: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, object] = {}

    @property
    def cursor(self) -> str:
        """Return the place of the row in a list: `after=` of the next page. It outlives the session."""
        return f"{self.created_ms}.{self.number}"


class SessionQuery(msgspec.Struct, frozen=True):
    """A choice of sessions, newest first. The defaults choose all.

    since_ms: only those with an event at or after this time. after: the `cursor` of the last row of the page
    before. limit: at most so many rows, None for all.
    """

    status: SessionStatus | None = None
    tag: str | None = None
    since_ms: int | None = None
    after: str = ""
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.status not in (None, *STATUSES):
            raise MisuseError(f"status={self.status!r}: use one of {', '.join(STATUSES)}")
        if self.limit is not None and (type(self.limit) is not int or self.limit < 0):
            raise MisuseError(f"limit={self.limit!r}: a whole number from 0 up, or None for all")

    @property
    def place(self) -> tuple[int, int] | None:
        """Return creation time and number of the last row before; None from the start. Raises MisuseError."""
        if not self.after:
            return None
        found = _CURSOR.fullmatch(self.after)
        if found is None:
            raise MisuseError(f"after={self.after!r:.80} is no cursor; pass the `cursor` of a SessionRow")
        return int(found[1]), int(found[2])

    def has(self, row: SessionRow) -> bool:
        """Return whether a row is among the chosen ones, wherever the page begins."""
        is_tagged = self.tag is None or self.tag in row.tags
        is_young = self.since_ms is None or row.last_ms >= self.since_ms
        return is_tagged and is_young and self.status in (None, row.status)


EVERY_SESSION: Final = SessionQuery()


class RowChange(NamedTuple):
    """The change that events make to their session's row. status, kind, host: empty for no change.

    opened: the message with tags and metadata, if the events hold one that has some.
    """

    status: str = ""
    kind: str = ""
    host: str = ""
    opened: SessionOpened | None = None

    def status_after(self, before: str) -> str:
        """Return the session's status. before: its status until now."""
        if self.status == RESUMED:
            return "open" if before == "closed" else before
        return self.status or before


NO_CHANGE: Final = RowChange()
_REOPENED: Final = {"closed": "open", "": RESUMED}


def change_of(events: Sequence[Event], change: RowChange = NO_CHANGE) -> RowChange:
    """Return the change that consecutive events make. change: that of the events before."""
    for event in events:
        if event.recipient == CLIENT or event.sender == CLIENT:
            change = _changed(change, event.body)
    return change


def _changed(change: RowChange, body: AnyMessage) -> RowChange:
    match body:
        case Ask():
            return change._replace(status="unfinished")
        case AskEnded(kind=kind):
            return change._replace(status="open", kind=kind)
        case SessionClosed():
            return change._replace(status="closed")
        case Resumed(host=host):
            return change._replace(
                status=_REOPENED.get(change.status, change.status), host=host or change.host
            )
        case SessionOpened(host=host):
            has_details = body.tags or body.metadata != NULL
            return change._replace(host=host, opened=body if has_details else None)
        case _:
            return change


class Details(msgspec.Struct, frozen=True):
    """Tags and metadata, as a store keeps them."""

    tags: tuple[str, ...] = ()
    metadata: dict[str, object] = {}


def details_of(opened: SessionOpened) -> Details:
    """Return the details of a session."""
    metadata = msgspec.json.decode(opened.metadata, type=dict[str, object] | None)
    return Details(opened.tags, metadata or {})
