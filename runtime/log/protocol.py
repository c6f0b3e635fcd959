"""The protocols of a store.

A session is one stream of events, numbered from 1 without gaps. Writing is asynchronous and belongs to one
owner. Reading needs no event loop and no ownership, and is the only access that replay has.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias

import msgspec

from callboard.actors.protocol.client_messages import RULES
from callboard.actors.protocol.codec import UnreadableBody, decode
from callboard.actors.protocol.errors import (
    CorruptLog,
    Fenced,
    HasForks,
    MisuseError,
    SessionExists,
    SessionNotFound,
    WrongHead,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.upcasters import why_unreadable
from callboard.actors.session.budget_keys import SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.large_values import Cut, splice
from callboard.runtime.log.session_rows import EVERY_SESSION, SessionQuery, SessionRow
from callboard.runtime.log.spending import Spending, SpendingStore, Unlogged, UsageRow

GENESIS: Final = bytes(32)  # the origin of a hash chain, for a session that is not a fork


class Head(NamedTuple):
    """The end of a session: the last seq (0: empty) and its digest (for an empty one: its origin)."""

    seq: int
    digest: bytes


EMPTY: Final = Head(0, GENESIS)  # the head of a new session
TAIL_EVENTS: Final = 16  # at the end of a session, whose digests `take_over` checks
NAMED_MAX: Final = 12  # forks that an error names


class Segment(NamedTuple):
    """The events that stand in the log under one session's id, behind `before`, up to the seq `last`.

    A session that is not a fork has one. A fork has those of its parent up to its base, and its own.
    """

    session_id: str
    before: Head
    last: int


class Carried(NamedTuple):
    """A command of a client that an event carries out. command: its number. seq: of the event."""

    command: int
    seq: int


class Append(NamedTuple):
    """Events that continue a session: seqs expected_head+1, +2, ...

    spending: the changes that these events make to the spending of budgets. A store without `spending` is
    given none. usage: the charges of the calls that they settle; a store need not keep them. carried: the
    commands that they carry out, which are marked together with them; only a store with commands gets any.
    """

    session_id: str
    expected_head: int
    epoch: int
    events: Sequence[Event]
    spending: Sequence[SpendingChange] = ()
    usage: Sequence[Charge] = ()
    carried: Sequence[Carried] = ()


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An event in the store: the envelope, the exact body bytes, and the digest."""

    cuts: ClassVar[tuple[Cut, ...]] = ()

    seq: int
    at: int
    sender: str
    recipient: str
    cause: int
    body: bytes
    digest: bytes

    def whole(self) -> "Stored":
        """Return this event, in which no value is missing."""
        return self


class Sealed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event as a store keeps it. body: the stored text. cuts: the values that were cut out of it."""

    seq: int
    at: int
    sender: str
    recipient: str
    cause: int
    body: bytes
    cuts: tuple[Cut, ...]
    digest: bytes

    def whole(self) -> Stored:
        """Return the event with its values in their places. Raises ValueError if one has no place."""
        body = splice(self.body, self.cuts) if self.cuts else self.body
        return Stored(self.seq, self.at, self.sender, self.recipient, self.cause, body, self.digest)


class EventLog(Protocol):
    """An append-only store of sessions. One owner writes; `append` is called by one task at a time.

    `spending` is optional: `Runtime(budgets=)` refuses a store without it.
    """

    @property
    def spending(self) -> SpendingStore | None:
        """Return the part that keeps the spending of budgets."""
        return None

    async def open(self) -> None:
        """Take ownership.

        Raises StoreLocked, StoreUnreadable, StoreTooNew, StoreReadOnly, StoreFailed, WrongKey, CorruptLog.
        """

    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        """Create an empty session and return its epoch (1). Raises SessionExists.

        origin: the digest that its first event continues.
        """

    async def fork(
        self, session_id: str, created_ms: int, title: str, parent: str, base: int, own: Sequence[Event] = ()
    ) -> Head:
        """Create a session that begins with the events 1 to `base` of another one. Return its head.

        The events are shared, not copied; its epoch is 1. Checks every digest of the parent before, which may
        be hidden (see `delete`). own: its own first events, which are stored together with it: after a
        crash it has all of them or does not exist. Raises SessionExists, SessionNotFound, WrongHead for a
        parent without an event `base` or for events that do not follow it, CorruptLog, StoreFailed.
        """

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        """Raise the session's epoch, after which earlier writers append nothing. Return it, and the head.

        Checks the digests of the last events (`TAIL_EVENTS`) while no other writer can append, and nothing
        before them, so that it takes no longer for a long session: `checked` does that. Raises
        SessionNotFound, CorruptLog.
        """

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        """Store the events of each session together and durably. Return one answer per session, in order.

        A wrong head (WrongHead), an old epoch (Fenced), a missing session (SessionNotFound) and an event that
        cannot be written (StoreFailed) are answers. An exception (StoreFailed) means that no event of the
        batch is known to be stored. A cancelled caller does not stop the commit.
        """

    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        """Return `limit` events from seq `start`, fewer only at the end. Raises SessionNotFound."""

    async def checked(self, session_id: str, after: Head | None = None, limit: int = 10_000) -> list[Stored]:
        """Return up to `limit` events behind `after`, each once its digest was recomputed.

        after: a head up to which they were checked earlier, which the first of them must continue; None to
        begin at event 1. Fewer only at the end. No session continues from events that were not checked.
        Raises SessionNotFound, CorruptLog. A store that does not override it returns them unchecked.
        """
        return await self.read(session_id, 1 if after is None else after.seq + 1, limit)

    async def head(self, session_id: str) -> Head:
        """Return the head of a session. Raises SessionNotFound."""

    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        """Return the chosen sessions, newest first, without reading their events. Raises MisuseError."""

    async def owner(self, session_id: str) -> str:
        """Return the name of another process that runs a session under a live lease; empty if there is none.

        A log that only one process can open has no leases.
        """
        return ""

    async def waiting_since(self, session_id: str) -> int:
        """Return since when a session waits for its code, in milliseconds since 1970; 0 if it does not."""
        return 0

    async def set_waiting(self, session_id: str, since_ms: int) -> None:
        """Record since when a session waits for its code; 0 if it no longer waits.

        It is a note beside the log for those who list sessions, and no event: it fences no owner. A log need
        not keep it. Raises SessionNotFound.
        """

    async def usage(self, since_day: str = "") -> list[UsageRow]:
        """Return the usage of all sessions from a UTC day on, without reading events."""
        return []

    async def set_usage(self, session_id: str, charges: Sequence[Charge]) -> None:
        """Replace the usage of a session, for one whose events came without it. Raises SessionNotFound."""

    async def delete(self, session_id: str, *, keep_forks: bool = False) -> int:
        """Take a session out of the log at once: no method finds it from now on, and its id is free.

        `purge` removes its events. Returns their number, for a fork without those that it shares. Raises
        SessionNotFound, and HasForks for a session that has forks.

        keep_forks: forks are no obstacle. The events that they share stay under the session's id, hidden, and
        go with the last of them; until then the id is not free, and another fork may be made of them.
        """

    async def purge(self) -> bool:
        """Remove some events of deleted sessions, and the large values that no other session has.

        Takes a few milliseconds, so that commits of other sessions go in between. Returns whether more is
        left. A crash in between loses no other session's events; the next owner goes on.
        """

    async def vacuum(self, pages: int | None) -> int:
        """Return up to `pages` free pages to the file system. Return the number of those left.

        pages: None rewrites the whole log in its smallest form, during which no event can be stored.
        """

    def size_bytes(self) -> int:
        """Return the size of the log in bytes, including events that are not checkpointed yet."""

    async def close(self) -> None:
        """Give up ownership. Acknowledged events stay."""


Progress: TypeAlias = Callable[[int, int], object]
"""Called with how much is done, and of how much."""


class LogReader(Protocol):
    """Reads a log without owning it: beside a live owner, or long after. Never writes.

    Methods that name a session raise SessionNotFound, and CorruptLog for damage.
    """

    def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        """Return the chosen sessions, newest first, without reading their events. Raises MisuseError."""

    def head(self, session_id: str) -> Head:
        """Return the head of a session."""

    def events(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        """Return up to `limit` events from seq `start`; fewer means the end."""

    def events_of(
        self, session_id: str, address: str, first: int, last: int, limit: int = 10_000
    ) -> list[Stored]:
        """Return up to `limit` events of seqs `first` to `last` that this actor received or posted."""

    def segments(self, session_id: str) -> tuple[Segment, ...]:
        """Return the segments of a session, the oldest first: one, and one more for each fork."""

    def usage(self, since_day: str = "") -> list[UsageRow]:
        """Return the usage of all sessions from a UTC day on, without reading events."""
        return []

    def spending(self) -> tuple[Spending, list[Unlogged]]:
        """Return the spending of budgets, and the charges that no log holds. Raises CorruptLog."""
        return Spending(), []

    def key_check(self) -> str:
        """Return the check value of the digest key; empty without a key. It says nothing about the key."""

    def checked_pages(
        self,
        session_id: str,
        upto: int,
        key: bytes | None = None,
        known: Head | None = None,
        after: Head | None = None,
    ) -> Iterator[list[Sealed]]:
        """Yield rows 1 to `upto` with their large values, page by page, once their digests are checked.

        known: a head that was acknowledged earlier; rows up to it must contain it. after: a head up to which
        the rows were checked earlier: those behind it are yielded, and must continue it. Raises CorruptLog at
        the first event that is not as it was written, WrongKey.
        """

    def verify_chain(self, session_id: str, key: bytes | None = None, head: Head | None = None) -> Head:
        """Check every digest and return the head. Raises CorruptLog with the first bad seq, WrongKey.

        head: one that was acknowledged earlier, such as that of an outcome; the log must still contain it.
        """

    def check_whole(self) -> None:
        """Check the parts of the log that belong to no session. Raises CorruptLog."""
        return

    def copy_to(
        self, target: Path, session_id: str = "", progress: Progress = lambda done, total: None
    ) -> None:
        """Write a copy of the log, or of one session, to a new file.

        Raises SessionNotFound, StoreError, and MisuseError for a log that is not in a file.
        """
        raise MisuseError(
            "only a log in a file is copied to a file: write its sessions with `callboard export --all -o "
            "all.jsonl`, and put them into a new log with `callboard import all.jsonl --log NEW`"
        )

    def close(self) -> None:
        """Close the log. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def refusal(part: Append, epoch: int, head: int) -> Fenced | WrongHead | None:
    """Return the error for events that do not continue a session of this epoch and head, else None."""
    if part.epoch != epoch:
        return Fenced(
            f"session {part.session_id} was taken over: its epoch is {epoch}, this writer's is {part.epoch}; "
            f"the writer of epoch {epoch} continues it"
        )
    if part.expected_head != head:
        return WrongHead(
            f"session {part.session_id} ends at event {head}, not at {part.expected_head}: "
            f"another writer has appended to it; read its log before you continue"
        )
    return _gap(part, head)


def _gap(part: Append, head: int) -> WrongHead | None:
    """Return the error for events that do not follow one another, else None."""
    seqs = [event.seq for event in part.events]
    if seqs == list(range(head + 1, head + 1 + len(seqs))):
        return None
    seq, found = next(pair for pair in enumerate(seqs, head + 1) if pair[0] != pair[1])
    return WrongHead(f"session {part.session_id}: event {found} came where {seq} was next")


def event_of(session_id: str, row: Stored | Sealed) -> Event:
    """Return the event of a row without cuts, under any rules. Raises CorruptLog."""
    try:
        return Event(row.seq, row.at, row.sender, row.recipient, row.cause, decode(row.body))
    except UnreadableBody as error:
        raise CorruptLog(f"session {session_id}, event {row.seq}: {error}", session_id, row.seq) from None


def check_rules(session_id: str, seq: int, rules: int) -> None:
    """Refuse a session that lives by rules of a newer callboard. Raises CorruptLog."""
    if rules > RULES:
        said = f"session {session_id} lives by rules {rules}, this callboard knows up to {RULES}"
        raise CorruptLog(f"{said}; use a newer one", session_id, seq)


def check_format(session_id: str, seq: int, written: str) -> None:
    """Refuse a session of a newer format than this callboard reads. Raises CorruptLog.

    One of a newer minor format is read: an event that this callboard does not know is refused by itself.
    """
    if why := why_unreadable(written):
        raise CorruptLog(f"session {session_id} {why}", session_id, seq)


def no_session(session_id: str) -> SessionNotFound:
    """Return the error for a missing session."""
    return SessionNotFound(f"no session {session_id!r} in this log; `callboard sessions` lists its sessions")


def no_base(parent: str, base: int, head: int) -> WrongHead:
    """Return the error for a fork at an event that its parent does not have."""
    return WrongHead(f"session {parent} has events 1 to {head}: it cannot be forked at {base}")


def has_forks(session_id: str, forks: Sequence[str]) -> HasForks:
    """Return the error for deleting a session that has forks."""
    named = ", ".join(forks[:NAMED_MAX]) + (", ..." if len(forks) > NAMED_MAX else "")
    return HasForks(
        f"session {session_id} has forks, which share its first events: {named}; delete those first "
        "(`callboard delete --with-forks` deletes all of them), or keep them with the events that they "
        "share (`--keep-forks`)"
    )


def session_exists(session_id: str) -> SessionExists:
    """Return the error for creating a session twice."""
    return SessionExists(f"there is a session {session_id!r} already; resume it, or choose another id")
