"""Sessions as a store lists them: a row for each, kept up to date by the appends, so that no event is read.

The message in the log -> the status of its session:

    status       changed by
    open         SessionOpened, AskEnded; Resumed and Forked with `reopens`
    unfinished   Ask; Forked in the middle of an ask
    closed       SessionClosed

`kind` is the ending of the last outcome, `host` the last recorded one. Tags and metadata are copies of those
in `SessionOpened`. A session that was made without a title gets the beginning of its first `Ask`.

Trees of forks: sessions that share events, by the rows of a store.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Forked,
    Resumed,
    SessionClosed,
    SessionOpened,
)
from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.plain_values import PlainValues
from callboard.actors.protocol.usage import ZERO, Usage

SessionStatus: TypeAlias = Literal["open", "unfinished", "closed"]
"""`open`: no ask is running. `unfinished`: an ask has no outcome. `closed`: nothing is left to do."""

STATUSES: Final[tuple[SessionStatus, ...]] = ("open", "unfinished", "closed")
HIDDEN: Final = "hidden"
"""In place of a status: the session was deleted, and its forks still share its first events."""

TITLE_CHARS_MAX: Final = 200
_CURSOR: Final = re.compile(r"(-?\d{1,19})\.(\d{1,19})", re.ASCII)


class SessionRow(PlainValues, frozen=True, gc=False, metaclass=NamedFields):
    """A session of a store.

    created_ms, last_ms: the times of its creation and of its last event, in milliseconds since 1970 UTC;
    last_ms is 0 without an event. title: the start of its first prompt. head: the seq of its last event.
    number: its place in the order in which the log's sessions came. kind: the ending of its last outcome,
    such as `answered` or `budget`; empty before the first. failures: the number of delegations that failed in
    the last ask; one that was denied began no agent, and is not counted. host: the name of its host agent.
    waits_ms: the time from which on an unfinished session waits for its code (docs/change-a-program.md), 0 if
    it does not. parent, base: of a fork, the session that it shares the events 1 to `base` with; empty and 0
    for others. usage: of its settled calls, with `tokens` and `cost_usd`; of a fork, without that of the
    events that it shares.
    """

    also: ClassVar[tuple[str, ...]] = ("cursor",)

    session_id: str
    epoch: int
    head: int
    created_ms: int
    title: str
    number: int = 0
    status: SessionStatus = "open"
    kind: OutcomeKind | Literal[""] = ""
    failures: int = 0
    last_ms: int = 0
    host: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, object] = msgspec.field(default_factory=dict)
    waits_ms: int = 0
    parent: str = ""
    base: int = 0
    usage: Usage = ZERO

    @property
    def cursor(self) -> str:
        """Return the place of the row in a list: `after=` of the next page. It outlives the session."""
        return f"{self.created_ms}.{self.number}"


class SessionQuery(msgspec.Struct, frozen=True, metaclass=NamedFields):
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
        """Return creation time and number of the last row before; None at first. Raises MisuseError."""
        if not self.after:
            return None
        found = _CURSOR.fullmatch(self.after)
        if found is None:
            raise MisuseError(f"after={self.after!r:.80} is not a cursor; pass the `cursor` of a SessionRow")
        return int(found[1]), int(found[2])

    def has(self, row: SessionRow) -> bool:
        """Return whether a row is among the chosen ones, wherever the page begins."""
        is_tagged = self.tag is None or self.tag in row.tags
        is_young = self.since_ms is None or row.last_ms >= self.since_ms
        return is_tagged and is_young and self.status in (None, row.status)


EVERY_SESSION: Final = SessionQuery()


class RowChange(NamedTuple):
    """The change that events make to their session's row. status, kind, host: empty for no change.

    failures: of these events. is_asked: True if an ask began, so that failures before it no longer count.
    opened: the message with tags and metadata, if the events hold one that has some. asked: their first ask.
    """

    status: str = ""
    kind: str = ""
    host: str = ""
    failures: int = 0
    is_asked: bool = False
    opened: SessionOpened | None = None
    asked: Ask | None = None

    def status_after(self, before: str) -> str:
        """Return the session's status. before: its status until now."""
        return self.status or before

    def failures_after(self, before: int) -> int:
        """Return the session's failures. before: those until now."""
        return self.failures + (0 if self.is_asked else before)

    def title_after(self, before: SessionRow) -> str:
        """Return the session's title. before: its row until now."""
        return before.title if self.asked is None or has_title(before) else title_of(self.asked.prompt)


NO_CHANGE: Final = RowChange()


def has_title(row: SessionRow) -> bool:
    """Return whether the next ask gives no title: the session has one, or it was asked before."""
    # A log of an earlier version may hold sessions without a title whose first prompt is long past.
    return bool(row.title or row.kind) or row.status != "open"


def title_of(prompt: Json) -> str:
    """Return the title that a prompt gives: the beginning of its text."""
    return text_of(prompt)[:TITLE_CHARS_MAX]


def first_title(events: Iterable[Event]) -> str:
    """Return the title that the first ask among these events gives; '' without one."""
    return next((title_of(event.body.prompt) for event in events if isinstance(event.body, Ask)), "")


def text_of(prompt: Json) -> str:
    """Return the text of a prompt; of content blocks, their texts."""
    try:
        found = msgspec.json.decode(prompt)
    except msgspec.MsgspecError:  # such as a number out of range, which a log may hold
        return ""
    if isinstance(found, list):
        parts = [part.get("text") for part in found if isinstance(part, dict)]
        found = " ".join(part for part in parts if part and isinstance(part, str))
    return str(found or "")


def change_of(events: Sequence[Event], change: RowChange = NO_CHANGE) -> RowChange:
    """Return the change that consecutive events make. change: that of the events before."""
    rules = _RULES
    for event in events:
        rule = rules.get(type(event.body))
        if rule is not None:
            change = rule(change, event.body)
    return change


def _opened(change: RowChange, body: SessionOpened) -> RowChange:
    has_details = body.tags or body.metadata != NULL
    return change._replace(host=body.host, opened=body if has_details else None)


def _resumed(change: RowChange, body: Resumed) -> RowChange:
    status = "open" if body.reopens else change.status
    return change._replace(status=status, host=body.host or change.host)


def _forked(change: RowChange, body: Forked) -> RowChange:
    change = _resumed(change, body.resumed)
    status = "unfinished" if body.is_running else change.status
    return change._replace(status=status, host=change.host or body.host)


def _asked(change: RowChange, body: Ask) -> RowChange:
    return change._replace(status="unfinished", failures=0, is_asked=True, asked=change.asked or body)


def _failed(change: RowChange, body: DelegationEnded) -> RowChange:
    # The parent of a denied one mostly puts it right, and `diagnose` says if it did not.
    is_failure = STATUS[body.kind] == "failed" and body.kind != "denied"
    return change._replace(failures=change.failures + 1) if is_failure else change


_RULES: Final[dict[type, Callable[[RowChange, Any], RowChange]]] = {
    SessionOpened: _opened,
    Resumed: _resumed,
    Forked: _forked,
    Ask: _asked,
    DelegationEnded: _failed,
    AskEnded: lambda change, body: change._replace(status="open", kind=body.kind),
    SessionClosed: lambda change, body: change._replace(status="closed"),
}


class Details(msgspec.Struct, frozen=True):
    """Tags and metadata, as a store keeps them, and since when the session waits for its code."""

    tags: tuple[str, ...] = ()
    metadata: dict[str, object] = {}
    waits_ms: int = 0


def details_of(opened: SessionOpened) -> Details:
    """Return the details of a session."""
    metadata = msgspec.json.decode(opened.metadata, type=dict[str, object] | None)
    return Details(opened.tags, metadata or {})


ForksChoice: TypeAlias = Literal["refuse", "delete", "keep"]
"""For the deletion of a session with forks: refuse it, delete them too, or keep them with what they share."""


def with_forks(rows: Iterable[SessionRow], session_id: str) -> list[str]:
    """Return the ids of a session and of all its forks, and theirs, each before its parent."""
    children: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        children[row.parent].append(row.session_id)
    found = [session_id]
    for name in found:  # which grows
        found += children.get(name, ())
    return found[::-1]


def whole_trees(rows: Iterable[SessionRow], is_chosen: Callable[[SessionRow], bool]) -> list[SessionRow]:
    """Return the rows of the trees of forks of which every session is chosen, each before its parent.

    A session without parent and forks is a tree of its own.
    """
    known = {row.session_id: row for row in rows}
    trees: defaultdict[str, list[SessionRow]] = defaultdict(list)
    for row in known.values():
        root = row
        while root.parent in known:
            root = known[root.parent]
        # Forks of a session that was deleted are one tree, too: its id is their parent.
        trees[root.parent or root.session_id].append(row)
    whole = (tree for tree in trees.values() if all(map(is_chosen, tree)))
    # A fork has a higher number than its parent.
    return sorted((row for tree in whole for row in tree), key=lambda row: row.number, reverse=True)


def parents_first(rows: Sequence[SessionRow]) -> list[SessionRow]:
    """Return rows in their order, but each behind the session that it is a fork of."""
    known = {row.session_id: row for row in rows}
    found: dict[str, SessionRow] = {}
    for row in rows:
        lineage = [row]
        while (parent := known.get(lineage[-1].parent)) is not None:
            lineage.append(parent)
        for one in reversed(lineage):
            found.setdefault(one.session_id, one)
    return list(found.values())
