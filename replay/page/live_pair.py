"""The page of a fork that runs, beside its origin, whose events stand still.

The comparison is made again when the fork has a twentieth more events, and when it rests: a fork that writes
thousands of events a second is compared some dozens of times in all.
"""

from collections.abc import Iterator
from typing import Final

from callboard.replay.page.building import BOOT, LivePage, comparison, frame
from callboard.replay.page.lines import SessionLines
from callboard.replay.page.packing import packed
from callboard.replay.reading import Source, whole
from callboard.runtime.log.protocol import LogReader

_GROWTH: Final = 20


class LivePair(LivePage):
    """The page of two sessions, of which the second one grows. Raises as `LivePage` does."""

    def __init__(self, reader: LogReader, session_id: str, origin: str) -> None:
        super().__init__(reader, session_id)
        self._origin = Source.upto(reader, origin)
        self._compared = 0
        self._comparison: dict[str, object] = {}

    def page(self, boot: bytes = b"") -> Iterator[bytes]:
        """Yield the whole page as it is now."""
        self._read()
        self._compare(is_resting=True)
        before, between, after = frame(is_served=True)
        yield before
        yield from packed(self._origin_lines())
        yield between
        yield from packed([*self._lines, self._last(0)])
        yield after.replace(BOOT.encode(), boot)

    def more(self, lines: int, events: int, compared: int = 0) -> bytes:
        """Return what a page lacks. compared: the last event of the comparison that it has."""
        before = self._seq
        self._read()
        self._compare(is_resting=self._seq == before)
        if (lines, events, compared) == (len(self._lines), self._seq, self._compared):
            return b""
        self._refuse_unknown(lines, events)
        return b"\n".join([*self._lines[lines:], self._last(events, compared)])

    def _last(self, since: int, compared: int = 0) -> bytes:
        extra: dict[str, object] = {}
        if compared != self._compared:
            extra = {"beside": self._comparison, "is_right": True}
        return self._line(since, extra)

    def _compare(self, *, is_resting: bool) -> None:
        """Compare both sessions again, if it is time."""
        is_due = is_resting or self._is_over or self._seq >= self._compared + self._compared // _GROWTH + 1
        if self._compared < self._seq and is_due:
            self._compared = self._seq
            self._comparison = {**comparison(self._origin, self._source), "upto": self._seq}

    def _origin_lines(self) -> Iterator[bytes]:
        made, source = SessionLines(), self._origin
        for page in source.sealed_pages():
            rows = whole(page)
            for row, event in zip(rows, source.events(rows), strict=True):
                yield from made.take(row, event)
        yield from made.finish()
        row_of = next(one for one in source.reader.sessions() if one.session_id == source.session_id)
        yield made.last(row_of, source.head, [], {})
