"""The import of exported sessions into a log: it takes the whole file, or nothing of it."""

from collections.abc import Callable, Iterable
from typing import Final

from callboard.actors.protocol.errors import CorruptLog, SessionExists, SessionNotFound, WrongHead
from callboard.actors.protocol.events import Event
from callboard.replay.exports.jsonl import Header, Item
from callboard.runtime.log.opening import erase
from callboard.runtime.log.protocol import Append, EventLog, Head

_BATCH_EVENTS: Final = 500


class Importing:
    """Writes the items of an export to a log; a failure leaves no new session behind.

    A fork comes in parts: the events that it shares, each under the id of the session that posted them, and
    its own. A session that the log has serves as such a part if its digests are the same. One that comes with
    its fork alone is hidden in the end: it is not a session of the log, and goes with its last fork.

    progress: called with a session, how many of its events are written, and how many it has.
    """

    def __init__(self, log: EventLog, progress: Callable[[str, int, int], object]) -> None:
        self._log = log
        self._progress = progress
        self._made: list[str] = []
        self._sessions = self._events = 0
        self._header: Header | None = None
        self._epoch = 0
        self._head = Head(0, b"")
        self._batch: list[Event] = []
        self._digest = b""
        self._passed: list[str] = []
        self._parts: list[tuple[str, int]] = []  # those of the session that are left, the present one first
        self._shared: list[str] = []
        self._last = Head(0, b"")  # of the export, up to where it was read

    async def run(self, items: Iterable[Item]) -> tuple[int, int]:
        """Import, and return the numbers of sessions and of written events.

        Raises SessionExists, CorruptLog, StoreError, and the errors of `items`.
        """
        try:
            for item in items:
                if isinstance(item, Header):
                    await self._end_session()
                    await self._begin(item)
                else:
                    await self._take(*item)
            await self._end_session()
            if self._passed and not self._made and not self._events:
                raise _exists(self._passed[0])
            for name in self._shared:
                await self._log.delete(name, keep_forks=True)
        except BaseException:
            for session_id in reversed(self._made):
                await erase(self._log, session_id)
            raise
        return self._sessions, self._events

    async def _begin(self, header: Header) -> None:
        self._header = header
        self._parts = [*header.shared, (header.session, header.events)]
        self._last = Head(0, bytes.fromhex(header.origin))
        self._sessions += 1
        await self._begin_part("")

    async def _end_session(self) -> None:
        """Write the rest of a session. A fork may have no events of its own."""
        await self._flush()
        while len(self._parts) > 1:
            await self._next_part()

    async def _next_part(self) -> None:
        await self._flush()
        (parent, _) = self._parts.pop(0)
        await self._begin_part(parent)

    async def _begin_part(self, parent: str) -> None:
        """Make the session of the present part, or find it. parent: the one that it is a fork of."""
        assert self._header is not None
        name, base = self._parts[0][0], self._last
        try:
            head = await self._make(name, parent, base)
        except SessionExists:
            await self._find(self._header, name, base)
            return
        if head is None:
            raise _exists(parent)
        if head != base:
            await erase(self._log, name)
            raise _exists(parent)
        self._made.append(name)
        self._epoch, self._head = 1, base
        if len(self._parts) > 1:
            self._shared.append(name)

    @property
    def _title(self) -> str:
        """Return the title of the present part: only a whole session has one."""
        return self._header.title if self._header and len(self._parts) == 1 else ""

    async def _make(self, name: str, parent: str, base: Head) -> Head | None:
        """Make the session of a part. Return its head, None if its parent is too short.

        Raises SessionExists.
        """
        assert self._header is not None
        if not parent:
            await self._log.create(name, self._header.created, self._title, base.digest)
            return base
        try:
            return await self._log.fork(name, self._header.created, self._title, parent, base.seq)
        except WrongHead:
            return None

    async def _find(self, header: Header, name: str, base: Head) -> None:
        """Go on with a session of the log: one that forks share, or one that a killed import left."""
        is_own, last = len(self._parts) == 1, self._parts[0][1]
        try:
            self._head = await self._log.head(name)
        except SessionNotFound:  # deleted, apart from events that forks share
            if is_own:
                raise _exists(name) from None
            self._head = Head(last, b"")
        if self._head.seq >= last:
            if not is_own:
                return  # the fork that comes next compares the digests
            is_same = header.head == f"{self._head.seq}:{self._head.digest.hex()}"
            if not is_same or self._made or self._events:
                raise _exists(name)
            self._passed.append(name)
        elif self._head.seq == base.seq:
            await self._continue(name, base.digest)

    async def _take(self, event: Event, digest: bytes) -> None:
        while event.seq > self._parts[0][1] and len(self._parts) > 1:
            await self._next_part()
        name, last = self._parts[0]
        self._last = Head(event.seq, digest)
        if event.seq > self._head.seq:
            await self._add(event, digest)
        elif event.seq == self._head.seq < last:
            await self._continue(name, digest)

    async def _continue(self, name: str, digest: bytes) -> None:
        """Go on with a session of the log. digest: the export's at its head, which all before decides."""
        if digest != self._head.digest:
            raise _exists(name)
        self._epoch, _ = await self._log.take_over(name)

    async def _add(self, event: Event, digest: bytes) -> None:
        self._batch.append(event)
        self._digest = digest
        if len(self._batch) >= _BATCH_EVENTS:
            await self._flush()

    async def _flush(self) -> None:
        """Append the batch; the log must compute the digest that the export has."""
        if not self._batch or self._header is None:
            return
        name, batch = self._parts[0][0], self._batch
        (answer,) = await self._log.append([Append(name, self._head.seq, self._epoch, batch)])
        if isinstance(answer, Exception):
            raise answer
        if answer.digest != self._digest:
            raise CorruptLog(
                f"session {name}: this callboard would write event {answer.seq}, or one of the "
                f"{len(batch)} before it, with other bytes; import it with the version that exported it",
                name,
                answer.seq,
            )
        self._head = answer
        self._events += len(batch)
        self._batch = []
        self._progress(name, answer.seq, self._header.events)


def _exists(session_id: str) -> SessionExists:
    return SessionExists(
        f"the log has a session {session_id!r} already; an import keeps the id: choose another log, "
        "or delete that session"
    )
