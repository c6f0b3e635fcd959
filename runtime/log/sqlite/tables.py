"""Queries on the sessions and events of a log, for its owner and its readers.

Every page is one statement, read to its end at once, so that no read transaction outlives the call: one
that stays open keeps SQLite from reusing the WAL (118 MiB after 20,000 inserts, measured).
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, starmap
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from callboard.actors.protocol.errors import CorruptLog, SessionNotFound
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import DIGEST_BYTES, FILE_PAGE_EVENTS, HashChain, corrupt, last_head
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.protocol import TAIL_EVENTS, Head, Sealed, Segment, Stored, no_session
from callboard.runtime.log.session_rows import HIDDEN, Details, SessionQuery, SessionRow
from callboard.runtime.log.sqlite.schema import NUMBER_MAX, SEQ_BITS, SEQ_MAX, Blobs, Kept, typed
from callboard.runtime.log.sqlite.store_errors import error_code
from callboard.runtime.log.stored_values import (
    damaged_session,
    decrypted,
    details_in,
    title_in,
    whole_body,
    whole_row,
    without_parent,
)

_EPOCH, _HEAD = typed("epoch", "integer"), typed("head", "integer")
_HAS_TITLE: Final = "title <> '' OR kind <> '' OR status <> 'open'"  # as `has_title` of session_rows
_SESSION: Final = (
    f"SELECT id, {_EPOCH}, {_HEAD}, ifnull({typed('origin', 'blob')}, x''), CAST(parent AS BLOB), "
    f"ifnull({typed('base', 'integer')}, -1), CAST(status AS BLOB), {_HAS_TITLE} "
    f"FROM sessions WHERE session_id = ?"
)
_SESSIONS: Final = (
    f"SELECT id, CAST(session_id AS BLOB), {_EPOCH}, {_HEAD}, {typed('created_ms', 'integer')}, "
    f"CAST(title AS BLOB), CAST(status AS BLOB), CAST(kind AS BLOB), {typed('failures', 'integer')}, "
    f"{typed('last_ms', 'integer')}, CAST(host AS BLOB), CAST(details AS BLOB), CAST(parent AS BLOB), "
    f"{typed('base', 'integer')} "
    "FROM {} ORDER BY created_ms DESC, id DESC LIMIT ?"
)
_FORKS: Final = (
    "SELECT CAST(session_id AS BLOB), base FROM sessions WHERE parent = ? AND parent <> '' ORDER BY id"
)
# `CROSS JOIN` makes SQLite begin with the tag, of which few sessions are, and not with the newest sessions.
_OF_TAG: Final = "tags CROSS JOIN sessions ON id = tags.session WHERE tag = ?"
# Texts as bytes: a damaged byte is then a wrong digest with a seq, not a decoding error without one.
_ROWS: Final = (
    "SELECT id & 0xffffffff, at, CAST(sender AS BLOB), CAST(recipient AS BLOB), cause, "
    "CAST(body AS BLOB), digest, CAST(cuts AS BLOB) FROM events WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
)
# No index on the addresses: a scan costs 0.2 us a row, an index would cost every append 1 us and a page.
_OWN_ROWS: Final = _ROWS.replace("ORDER BY", "AND (recipient = ? OR sender = ?) ORDER BY")
_DAMAGED: Final = (
    "SELECT id & 0xffffffff FROM events WHERE id BETWEEN ? AND ? AND NOT (typeof(at) = 'integer' "
    "AND typeof(cause) = 'integer' AND typeof(digest) = 'blob' AND sender IS NOT NULL "
    "AND recipient IS NOT NULL AND body IS NOT NULL) ORDER BY id LIMIT 1"
)

# A damaged field may have any type, and may be None: `_is_sound` and a check of digests find it.
_Row: TypeAlias = tuple[int, int, bytes, bytes, int, bytes, bytes, bytes | None]
_SessionRow: TypeAlias = tuple[
    int,
    bytes | None,
    int | None,
    int | None,
    int | None,
    bytes | None,
    bytes | None,
    bytes | None,
    int | None,
    int | None,
    bytes | None,
    bytes | None,
    bytes | None,
    int | None,
]
_Fields: TypeAlias = tuple[int, int, str, str, int, bytes, tuple[Cut, ...], bytes]  # those of `Sealed`

_FIELDS: Final = SessionRow.__struct_fields__[:-1]  # the usage is in a table of its own


class SessionEntry(NamedTuple):
    """A session in its file: its number there, and the values of its row.

    is_hidden: it was deleted, apart from the events that its forks share. has_title: the next ask gives none.
    """

    session_id: str
    number: int
    epoch: int
    head: int
    origin: bytes
    parent: str
    base: int
    is_hidden: bool
    has_title: bool

    @property
    def segment(self) -> Segment:
        """Return the segment of the session's own events."""
        return Segment(self.session_id, Head(self.base, self.origin), self.head)

    def ids(self, first: int = 1, last: int = SEQ_MAX) -> tuple[int, int]:
        """Return the first and last row id of these seqs, as far as the events are its own."""
        number = self.number << SEQ_BITS
        return number | min(max(first, self.base + 1), SEQ_MAX), number | min(last, SEQ_MAX)


class Tables:
    """Reads the tables of a log. Raises CorruptLog for damaged rows.

    reported: the context in which a page is read for a check; gets the session and the first seq.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        cipher: Cipher | None = None,
        reported: Callable[[str, int], AbstractContextManager[None]] = lambda *page: nullcontext(),
    ) -> None:
        self._connection = connection
        self._cipher = cipher
        self._reported = reported

    # --- sessions -----------------------------------------------------------------

    def entry(self, session_id: str, *, hidden: bool = False) -> SessionEntry:
        """Return the session; with `hidden` also one that was deleted. Raises SessionNotFound."""
        row = self._connection.execute(_SESSION, (session_id,)).fetchone()
        if row is None:
            raise no_session(session_id)
        number, epoch, head, origin, parent, base, status, has_title = row
        lineage = (_text(parent), base, _text(status) == HIDDEN)
        entry = SessionEntry(session_id, number, epoch, head, origin, *lineage, bool(has_title))
        if entry.is_hidden and not hidden:
            raise no_session(session_id)
        if not 0 < entry.number <= NUMBER_MAX or _is_damaged(entry.epoch, entry.head):
            raise damaged_session(session_id)
        if bool(parent) != (entry.base != 0) or not 0 <= entry.base <= entry.head:
            raise damaged_session(session_id)
        if len(entry.origin) != DIGEST_BYTES:
            raise corrupt(session_id, 1, "continues no digest of 32 bytes")
        return entry

    def lineage(self, entry: SessionEntry) -> list[SessionEntry]:
        """Return a session behind those that it shares events with, the oldest first.

        The head of each of them is the last event that is shared. Raises CorruptLog.
        """
        found = [entry]
        while (child := found[0]).parent:
            try:
                parent = self.entry(child.parent, hidden=True)
            except SessionNotFound:
                raise without_parent(child.session_id, child.parent, child.base) from None
            if not parent.base < child.base <= parent.head:  # so no chain of parents is a circle
                raise without_parent(child.session_id, child.parent, child.base)
            found.insert(0, parent._replace(head=child.base))
        return found

    def _parts(
        self, entry: SessionEntry, first: int, last: int = SEQ_MAX
    ) -> Iterator[tuple[SessionEntry, tuple[int, int]]]:
        """Yield the sessions under which these seqs may stand, each with its first and last row id."""
        *shared, own = self.lineage(entry) if entry.parent else (entry,)
        for one in shared:
            yield one, one.ids(first, min(last, one.head))
        yield own, own.ids(first, last)

    def forks(self, session_id: str) -> dict[str, int]:
        """Return the sessions that share events of this one: the last shared seq of each, by its id."""
        return {
            _text(name): base for name, base in self._connection.execute(_FORKS, (session_id,)).fetchall()
        }

    def head_of(self, entry: SessionEntry) -> Head:
        """Return the head of a session, which its last event must have."""
        if entry.head == entry.base:
            return Head(entry.base, entry.origin)
        query = f"SELECT {typed('digest', 'blob')} FROM events WHERE id = ?"
        row = self._connection.execute(query, (entry.ids(entry.head)[0],)).fetchone()
        if row is None:
            raise corrupt(entry.session_id, entry.head, "is missing, and it was the last one")
        if row[0] is None:
            raise corrupt(entry.session_id, entry.head, "has no digest")
        return Head(entry.head, row[0])

    def sessions(self, query: SessionQuery) -> list[SessionRow]:
        """Return the chosen sessions, newest first."""
        # Only the wanted conditions: `? IS NULL OR status = ?` would use no index.
        wanted = [(clause, values) for clause, values in self._conditions(query) if None not in values]
        source = f"sessions WHERE status <> '{HIDDEN}'" if query.tag is None else _OF_TAG
        chosen = "".join([source, *(clause for clause, _ in wanted)])
        limit = -1 if query.limit is None else query.limit
        bounds = [*chain.from_iterable(values for _, values in wanted), limit]
        rows = self._connection.execute(_SESSIONS.format(chosen), bounds).fetchall()
        return [self._session_row(row) for row in rows]

    def _conditions(self, query: SessionQuery) -> Iterator[tuple[str, tuple[str | int | None, ...]]]:
        """Yield each condition with its values; None in them says that it is not wanted."""
        at, number = query.place or (None, None)
        yield "", (None if query.tag is None else self.stored_tag(query.tag),)
        yield " AND status = ?", (query.status,)
        yield " AND last_ms >= ?", (query.since_ms,)
        yield " AND created_ms <= ? AND (created_ms, id) < (?, ?)", (at, at, number)

    def stored_tag(self, tag: str) -> str:
        """Return the form in which a tag stands in the file."""
        return tag if self._cipher is None else self._cipher.tag(tag)

    def details(self, session_id: str, stored: bytes | None) -> Details:
        """Return tags and metadata of a session; none if they cannot be read."""
        if stored is None:
            return Details()
        return details_in(self._cipher, session_id, stored)

    def details_of(self, entry: SessionEntry) -> Details:
        """Return tags and metadata of a session."""
        query = "SELECT CAST(details AS BLOB) FROM sessions WHERE id = ?"
        return self.details(entry.session_id, self._connection.execute(query, (entry.number,)).fetchone()[0])

    def last_ms(self, entry: SessionEntry) -> int:
        """Return the time of a session's last event; 0 without one, or if it is damaged."""
        query = f"SELECT ifnull({typed('last_ms', 'integer')}, 0) FROM sessions WHERE id = ?"
        row = self._connection.execute(query, (entry.number,)).fetchone()
        return 0 if row is None else int(row[0])

    def write_details(self, entry: SessionEntry, details: Details) -> None:
        """Write tags and metadata of a session, inside a transaction."""
        text: str | bytes = msgspec.json.encode(details).decode()
        if self._cipher is not None:
            text = self._cipher.seal(("details", entry.session_id), msgspec.json.encode(details))
        execute = self._connection.execute
        execute("UPDATE sessions SET details = ? WHERE id = ?", (text, entry.number))
        for tag in details.tags:
            execute("INSERT OR IGNORE INTO tags VALUES (?, ?)", (self.stored_tag(tag), entry.number))

    def _session_row(self, row: _SessionRow) -> SessionRow:
        number, name, epoch, head, created_ms, title, status, kind, failures, last_ms = row[:10]
        host, details, parent, base = row[10:]
        try:
            session_id = str(name or b"\xff", "utf-8")
        except UnicodeDecodeError:
            raise CorruptLog(f"session number {number} has a damaged id; restore a copy of the log") from None
        if _is_damaged(epoch, head):
            raise damaged_session(session_id)
        found = self.details(session_id, details)
        texts = (title_in(self._cipher, session_id, title or b""), number, _text(status), _text(kind))
        state = (failures, last_ms, _text(host))
        fork = (_text(parent), base)
        values = (session_id, epoch, head, created_ms, *texts, *state, *structs.astuple(found), *fork)
        try:
            return msgspec.convert(dict(zip(_FIELDS, values, strict=True)), SessionRow)
        except msgspec.ValidationError:
            raise damaged_session(session_id) from None

    # --- events -------------------------------------------------------------------

    def events(self, session_id: str, start: int, limit: int, *, hidden: bool = False) -> list[Stored]:
        """Return up to `limit` events from seq `start`. Raises SessionNotFound."""
        rows: list[Stored] = []
        for part, ids in self._parts(self.entry(session_id, hidden=hidden), start):
            rows += self._stored(part, self._page(part, _ROWS, (*ids, limit - len(rows))))
        return rows

    def events_of(self, session_id: str, address: str, first: int, last: int, limit: int) -> list[Stored]:
        """Return up to `limit` events that an actor received or posted. Raises SessionNotFound."""
        rows: list[Stored] = []
        for part, ids in self._parts(self.entry(session_id), first, last):
            bounds = (*ids, address, address, limit - len(rows))
            rows += self._stored(part, self._page(part, _OWN_ROWS, bounds))
        return rows

    def checked_pages(
        self,
        hash_chain: HashChain,
        entry: SessionEntry,
        upto: int,
        known: Head | None = None,
        after: Head | None = None,
        kept: Kept = lambda data: (blob_digest(data), data),
    ) -> Iterator[list[Sealed]]:
        """Yield rows 1 to `upto`, checked, in pages. With the last event, its place as the last one too."""
        session_id = entry.session_id
        parts = {part.session_id: part for part in self.lineage(entry)}

        def read(name: str, start: int, limit: int) -> list[Sealed]:
            part = parts[name]
            with self._reported(session_id, start):
                page = self._page(part, _ROWS, (*part.ids(start), limit))
                return list(starmap(Sealed, self._rows(part, page, kept)))

        segments = [part.segment for part in parts.values()]
        yield from hash_chain.checked_pages(segments, read, upto, known, after, FILE_PAGE_EVENTS)
        if upto >= entry.head and not entry.is_hidden:
            with self._reported(session_id, upto):
                later = self._page(entry, _ROWS, (*entry.ids(entry.head + 1), 1))
                # Asked again: a live owner may have appended since, and moves the head with the events.
                if later and self.entry(session_id).head < later[0][0]:
                    raise corrupt(session_id, later[0][0], "comes after the last one of its session")

    def verify(self, hash_chain: HashChain, entry: SessionEntry, known: Head | None = None) -> Head:
        """Check every digest and return the head. known: one that the log must still contain."""
        upto = max(entry.head, known.seq if known else 0)
        # Without their data: the large values of a page may be more than fits into memory.
        pages = self.checked_pages(hash_chain, entry, upto, known, kept=_without_data)
        return last_head(pages, entry.segment.before)

    def verify_tail(self, hash_chain: HashChain, entry: SessionEntry) -> Head:
        """Check the last events of a session and return its head. Raises CorruptLog."""
        first = max(entry.base, entry.head - TAIL_EVENTS)
        before = self.head_of(entry._replace(head=first))
        pages = self.checked_pages(hash_chain, entry, entry.head, after=before, kept=_without_data)
        return last_head(pages, before)

    def checked(self, hash_chain: HashChain, session_id: str, after: Head | None, limit: int) -> list[Stored]:
        """Return events whose digests were recomputed, as `EventLog.checked` does."""
        entry = self.entry(session_id)
        upto = min(entry.head, (after.seq if after else 0) + limit)
        pages = self.checked_pages(hash_chain, entry, upto, after=after)
        return [whole_row(session_id, row) for page in pages for row in page]

    def _page(self, entry: SessionEntry, query: str, bounds: tuple[int | str, ...]) -> list[_Row]:
        try:
            rows: list[_Row] = self._connection.execute(query, bounds).fetchall()
        except sqlite3.OperationalError as error:
            if error_code(error):
                raise
            # sqlite3 itself raised: a text in the place of a number or a digest is not UTF-8.
            raise self._damaged_event(entry) from None
        return rows

    def _damaged_event(self, entry: SessionEntry) -> CorruptLog:
        row = self._connection.execute(_DAMAGED, entry.ids()).fetchone()
        return corrupt(entry.session_id, row[0] if row else entry.head, "holds a field of another type")

    def _stored(self, entry: SessionEntry, page: list[_Row]) -> list[Stored]:
        if not all(map(_is_sound, page)):
            raise self._damaged_event(entry)
        made, rows = [], self._rows(entry, page, lambda data: (b"", data))
        # Not by way of `Sealed`, which takes a quarter longer.
        for seq, at, sender, recipient, cause, body, cuts, digest in rows:
            whole = whole_body(entry.session_id, seq, body, cuts) if cuts else body
            made.append(Stored(seq, at, sender, recipient, cause, whole, digest))
        return made

    def _rows(self, entry: SessionEntry, page: list[_Row], kept: Kept) -> Iterator[_Fields]:
        session_id, blobs = entry.session_id, Blobs(self._connection, self._cipher, kept)
        # The few addresses of a page are decoded once each and shared.
        names = {name: _address(name) for at in (2, 3) for name in set(map(itemgetter(at), page))}
        for seq, at, sender, recipient, cause, body, digest, cuts in page:
            if self._cipher is not None:
                body = decrypted(self._cipher, session_id, seq, body)
            found = () if cuts is None else blobs.cuts(session_id, seq, cuts)
            yield seq, at, names[sender], names[recipient], cause, body, found, digest


def _without_data(data: bytes) -> tuple[bytes, bytes]:
    return blob_digest(data), b""


def _address(name: bytes | None) -> str:
    # No address holds NUL, so the digest of an event whose address is gone cannot match.
    return "\0" if name is None else name.decode("utf-8", "replace")


def _text(stored: bytes | None) -> str:
    return str(stored or b"", "utf-8", "replace")


def _is_damaged(epoch: int | None, head: int | None) -> bool:
    return epoch is None or epoch < 1 or head is None or not 0 <= head <= SEQ_MAX


def _is_sound(row: _Row) -> bool:
    kinds = (type(row[1]), type(row[4]), type(row[6]))
    return kinds == (int, int, bytes) and None not in (row[2], row[3], row[5])
