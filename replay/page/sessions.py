"""The first page of a server: the sessions of its logs. It asks for the rows once it is open.

A row is a list, in the order of `COLUMNS`; `assets/sessions.js` reads it.
"""

from collections.abc import Iterable
from functools import cache, partial
from itertools import islice

import msgspec

from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.errors import CorruptLog, SessionNotFound
from callboard.replay.diagnosis.diagnose import diagnose
from callboard.replay.page.building import BOOT, FIRST_MODULES, framed, script_text
from callboard.replay.reading import Source, titled
from callboard.replay.recording import Recording
from callboard.replay.refused_calls import refused_in
from callboard.replay.search import Query
from callboard.runtime.log.protocol import LogReader
from callboard.runtime.log.session_rows import SessionQuery, SessionRow

COLUMNS = (
    "session", "title", "status", "kind", "outcome", "host", "events", "started", "last", "tokens",
    "micro_usd", "failures", "tags", "parent", "base",
)  # fmt: skip
HITS_MAX = 100
_BEFORE, _BEHIND = 12, 60  # characters around a text that was found
EVENTS_DIAGNOSED_MAX = 5_000
"""A longer session has no findings in the list: its own page has them."""


def sessions_page(boot: bytes) -> bytes:
    """Return the page. boot: its server's words to it."""
    return _frame().replace(BOOT.encode(), boot)


@cache
def _frame() -> bytes:
    return framed("sessions.html", script_text(FIRST_MODULES), is_served=True).encode()


def rows_json(reader: LogReader, limit: int | None = None) -> bytes:
    """Return the rows of the sessions of a log, newest first. limit: the most rows; None for all."""
    found = reader.sessions(SessionQuery(limit=limit))
    rows = list(map(_row, titled(reader, found)))
    return msgspec.json.encode({"columns": COLUMNS, "rows": rows})


def _row(row: SessionRow) -> list[object]:
    status = "waiting" if row.waits_ms and row.status == "unfinished" else row.status
    outcome = STATUS[row.kind] if row.kind else ""
    times = (row.created_ms, row.last_ms or row.created_ms)
    used = (row.usage.tokens, row.usage.micro_usd)
    about = (row.session_id, row.title, status, row.kind, outcome, row.host, row.head)
    return [*about, *times, *used, row.failures, row.tags, row.parent, row.base]


def held_by(reader: LogReader, session_id: str, text: str) -> list[object]:
    """Return how many events of a session hold a text, and of the first the seq, the words and the kind.

    Every digest up to the last one that is counted is checked. At most `HITS_MAX` are counted; the count is
    then "100+". Empty for a session without such an event; for one that cannot be read, 0, 0, the reason, "".
    Raises MisuseError for a text that cannot be searched for.
    """
    query = Query(text=text)
    try:
        hits = list(islice(Recording.open(reader, session_id).search(query), HITS_MAX + 1))
    except (CorruptLog, SessionNotFound) as error:
        return [0, 0, str(error), ""]
    if not hits:
        return []
    first = hits[0]
    count: object = len(hits) if len(hits) <= HITS_MAX else f"{HITS_MAX}+"
    return [count, first.row.seq, around(str(first.value), text), first.kind]


def around(value: str, text: str) -> str:
    """Return a text in one line, with some of what stands before and behind it in a value."""
    at = max(0, value.casefold().find(text.casefold()))
    start, end = max(0, at - _BEFORE), at + len(text) + _BEHIND
    return f"{'…' * (start > 0)}{' '.join(value[start:end].split())}{'…' * (end < len(value))}"


class KnownFindings:
    """The findings of sessions, each counted once for every head. reader: of their log."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._found: dict[str, tuple[int, list[object]]] = {}

    def of(self, session_ids: Iterable[str]) -> dict[str, list[object]]:
        """Return the number of facts and of suspicions of each session, and the first one in words.

        One that is too long to be diagnosed here, or that cannot be read, has an empty list.
        """
        return {name: self._of(name) for name in session_ids}

    def _of(self, session_id: str) -> list[object]:
        source = Source.upto(self._reader, session_id)
        seq, known = self._found.get(session_id, (0, []))
        if seq != source.head.seq:
            known = self._counted(source) if source.head.seq <= EVENTS_DIAGNOSED_MAX else []
            self._found[session_id] = source.head.seq, known
        return known

    def _counted(self, source: Source) -> list[object]:
        found = diagnose(source, partial(refused_in, source))
        facts = [one for one in found if not one.is_maybe]
        first = next(iter([*facts, *found]), None)
        return [len(facts), len(found) - len(facts), first.says if first else ""]
