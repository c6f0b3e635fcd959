"""A log in memory, for tests and for sessions that need not survive. Same rules, bytes and digests.

`MemoryReader` reads beside the writer, from any thread: lists only grow, and a head moves after its rows.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import msgspec

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.log.hash_chain import UNWRITABLE, HashChain, Sealing, last_head
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.protocol import (
    GENESIS,
    Append,
    Head,
    LogReader,
    Sealed,
    SessionRow,
    Stored,
    no_session,
    refusal,
    session_exists,
)

# One bytes object per row: 350 bytes for an event with a 180-byte body. A tuple of its parts takes 460, and
# the garbage collector walks it.
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Sealed).decode


class _Session(msgspec.Struct, eq=False):
    created_ms: int
    title: str
    origin: bytes
    head: Head
    epoch: int = 1
    rows: list[bytes] = []


class MemoryLog:
    """An `EventLog` that lasts as long as the object; `close` and `open` lose nothing."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._hash_chain = HashChain(key)
        self._is_open = False
        self._sessions: dict[str, _Session] = {}
        self._blobs: dict[bytes, bytes] = {}
        self._reader = MemoryReader(self)

    async def open(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False

    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        self._check_open()
        if session_id in self._sessions:
            raise session_exists(session_id)
        self._sessions[session_id] = _Session(created_ms, title, origin, Head(0, origin))
        return 1

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        session = self._session(session_id)
        self._reader.verify_chain(session_id, self._key)
        session.epoch += 1
        return session.epoch, session.head

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        self._check_open()
        return [self._append(part) for part in batch]

    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        self._check_open()
        return self._reader.events(session_id, start, limit)

    async def head(self, session_id: str) -> Head:
        return self._session(session_id).head

    async def sessions(self) -> list[SessionRow]:
        self._check_open()
        return self._reader.sessions()

    async def delete(self, session_id: str) -> int:
        session = self._session(session_id)
        del self._sessions[session_id]
        rows = chain.from_iterable(other.rows for other in self._sessions.values())
        used = {cut.digest for row in map(_unpack, rows) for cut in row.cuts}
        self._blobs = {digest: self._blobs[digest] for digest in used}
        return session.head.seq

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
            rows = [_pack(row) for row in self._without_values(sealing).rows(part.events)]
        except UNWRITABLE as error:
            return StoreFailed(f"session {part.session_id}: an event cannot be written: {error}")
        session.rows += rows
        session.head = sealing.head(session.head)
        return session.head

    def _without_values(self, sealing: Sealing) -> Sealing:
        """Return a sealing without the bytes of its large values, which are kept once."""
        if not sealing.cuts:
            return sealing
        for cuts in sealing.cuts.values():
            self._blobs.update((cut.digest, cut.data) for cut in cuts if cut.digest not in self._blobs)
        lean = {at: tuple(cut._replace(data=b"") for cut in cuts) for at, cuts in sealing.cuts.items()}
        return sealing._replace(cuts=lean)


class MemoryReader(LogReader):
    """A `LogReader` of a log in memory, open or closed."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def sessions(self) -> list[SessionRow]:
        # Reversed: made later comes first among those of the same millisecond.
        rows = [
            SessionRow(session_id, session.epoch, session.head.seq, session.created_ms, session.title)
            for session_id, session in reversed(list(self._log._sessions.items()))
        ]
        return sorted(rows, key=lambda row: -row.created_ms)

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

    def origin(self, session_id: str) -> bytes:
        return self.session(session_id).origin

    def key_check(self) -> str:
        return self._log._hash_chain.key_check

    def checked_pages(
        self, session_id: str, upto: int, key: bytes | None = None, known: Head | None = None
    ) -> Iterator[list[Sealed]]:
        def read(start: int, limit: int) -> list[Sealed]:
            return list(self._rows(session_id, start, limit))

        hash_chain = HashChain(key)
        hash_chain.check_key(self.key_check(), "this log in memory")
        return hash_chain.checked_pages(session_id, self.origin(session_id), read, upto, known)

    def verify_chain(self, session_id: str, key: bytes | None = None, head: Head | None = None) -> Head:
        session = self.session(session_id)
        upto = max(session.head.seq, head.seq if head else 0)
        return last_head(self.checked_pages(session_id, upto, key, head), session.origin)

    def session(self, session_id: str) -> _Session:
        """Return the kept session. Raises SessionNotFound."""
        if session_id not in self._log._sessions:
            raise no_session(session_id)
        return self._log._sessions[session_id]

    def _rows(self, session_id: str, start: int, limit: int) -> Iterator[Sealed]:
        at = max(start, 1) - 1
        for row in map(_unpack, self.session(session_id).rows[at : at + limit]):
            cuts = tuple(map(self._with_value, row.cuts))
            yield msgspec.structs.replace(row, cuts=cuts) if cuts else row

    def _with_value(self, cut: Cut) -> Cut:
        """Return a cut with its value, under the digest that its bytes have."""
        data = self._log._blobs[cut.digest]
        return Cut(cut.offset, blob_digest(data), data)
