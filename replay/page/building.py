"""The page of a session: one file that asks for nothing else.

Its policy (`Content-Security-Policy`) allows the one script and the one style that are in it, by their
digests, and no request at all. The page's code makes elements and text nodes and never parses text as markup,
which the policy enforces too (`require-trusted-types-for`). Nothing of a session stands in the markup itself.

Two sessions in one page: the pairs of their events, the first difference, what a fork saved.

The page of a session that is being written: its lines so far, and those that a page lacks.

Each event is checked by its digest before the page has it: those that are there at the start, and later ones
as they come. The page has no event behind the first that does not fit.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import Event
from callboard.replay.diagnosis.diagnose import Diagnosis
from callboard.replay.diff import Difference, diff
from callboard.replay.divergence import ABSENT, ABSENT_TEXT
from callboard.replay.forks import billing
from callboard.replay.page.lines import PageLines, SessionLines
from callboard.replay.page.packing import packed
from callboard.replay.reading import Rows, Source, whole
from callboard.runtime.log.protocol import Head, LogReader, Segment, Stored
from callboard.runtime.log.session_rows import SessionRow

_LISTED: Final = 300
_VALUE_CHARS: Final = 2_000


def comparison(left: Source, right: Source) -> dict[str, object]:
    """Compare two sessions for a page. Every digest of both is checked.

    right: the fork, or the later one of two runs. Returns `pairs` as steps from pair to pair, `shared`, the
    number of events that both begin with, and the words and figures of the difference.
    """
    mine, theirs = _rows(left), _rows(right)
    found = diff(mine.upto(left.head.seq), theirs.upto(right.head.seq))
    shared = shared_events(left, right)
    events = map(right.event, theirs.upto(right.head.seq))
    return {
        "session": left.session_id,
        "shared": shared,
        "pairs": _steps(pair for pair in found.paired if min(pair) > shared),
        "differences": [_difference(one) for one in found.differences[:_LISTED]],
        "count": len(found.differences),
        "differing": [list(one.seqs) for one in found.differences],
        "profiles": found.profiles[:_LISTED],
        "totals": found.totals,
        "saved": _saved(events, shared) if shared else None,
    }


def _steps(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return pairs as the steps from each one to the next, in the order of the left session."""
    return [[b[0] - a[0], b[1] - a[1]] for a, b in pairwise([(0, 0), *sorted(pairs)])]


def in_order(one: Source, other: Source) -> tuple[Source, Source]:
    """Return the left and the right session: an origin stands left of its fork, else the first one does."""
    is_origin = len(_segments(other)) < len(_segments(one)) and shared_events(one, other) > 0
    return (other, one) if is_origin else (one, other)


def shared_events(left: Source, right: Source) -> int:
    """Return the number of events that two sessions of one lineage share, 0 for strangers."""
    shared = min(_shared_segments(left, right), left.head.seq, right.head.seq)
    return shared if _digest(left, shared) == _digest(right, shared) else 0


def _shared_segments(left: Source, right: Source) -> int:
    """Return the last event of the segments that have the same ids."""
    shared = 0
    for mine, theirs in zip(_segments(left), _segments(right), strict=False):
        if mine.session_id != theirs.session_id:
            break
        shared = min(mine.last, theirs.last)
        if mine.last != theirs.last:
            break
    return shared


def _digest(source: Source, seq: int) -> bytes:
    """Return the digest of an event. Sessions of two logs may have one id."""
    row = next(iter(source.reader.events(source.session_id, seq, 1)), None)
    return row.digest if row is not None else b""


def _segments(source: Source) -> Sequence[Segment]:
    *shared, own = source.reader.segments(source.session_id)
    return [*shared, own._replace(last=source.head.seq)]


def _rows(source: Source) -> "Rows[Stored]":
    return Rows(source, whole)


def _difference(one: Difference) -> list[object]:
    return [one.kind, one.agent, *one.seqs, one.path, _cut(one.first), _cut(one.second)]


def _cut(value: object) -> object:
    """Return a value of a difference; a long text cut, since the event has all of it."""
    if value is ABSENT:
        return ABSENT_TEXT
    return value[:_VALUE_CHARS] if isinstance(value, str) else value


def _saved(events: Iterable[Event], shared: int) -> dict[str, object]:
    """Return the figures of a fork: of the events that it shares, of answers that it reused, and its own."""
    every = list(events)
    prefix, paid = billing(every[:shared]), billing(every, shared)
    reused = paid.used.tokens - paid.billed.tokens, paid.used.micro_usd - paid.billed.micro_usd
    return {
        "shared": [prefix.called + prefix.reused, prefix.used.tokens, prefix.used.micro_usd],
        "reused": [paid.reused, *reused],
        "reused_tools": paid.reused_tools,
        "made": [paid.called, paid.billed.tokens, paid.billed.micro_usd],
        "tools": paid.tools,
    }


EVENTS_DIAGNOSED_MAX: Final = 100_000
"""A longer session has no findings in its page: they would take seconds."""

_NAMES: Final = (
    "acts data states copies words beside delegations held why search elements json edits images blocks "
    "markdown summary conversation notes tree list pairs differences lanes detail frame questions variants "
    "forking follow main"
)
MODULES: Final = tuple(f"{name}.js" for name in _NAMES.split())
"""The page's own modules, each before those that import it."""

FIRST_MODULES: Final = ("copies.js", "words.js", "elements.js", "acts.js", "contents.js", "sessions.js")
"""Those of the page of all sessions."""

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
BOOT: Final = "@BOOT@"
_ASSETS: Final = Path(__file__).parent / "assets"
_IMPORT: Final = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)


def html_page(
    source: Source, progress: Callable[[str, int, int], object], other: Source | None = None
) -> Iterator[bytes]:
    """Yield the page of a session, or of two beside each other, every digest checked. Raises CorruptLog.

    other: the session that stands beside it; of a session and its fork, the origin stands left.
    """
    before, between, after = frame()
    left, right = (source, None) if other is None else in_order(source, other)
    yield before
    yield from packed(_lines(left, progress))
    yield between
    if right is not None:
        extra = {"beside": comparison(left, right), "is_right": right is source}
        yield from packed(_lines(right, progress, extra, shared_events(left, right)))
    yield after


def _lines(
    source: Source,
    progress: Callable[[str, int, int], object],
    extra: Mapping[str, object] = NOTHING,
    known: int = 0,
) -> PageLines:
    row = next(row for row in source.reader.sessions() if row.session_id == source.session_id)
    diagnosis = Diagnosis() if source.head.seq <= EVENTS_DIAGNOSED_MAX else None
    return PageLines(source, row, diagnosis, progress, extra, known)


@cache
def frame(*, is_served: bool = False) -> tuple[bytes, bytes, bytes]:
    """Return the page around the data of a session, and of the one beside it.

    is_served: the page may ask its own server for more events.
    """
    text = framed("index.html", script_text(), is_served=is_served)
    before, rest = text.split("@DATA@")
    between, after = rest.split("@BESIDE@")
    return before.encode(), between.encode(), (after if is_served else after.replace(BOOT, "")).encode()


def framed(name: str, script: str, *, is_served: bool) -> str:
    """Return the markup of a page with its script, its style and its policy."""
    style = (_ASSETS / "page.css").read_text()
    text = (_ASSETS / name).read_text()
    for place, value in {
        "@SCRIPT_DIGEST@": _building_digest(script),
        "@STYLE_DIGEST@": _building_digest(style),
        "@STYLE@": style,
        "@SCRIPT@": script,
    }.items():
        text = text.replace(place, value, 1)
    if is_served:
        text = text.replace("default-src 'none';", "default-src 'none'; connect-src 'self';", 1)
    return text


def script_text(names: Sequence[str] = MODULES) -> str:
    """Return the modules as one script: each without its imports, whose names the others define."""
    parts = [(_ASSETS / name).read_text() for name in names]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", part)) for part in parts)


def booted(words: Mapping[str, object]) -> bytes:
    """Return the words of a server to its page as an element of it: where to act, and the token."""
    words_text = base64.b64encode(msgspec.json.encode(words))
    return b'<script type="application/octet-stream" id="boot">%s</script>' % words_text


def _building_digest(text: str) -> str:
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode()


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

    def page(self, boot: bytes = b"") -> Iterator[bytes]:
        """Yield the whole page as it is now. boot: its server's words to it (`booted`)."""
        self._read()
        before, between, after = frame(is_served=True)
        yield before
        yield from packed([*self._lines, self._last(0)])
        yield between
        yield after.replace(BOOT.encode(), boot)

    def more(self, lines: int, events: int) -> bytes:
        """Return what a page lacks; nothing if it has all. lines, events: the numbers that it has."""
        self._read()
        if (lines, events) == (len(self._lines), self._seq):
            return b""
        self._refuse_unknown(lines, events)
        return b"\n".join([*self._lines[lines:], self._last(events)])

    def _refuse_unknown(self, lines: int, events: int) -> None:
        if not (0 <= lines <= len(self._lines) and 0 <= events <= self._seq):
            raise ValueError("the page has lines that this session does not have")

    def _row(self) -> SessionRow:
        rows = self._reader.sessions()
        return next(row for row in rows if row.session_id == self._source.session_id)

    def _last(self, since: int) -> bytes:
        return self._line(since, NOTHING)

    def _line(self, since: int, more: Mapping[str, object]) -> bytes:
        """Return the last line. more: its further entries."""
        is_short = self._seq <= EVENTS_DIAGNOSED_MAX
        findings = self._diagnosis.findings(self._made.refused) if is_short else []
        extra = {"is_followed": True, "is_over": self._is_over, **more}
        return self._made.last(self._row(), self._source.head, findings, extra, since)

    def _read(self) -> None:
        """Take in the events that are new."""
        source = self._source
        head, before = self._reader.head(source.session_id), self._seq
        if head.seq < before:
            raise _cut_off(source.session_id, head.seq, before)
        upto = min(head.seq, before + _READ_MAX)
        for page in self._reader.checked_pages(source.session_id, upto, after=self._head):
            rows = whole(page)
            for row, event in zip(rows, source.events(rows), strict=True):
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
