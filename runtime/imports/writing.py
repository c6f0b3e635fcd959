"""Imported sessions in a log: new ones are made, and known ones get only the events that they lack.

An import makes the same events of the same traffic, so the events of a known session are compared with those
that it makes again. Where they differ, the session was made of other traffic, or by another version of the
import: it has to be made again (`Changed`).
"""

from collections.abc import Sequence
from typing import Final

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import SessionNotFound
from callboard.actors.protocol.events import Event
from callboard.actors.session.usage_books import Charge, UsageBooks
from callboard.runtime.log.opening import erase
from callboard.runtime.log.protocol import Append, EventLog, Head, Stored, event_of

BATCH_EVENTS: Final = 500
_PAGE: Final = 500


class Changed(Exception):
    """A known session that differs from the traffic. session: its id."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.session = session


class _Written:
    """One session of the import. known: the head that the log had. head: of what is stored."""

    def __init__(self, session: str, epoch: int, known: Head, *, is_fork: bool) -> None:
        self.session, self.epoch, self.known, self.head = session, epoch, known, known
        self.is_new = known.seq == 0
        self.batch: list[Event] = []
        self.charges: list[Charge] = []
        self.books = UsageBooks(is_fork=is_fork)
        self.rows: list[Stored] = []  # of the log, those that come next


class Writing:
    """Writes the sessions of an import to a log that this process owns.

    sessions, events: the numbers of those that were added. made: the ids of all sessions of the import.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._open: dict[str, _Written] = {}
        self.sessions = 0
        self.events = 0
        self.made: dict[str, int] = {}

    async def begin(self, session: str, at: int) -> None:
        """Begin a session, or go on with a known one."""
        try:
            known = await self._log.head(session)
            epoch = 0
        except SessionNotFound:
            epoch, known = await self._log.create(session, at, ""), Head(0, b"")
            self.sessions += 1
        self._open[session] = _Written(session, epoch, known, is_fork=False)

    async def begin_fork(self, session: str, at: int, parent: str, base: int, own: Sequence[Event]) -> None:
        """Begin a session that shares the events 1 to `base` of another one. own: its first events."""
        shared = await self.shared(parent, base)
        try:
            known = await self._log.head(session)
            written = _Written(session, 0, known, is_fork=True)
            written.books.take(shared)
            self._open[session] = written
            await self.add(session, own)
        except SessionNotFound:
            head = await self._log.fork(session, at, "", parent, base, own=own)
            self.sessions += 1
            self.events += len(own)
            written = self._open[session] = _Written(session, 1, head, is_fork=True)
            written.books.take([*shared, *own])
        self.made[session] = own[-1].seq

    async def shared(self, session: str, upto: int) -> list[Event]:
        """Return the events 1 to `upto` of a session of this import."""
        await self._flush(self._open[session])
        rows: list[Stored] = []
        while len(rows) < upto and (page := await self._log.read(session, len(rows) + 1, _PAGE)):
            rows += page
        return [event_of(session, row) for row in rows[:upto]]

    async def digest(self, session: str, seq: int) -> str:
        """Return the digest of an event in hex."""
        (row,) = await self._log.read(session, seq, 1)
        return row.digest.hex()

    async def add(self, session: str, events: Sequence[Event]) -> None:
        """Add the next events of a session. Raises Changed if the log has others in their place."""
        written = self._open[session]
        for event in events:
            if event.seq <= written.known.seq:
                await self._compare(written, event)
                written.books.take((event,))
            else:
                written.batch.append(event)
                written.charges += written.books.take((event,))
        if events:
            self.made[session] = events[-1].seq
        if len(written.batch) >= BATCH_EVENTS:
            await self._flush(written)

    async def _compare(self, written: _Written, event: Event) -> None:
        if not written.rows or written.rows[0].seq > event.seq:
            written.rows = await self._log.read(written.session, event.seq, _PAGE)
            written.rows.reverse()
        row = written.rows.pop()
        same = (row.seq, row.at, row.sender, row.recipient, row.cause)
        if same != (event.seq, event.at, event.sender, event.recipient, event.cause):
            raise Changed(written.session)
        if row.body != encode(event.body):
            raise Changed(written.session)

    async def flush(self) -> None:
        """Store all events that were added."""
        for written in self._open.values():
            await self._flush(written)

    async def _flush(self, written: _Written) -> None:
        if not written.batch:
            return
        if not written.epoch:
            written.epoch, written.head = await self._log.take_over(written.session)
        part = Append(written.session, written.head.seq, written.epoch, written.batch, usage=written.charges)
        (answer,) = await self._log.append([part])
        if isinstance(answer, Exception):
            raise answer
        self.events += len(written.batch)
        written.head, written.batch, written.charges = answer, [], []

    async def erase(self, sessions: Sequence[str]) -> None:
        """Take sessions of this import out of the log, the last ones first. Raises HasForks."""
        for session in reversed(sessions):
            self._open.pop(session, None)
            self.made.pop(session, None)
            await erase(self._log, session)
