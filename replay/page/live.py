"""The page of a session that is being written: its lines so far, and those that a page lacks.

Each event is checked by its digest before the page has it: those that are there at the start, and later ones
as they come. The page has no event behind the first that does not fit.
"""

from collections.abc import Iterator
from typing import Final

from callboard.actors.protocol.errors import CorruptLog
from callboard.replay.diagnosis.diagnose import Diagnosis
from callboard.replay.page.building import EVENTS_DIAGNOSED_MAX, frame
from callboard.replay.page.lines import SessionLines
from callboard.replay.page.packing import packed
from callboard.replay.reading import Source
from callboard.runtime.log.protocol import Head, LogReader, Sealed
from callboard.runtime.log.session_rows import SessionRow

_READ_MAX: Final = 5_000
"""Events that are read for one answer: a page that lacks more asks again."""


class LivePage:
    """The page of one session, which grows.

    Every method raises SessionNotFound, StoreError, and CorruptLog once an event does not continue the chain.
    """

    def __init__(self, reader: LogReader, session_id: str) -> None:
        self._reader = reader
        self._source = Source.upto(reader, session_id)
        self._lines: list[bytes] = []
        self._made = SessionLines()
        self._diagnosis = Diagnosis()
        self._head: Head | None = None
        self._seq = 0
        self._is_over = False
        last = self._source.head.seq
        while self._seq < last:
            self._read()

    def page(self) -> Iterator[bytes]:
        """Yield the whole page as it is now."""
        self._read()
        before, between, after = frame(is_served=True)
        yield before
        yield from packed([*self._lines, self._last(0)])
        yield between
        yield after

    def more(self, lines: int, events: int) -> bytes:
        """Return what a page lacks; nothing if it has all. lines, events: the numbers that it has."""
        self._read()
        if (lines, events) == (len(self._lines), self._seq):
            return b""
        if not (0 <= lines <= len(self._lines) and 0 <= events <= self._seq):
            raise ValueError("the page has lines that this session does not have")
        return b"\n".join([*self._lines[lines:], self._last(events)])

    def _row(self) -> SessionRow:
        rows = self._reader.sessions()
        return next(row for row in rows if row.session_id == self._source.session_id)

    def _last(self, since: int) -> bytes:
        is_short = self._seq <= EVENTS_DIAGNOSED_MAX
        findings = self._diagnosis.findings(self._made.refused) if is_short else []
        extra = {"is_followed": True, "is_over": self._is_over}
        return self._made.last(self._row(), self._source.head, findings, extra, since)

    def _read(self) -> None:
        """Take in the events that are new."""
        source = self._source
        head, before = self._reader.head(source.session_id), self._seq
        if head.seq < before:
            raise _cut_off(source.session_id, head.seq, before)
        upto = min(head.seq, before + _READ_MAX)
        for page in self._reader.checked_pages(source.session_id, upto, after=self._head):
            for row in map(Sealed.whole, page):
                event = source.event(row)
                self._lines += self._made.take(row, event)
                self._diagnosis.take(event)
                self._head = source.head = Head(row.seq, row.digest)
                self._seq = row.seq
        if self._seq > before or not before:
            self._end(self._row())

    def _end(self, row: SessionRow) -> None:
        """Take in the end of the session, if it is closed. Its last decisions have no outputs to wait for."""
        if not self._is_over and row.status == "closed" and row.head == self._seq:
            self._is_over = True
            self._lines += self._made.finish()


def _cut_off(session_id: str, last: int, seen: int) -> CorruptLog:
    said = f"session {session_id} ends at event {last} now, and had {seen} before: restore a copy of the log"
    return CorruptLog(said, session_id, last + 1)
