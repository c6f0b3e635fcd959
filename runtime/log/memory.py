"""A log in memory, for tests and for sessions that need not survive. Same rules, bytes and digests.

`MemoryReader` reads beside the writer, from any thread: lists only grow, and a head moves after its rows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import structs

from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.hash_chain import UNWRITABLE, HashChain, Sealing, last_head
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.memory_session import MemorySession, pack, unpack
from callboard.runtime.log.protocol import (
    GENESIS,
    TAIL_EVENTS,
    Append,
    EventLog,
    Head,
    LogReader,
    Sealed,
    Segment,
    Stored,
    has_forks,
    no_base,
    no_session,
    refusal,
    session_exists,
)
from callboard.runtime.log.session_rows import (
    EVERY_SESSION,
    SessionQuery,
    SessionRow,
)
from callboard.runtime.log.spending import MemorySpending, Spending, Unlogged, UsageRow


class MemoryLog(EventLog):
    """An `EventLog` that lasts as long as the object; `close` and `open` lose nothing."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._hash_chain = HashChain(key)
        self._is_open = False
        self._sessions: dict[str, MemorySession] = {}
        self._blobs: dict[bytes, bytes] = {}
        self._users: Counter[bytes] = Counter()  # sessions that have a large value
        self._made = 0
        self._size = 0
        self._reader = MemoryReader(self)
        self._spending = MemorySpending()

    @property
    def spending(self) -> MemorySpending:
        return self._spending

    async def open(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False

    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        self._check_open()
        if session_id in self._sessions:
            raise session_exists(session_id)
        self._made += 1
        row = SessionRow(session_id, 1, 0, created_ms, title, self._made)
        self._sessions[session_id] = MemorySession(row, Head(0, origin), Head(0, origin))
        return 1

    async def fork(
        self, session_id: str, created_ms: int, title: str, parent: str, base: int, own: Sequence[Event] = ()
    ) -> Head:
        self._check_open()
        origin = self._reader.session(parent, hidden=True)
        self._reader.verify(origin, self._key)
        if not 1 <= base <= origin.head.seq:
            raise no_base(parent, base, origin.head.seq)
        if session_id in self._sessions:
            raise session_exists(session_id)
        owner = next(one for one in self._reader.segments_of(origin) if base <= one.last)
        (last,) = self._reader.events_in(origin, base, 1)
        self._made += 1
        before = Head(base, last.digest)
        row = SessionRow(session_id, 1, base, created_ms, title, self._made)
        fork = structs.replace(row, parent=owner.session_id, base=base)
        self._sessions[session_id] = MemorySession(fork, before, before)
        head = self._append(Append(session_id, base, 1, own))
        if isinstance(head, Exception):
            del self._sessions[session_id]
            raise head
        return head

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        session = self._session(session_id)
        self._reader.verify_tail(session, self._key)
        session.epoch += 1
        session.row = structs.replace(session.row, epoch=session.epoch)
        return session.epoch, session.head

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        self._check_open()
        return [self._append(part) for part in batch]

    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        self._check_open()
        return self._reader.events(session_id, start, limit)

    async def checked(self, session_id: str, after: Head | None = None, limit: int = 10_000) -> list[Stored]:
        session = self._session(session_id)
        upto = min(session.head.seq, (after.seq if after else 0) + limit)
        pages = self._reader.pages_of(session, upto, self._key, after=after)
        return [row.whole() for page in pages for row in page]

    async def head(self, session_id: str) -> Head:
        return self._session(session_id).head

    async def waiting_since(self, session_id: str) -> int:
        return self._session(session_id).row.waits_ms

    async def set_waiting(self, session_id: str, since_ms: int) -> None:
        session = self._session(session_id)
        session.row = structs.replace(session.row, waits_ms=since_ms)

    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        self._check_open()
        return self._reader.sessions(query)

    async def usage(self, since_day: str = "") -> list[UsageRow]:
        self._check_open()
        return self._reader.usage(since_day)

    async def set_usage(self, session_id: str, charges: Sequence[Charge]) -> None:
        session = self._session(session_id)
        session.usage = {}
        session.add_usage(charges)

    async def delete(self, session_id: str, *, keep_forks: bool = False) -> int:
        session = self._session(session_id)
        if not keep_forks and (forks := self._forks(session_id)):
            raise has_forks(session_id, tuple(forks))
        await self._spending.hand_over(session_id, session.epoch + 1, (), (), max(1, session.row.last_ms))
        return self._take_out(session)

    def _forks(self, session_id: str) -> dict[str, int]:
        """Return the last shared seq of each fork of a session, by its id."""
        rows = [one.row for one in self._sessions.values()]
        return {row.session_id: row.base for row in rows if row.parent == session_id}

    def _take_out(self, session: MemorySession) -> int:
        """Take a session out as far as no fork shares its events. Return the number of those that go."""
        row, count, size = session.row, session.head.seq, sum(map(len, session.rows))
        last = max(self._forks(row.session_id).values(), default=0)
        if last:
            session.cut(self._reader.events_in(session, last, 1)[0])
        else:
            del self._sessions[row.session_id]
            session.rows = []
        self._size -= size - sum(map(len, session.rows))
        self._drop_unused(session)
        count -= max(last, session.before.seq)
        parent = self._sessions.get(row.parent)
        if last or parent is None or not parent.is_hidden:
            return count
        return count + self._take_out(parent)

    def _drop_unused(self, session: MemorySession) -> None:
        """Drop the large values that a session does not have any more, and no other one has."""
        left = {cut.digest for row in session.rows for cut in unpack(row).cuts}
        gone = session.values - left
        session.values = left
        self._users.subtract(gone)
        for digest in gone:
            if not self._users[digest]:
                del self._users[digest]
                self._size -= len(self._blobs.pop(digest))

    async def purge(self) -> bool:
        self._check_open()
        return False  # `delete` has dropped all of it

    async def vacuum(self, pages: int | None) -> int:
        self._check_open()
        return 0

    def size_bytes(self) -> int:
        return self._size

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreFailed("this log in memory is not open; await open() first")

    def _session(self, session_id: str) -> MemorySession:
        self._check_open()
        return self._reader.session(session_id)

    def _append(self, part: Append) -> Head | Exception:
        session = self._sessions.get(part.session_id)
        if session is None or session.is_hidden:
            return no_session(part.session_id)
        if refused := refusal(part, session.epoch, session.head.seq):
            return refused
        try:
            sealing = self._hash_chain.seal_all(part.session_id, session.head.digest, part.events)
            sealing = self._without_values(sealing, session.values)
            rows = [pack(row) for row in sealing.rows(part.events)]
        except UNWRITABLE as error:
            return StoreFailed(f"session {part.session_id}: an event cannot be written: {error}")
        session.rows += rows
        session.head = sealing.head(session.head)
        session.note(part.events)
        self._spending.apply(part.spending)
        if part.usage:
            session.add_usage(part.usage)
        self._size += sum(map(len, rows))
        return session.head

    def _without_values(self, sealing: Sealing, values: set[bytes]) -> Sealing:
        """Return a sealing without the bytes of its large values, which are kept once.

        values: the digests of the session's values, to which the new ones are added.
        """
        for each in (one for cuts in sealing.cuts.values() for one in cuts):
            if each.digest not in self._blobs:
                self._blobs[each.digest] = each.data
                self._size += len(each.data)
            if each.digest not in values:
                values.add(each.digest)
                self._users[each.digest] += 1
        lean = {at: tuple(cut._replace(data=b"") for cut in cuts) for at, cuts in sealing.cuts.items()}
        return sealing._replace(cuts=lean)


def _place(row: SessionRow) -> tuple[int, int]:
    return row.created_ms, row.number


class MemoryReader(LogReader):
    """A `LogReader` of a log in memory, open or closed."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def close(self) -> None:
        """Do nothing, because a reader in memory holds no file."""

    def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        rows = [session.row for session in list(self._log._sessions.values()) if not session.is_hidden]
        rows.sort(key=_place, reverse=True)
        before = query.place
        chosen = (row for row in rows if query.has(row) and (before is None or _place(row) < before))
        return list(islice(chosen, query.limit))

    def head(self, session_id: str) -> Head:
        return self.session(session_id).head

    def events(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return self.events_in(self.session(session_id), start, limit)

    def events_in(self, session: MemorySession, start: int, limit: int) -> list[Stored]:
        """Return up to `limit` events of a kept session from seq `start`."""
        return [row.whole() for row in self._rows(session, start, limit)]

    def events_of(
        self, session_id: str, address: str, first: int, last: int, limit: int = 10_000
    ) -> list[Stored]:
        first = max(first, 1)
        rows = self._rows(self.session(session_id), first, last - first + 1)
        own = (row for row in rows if address in (row.recipient, row.sender))
        return [row.whole() for row in islice(own, limit)]

    def segments(self, session_id: str) -> tuple[Segment, ...]:
        return self.segments_of(self.session(session_id))

    def segments_of(self, session: MemorySession) -> tuple[Segment, ...]:
        """Return the segments of a kept session."""
        row = session.row
        own = Segment(row.session_id, session.before, session.head.seq)
        if not row.parent:
            return (own,)
        shared = self.segments_of(self.session(row.parent, hidden=True))
        return (*(one._replace(last=min(one.last, row.base)) for one in shared), own)

    def usage(self, since_day: str = "") -> list[UsageRow]:
        shown = [one for one in list(self._log._sessions.values()) if not one.is_hidden]
        shown.sort(key=lambda one: one.row.number)
        return [
            UsageRow(one.row.session_id, *place, usage)
            for one in shown
            for place, usage in sorted(one.usage.items(), key=lambda item: item[0])
            if place[0] >= since_day
        ]

    def spending(self) -> tuple[Spending, list[Unlogged]]:
        return self._log._spending.now(), self._log._spending.lost()

    def key_check(self) -> str:
        return self._log._hash_chain.key_check

    def checked_pages(
        self,
        session_id: str,
        upto: int,
        key: bytes | None = None,
        known: Head | None = None,
        after: Head | None = None,
    ) -> Iterator[list[Sealed]]:
        return self.pages_of(self.session(session_id), upto, key, known, after)

    def pages_of(
        self,
        session: MemorySession,
        upto: int,
        key: bytes | None,
        known: Head | None = None,
        after: Head | None = None,
    ) -> Iterator[list[Sealed]]:
        """Yield rows of a kept session, as `checked_pages` does."""
        hash_chain = HashChain(key)
        hash_chain.check_key(self.key_check(), "this log in memory")
        return hash_chain.checked_pages(self.segments_of(session), self._own_rows, upto, known, after)

    def verify_chain(self, session_id: str, key: bytes | None = None, head: Head | None = None) -> Head:
        return self.verify(self.session(session_id), key, head)

    def verify(self, session: MemorySession, key: bytes | None = None, head: Head | None = None) -> Head:
        """Check every digest of a kept session and return its head."""
        upto = max(session.head.seq, head.seq if head else 0)
        return last_head(self.pages_of(session, upto, key, head), self.segments_of(session)[0].before)

    def verify_tail(self, session: MemorySession, key: bytes | None) -> None:
        """Check the last events of a kept session. Raises CorruptLog."""
        first, before = session.head.seq - TAIL_EVENTS, session.before
        if first > before.seq:
            (row,) = self.events_in(session, first, 1)
            before = Head(first, row.digest)
        last_head(self.pages_of(session, session.head.seq, key, after=before), before)

    def session(self, session_id: str, *, hidden: bool = False) -> MemorySession:
        """Return the kept session; with `hidden` also one that was deleted. Raises SessionNotFound."""
        found = self._log._sessions.get(session_id)
        if found is None or (found.is_hidden and not hidden):
            raise no_session(session_id)
        return found

    def _rows(self, session: MemorySession, start: int, limit: int) -> Iterator[Sealed]:
        """Yield up to `limit` rows of a session from seq `start`, from all its segments."""
        start = max(start, 1)
        for segment in self.segments_of(session):
            count = min(limit, segment.last - start + 1)
            if count > 0:
                yield from self._own_rows(segment.session_id, start, count)
                start, limit = start + count, limit - count

    def _own_rows(self, session_id: str, start: int, limit: int) -> list[Sealed]:
        """Return up to `limit` rows that stand under a session's own id, from seq `start`."""
        session = self.session(session_id, hidden=True)
        at = max(start - session.before.seq, 1) - 1
        return list(map(self._with_values, map(unpack, session.rows[at : at + limit])))

    def _with_values(self, row: Sealed) -> Sealed:
        cuts = tuple(map(self._with_value, row.cuts))
        return msgspec.structs.replace(row, cuts=cuts) if cuts else row

    def _with_value(self, cut: Cut) -> Cut:
        """Return a cut with its value, under the digest that its bytes have."""
        data = self._log._blobs[cut.digest]
        return Cut(cut.offset, blob_digest(data), data)
