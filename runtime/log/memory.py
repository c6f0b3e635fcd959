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
from callboard.runtime.log.hash_chain import UNWRITABLE, HashChain, Sealing, last_head
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.protocol import (
    GENESIS,
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
    change_of,
    details_of,
)

# One bytes object per row: 350 bytes for an event with a 180-byte body. A tuple of its parts takes 460, and
# the garbage collector walks it.
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Sealed).decode


class _Session(msgspec.Struct, eq=False):
    row: SessionRow
    before: Head  # of its own first event
    head: Head
    epoch: int = 1
    rows: list[bytes] = []
    values: set[bytes] = set()  # digests of its large values

    def note(self, events: Sequence[Event]) -> None:
        """Bring the row up to these events."""
        change = change_of(events)
        details = structs.asdict(details_of(change.opened)) if change.opened else {}
        self.row = structs.replace(
            self.row,
            head=self.head.seq,
            last_ms=events[-1].at if events else self.row.last_ms,
            status=change.status_after(self.row.status),
            kind=change.kind or self.row.kind,
            failures=change.failures_after(self.row.failures),
            host=change.host or self.row.host,
            **details,
        )


class MemoryLog(EventLog):
    """An `EventLog` that lasts as long as the object; `close` and `open` lose nothing."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._hash_chain = HashChain(key)
        self._is_open = False
        self._sessions: dict[str, _Session] = {}
        self._blobs: dict[bytes, bytes] = {}
        self._users: Counter[bytes] = Counter()  # sessions that have a large value
        self._made = 0
        self._size = 0
        self._reader = MemoryReader(self)

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
        self._sessions[session_id] = _Session(row, Head(0, origin), Head(0, origin))
        return 1

    async def fork(self, session_id: str, created_ms: int, title: str, parent: str, base: int) -> Head:
        head = self._session(parent).head
        self._reader.verify_chain(parent, self._key)
        if not 1 <= base <= head.seq:
            raise no_base(parent, base, head.seq)
        if session_id in self._sessions:
            raise session_exists(session_id)
        owner = next(one for one in self._reader.segments(parent) if base <= one.last)
        (last,) = self._reader.events(parent, base, 1)
        self._made += 1
        before = Head(base, last.digest)
        row = SessionRow(session_id, 1, base, created_ms, title, self._made)
        fork = structs.replace(row, parent=owner.session_id, base=base)
        self._sessions[session_id] = _Session(fork, before, before)
        return before

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        session = self._session(session_id)
        self._reader.verify_chain(session_id, self._key)
        session.epoch += 1
        session.row = structs.replace(session.row, epoch=session.epoch)
        return session.epoch, session.head

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        self._check_open()
        return [self._append(part) for part in batch]

    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        self._check_open()
        return self._reader.events(session_id, start, limit)

    async def head(self, session_id: str) -> Head:
        return self._session(session_id).head

    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        self._check_open()
        return self._reader.sessions(query)

    async def delete(self, session_id: str) -> int:
        session = self._session(session_id)
        forks = [name for name, one in self._sessions.items() if one.row.parent == session_id]
        if forks:
            raise has_forks(session_id, forks)
        del self._sessions[session_id]
        self._size -= sum(map(len, session.rows))
        self._users.subtract(session.values)
        for digest in session.values:
            if not self._users[digest]:
                del self._users[digest]
                self._size -= len(self._blobs.pop(digest))
        return session.head.seq - session.before.seq

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

    def _session(self, session_id: str) -> _Session:
        self._check_open()
        return self._reader.session(session_id)

    def _append(self, part: Append) -> Head | Exception:
        session = self._sessions.get(part.session_id)
        if session is None:
            return no_session(part.session_id)
        if refused := refusal(part, session.epoch, session.head.seq):
            return refused
        try:
            sealing = self._hash_chain.seal_all(part.session_id, session.head.digest, part.events)
            sealing = self._without_values(sealing, session.values)
            rows = [_pack(row) for row in sealing.rows(part.events)]
        except UNWRITABLE as error:
            return StoreFailed(f"session {part.session_id}: an event cannot be written: {error}")
        session.rows += rows
        session.head = sealing.head(session.head)
        session.note(part.events)
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
        """Do nothing: a reader in memory holds no file."""

    def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        rows = [session.row for session in list(self._log._sessions.values())]
        rows.sort(key=_place, reverse=True)
        before = query.place
        chosen = (row for row in rows if query.has(row) and (before is None or _place(row) < before))
        return list(islice(chosen, query.limit))

    def head(self, session_id: str) -> Head:
        return self.session(session_id).head

    def events(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return [row.whole() for row in self._rows(session_id, start, limit)]

    def events_of(
        self, session_id: str, address: str, first: int, last: int, limit: int = 10_000
    ) -> list[Stored]:
        rows = self._rows(session_id, first, max(0, last - first + 1))
        own = (row for row in rows if address in (row.recipient, row.sender))
        return [row.whole() for row in islice(own, limit)]

    def segments(self, session_id: str) -> tuple[Segment, ...]:
        session = self.session(session_id)
        own = Segment(session_id, session.before, session.head.seq)
        if not session.row.parent:
            return (own,)
        shared = (one for one in self.segments(session.row.parent) if one.before.seq < session.row.base)
        return (*(one._replace(last=min(one.last, session.row.base)) for one in shared), own)

    def key_check(self) -> str:
        return self._log._hash_chain.key_check

    def checked_pages(
        self, session_id: str, upto: int, key: bytes | None = None, known: Head | None = None
    ) -> Iterator[list[Sealed]]:
        hash_chain = HashChain(key)
        hash_chain.check_key(self.key_check(), "this log in memory")
        return hash_chain.checked_pages(self.segments(session_id), self._own_rows, upto, known)

    def verify_chain(self, session_id: str, key: bytes | None = None, head: Head | None = None) -> Head:
        session = self.session(session_id)
        upto = max(session.head.seq, head.seq if head else 0)
        return last_head(self.checked_pages(session_id, upto, key, head), self.segments(session_id)[0].before)

    def session(self, session_id: str) -> _Session:
        """Return the kept session. Raises SessionNotFound."""
        if session_id not in self._log._sessions:
            raise no_session(session_id)
        return self._log._sessions[session_id]

    def _rows(self, session_id: str, start: int, limit: int) -> Iterator[Sealed]:
        """Yield up to `limit` rows of a session from seq `start`, from all its segments."""
        start = max(start, 1)
        for segment in self.segments(session_id):
            count = min(limit, segment.last - start + 1)
            if count > 0:
                yield from self._own_rows(segment.session_id, start, count)
                start, limit = start + count, limit - count

    def _own_rows(self, session_id: str, start: int, limit: int) -> list[Sealed]:
        """Return up to `limit` rows that stand under a session's own id, from seq `start`."""
        session = self.session(session_id)
        at = max(start - session.before.seq, 1) - 1
        return list(map(self._with_values, map(_unpack, session.rows[at : at + limit])))

    def _with_values(self, row: Sealed) -> Sealed:
        cuts = tuple(map(self._with_value, row.cuts))
        return msgspec.structs.replace(row, cuts=cuts) if cuts else row

    def _with_value(self, cut: Cut) -> Cut:
        """Return a cut with its value, under the digest that its bytes have."""
        data = self._log._blobs[cut.digest]
        return Cut(cut.offset, blob_digest(data), data)
