"""The page of a session that is being written: its lines so far, and those that a page lacks.

The events that are there at the start are checked by their digests. Later ones are read as they come.
"""

from collections.abc import Iterator
from typing import Final

from callboard.replay.diagnosis.diagnose import Diagnosis
from callboard.replay.page.building import EVENTS_DIAGNOSED_MAX, frame
from callboard.replay.page.lines import SessionLines
from callboard.replay.page.packing import packed
from callboard.replay.reading import Source
from callboard.runtime.log.protocol import Head, LogReader
from callboard.runtime.log.session_rows import SessionRow

_READ_MAX: Final = 5_000
"""Events that are read for one answer: a page that lacks more asks again."""


class LivePage:
    """The page of one session, which grows. Raises SessionNotFound, CorruptLog, StoreError."""

    def __init__(self, reader: LogReader, session_id: str) -> None:
        self._reader = reader
        self._source = Source.upto(reader, session_id)
        self._lines: list[bytes] = []
        self._made = SessionLines()
        self._diagnosis = Diagnosis()
        self._seq = 0
        self._is_over = False
        self._source.check()
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
        findings = self._diagnosis.findings() if is_short else []
        extra = {"is_followed": True, "is_over": self._is_over}
        return self._made.last(self._row(), self._source.head, findings, extra, since)

    def _read(self) -> None:
        """Take in the events that are new."""
        source = self._source
        rows = self._reader.events(source.session_id, self._seq + 1, _READ_MAX)
        for row in rows:
            event = source.event(row)
            self._lines += self._made.take(row, event)
            self._diagnosis.take(event)
            self._seq = row.seq
            source.head = Head(row.seq, row.digest)
        if rows or not self._seq:
            self._end(self._row())

    def _end(self, row: SessionRow) -> None:
        """Take in the end of the session, if it is closed. Its last decisions have no outputs to wait for."""
        if not self._is_over and row.status == "closed" and row.head == self._seq:
            self._is_over = True
            self._lines += self._made.finish()
