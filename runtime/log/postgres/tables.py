"""Queries on the sessions and events of a log, for its writers and its readers.

Every page is one statement, so that no reader keeps a snapshot that would hold VACUUM up.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import SessionNotFound
from callboard.runtime.log.cipher import Cipher, Unopenable
from callboard.runtime.log.hash_chain import DIGEST_BYTES, HashChain, corrupt, last_head
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.postgres.arrays import byteas, int8s, texts
from callboard.runtime.log.postgres.link import Link, Row
from callboard.runtime.log.postgres.schema import quoted
from callboard.runtime.log.protocol import TAIL_EVENTS, Head, Sealed, Segment, Stored, no_session
from callboard.runtime.log.session_rows import HIDDEN, Details, SessionQuery, SessionRow
from callboard.runtime.log.stored_values import (
    damaged_session,
    decrypted,
    details_in,
    title_in,
    whole_body,
    whole_row,
    without_parent,
)

SEQ_MAX: Final = (1 << 63) - 1
_ENTRY: Final = (
    "SELECT id, epoch, head, digest, origin, base, parent, status FROM {s}.sessions WHERE session_id = %s"
)
_DETAILS: Final = f"SELECT details FROM {{s}}.sessions WHERE session_id = %s AND status <> '{HIDDEN}'"
_SESSIONS: Final = (
    "SELECT id, session_id, epoch, head, created_ms, title, status, kind, failures, last_ms, host, details, "
    "parent, base FROM {s}.sessions WHERE "
)
_STANDINGS: Final = (
    "SELECT k.name, s.head, s.status = 'closed', s.epoch FROM unnest(%s, %s) AS k(name, seq) "
    f"LEFT JOIN {{s}}.sessions AS s ON s.session_id = k.name AND s.status <> '{HIDDEN}' "
    "WHERE s.head IS NULL OR s.head <> k.seq OR s.status = 'closed'"
)
_ORDER: Final = " ORDER BY created_ms DESC, id DESC LIMIT %s"
_ROWS: Final = (
    "SELECT seq, at, sender, recipient, cause, body, digest, cuts FROM {s}.events "
    "WHERE session = %s AND seq BETWEEN %s AND %s ORDER BY seq LIMIT %s"
)
_OWN_ROWS: Final = _ROWS.replace("ORDER BY", "AND (recipient = %s OR sender = %s) ORDER BY")
_BLOBS: Final = "SELECT digest, data FROM {s}.blobs WHERE digest = ANY(%s)"
_FORKS: Final = "SELECT session_id, base FROM {s}.sessions WHERE parent = %s AND parent <> '' ORDER BY id"

_places = msgspec.json.Decoder(list[tuple[int, str]]).decode
_FIELDS: Final = SessionRow.__struct_fields__[:-1]  # the usage is in a table of its own


class Entry(NamedTuple):
    """A session's row. is_hidden: it was deleted, apart from the events that its forks share."""

    session_id: str
    number: int
    epoch: int
    head: Head
    origin: bytes
    base: int = 0
    parent: str = ""
    is_hidden: bool = False

    @property
    def before(self) -> Head:
        """Return the head that its own first event continues."""
        return Head(self.base, self.origin)

    @property
    def segment(self) -> Segment:
        """Return the segment of the session's own events."""
        return Segment(self.session_id, self.before, self.head.seq)


class Standing(NamedTuple):
    """Where a session stands. head: the seq of its latest event. is_closed: no further event is to come.

    epoch: of its writer.
    """

    head: int
    is_closed: bool
    epoch: int


class Tables:
    """Reads the tables of a log. Raises CorruptLog for damaged rows."""

    def __init__(self, link: Link, cipher: Cipher | None = None) -> None:
        self.link = link
        self.schema = quoted(link.address.schema)
        self._cipher = cipher

    def rows(self, query: str, values: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a query, in which `{s}` stands for the schema."""
        return self.link.read(query.replace("{s}", self.schema), values)

    # --- sessions -----------------------------------------------------------------

    def entry(self, session_id: str, *, hidden: bool = False, lock: str = "") -> Entry:
        """Return the session; with `hidden` also one that was deleted. Raises SessionNotFound.

        lock: the lock of its row that the transaction takes, such as "FOR UPDATE".
        """
        if not is_text(session_id):
            raise no_session(session_id)
        rows = self.rows(f"{_ENTRY} {lock}", (session_id,))
        if not rows:
            raise no_session(session_id)
        number, epoch, head, digest, origin, base, parent, status = rows[0]
        is_hidden = status == HIDDEN
        if is_hidden and not hidden:
            raise no_session(session_id)
        if epoch < 1 or not 0 <= base <= head or bool(parent) != (base != 0) or len(digest) != DIGEST_BYTES:
            raise damaged_session(session_id)
        if len(origin) != DIGEST_BYTES:
            raise corrupt(session_id, 1, "continues no digest of 32 bytes")
        lineage = (base, parent, is_hidden)
        return Entry(session_id, number, epoch, Head(head, digest), origin, *lineage)

    def standings(self, known: Collection[tuple[str, int]]) -> dict[str, Standing | None]:
        """Return where those sessions stand that do not end at this seq, or are closed.

        None for one that is unknown or deleted.
        """
        asked = [(name, min(seq, SEQ_MAX)) for name, seq in known if is_text(name)]
        values = texts(name for name, _ in asked), int8s([seq for _, seq in asked])
        found: dict[str, Standing | None] = {name: None for name, _ in known if not is_text(name)}
        for name, head, is_closed, epoch in self.rows(_STANDINGS, values):
            found[name] = None if head is None else Standing(head, is_closed, epoch)
        return found

    def lineage(self, entry: Entry) -> list[Entry]:
        """Return a session behind those that it shares events with, the oldest first.

        The head of each of them is the last event that is shared. Raises CorruptLog.
        """
        found = [entry]
        while (child := found[0]).parent:
            try:
                parent = self.entry(child.parent, hidden=True)
            except SessionNotFound:
                raise without_parent(child.session_id, child.parent, child.base) from None
            if not parent.base < child.base <= parent.head.seq:  # so no chain of parents is a circle
                raise without_parent(child.session_id, child.parent, child.base)
            found.insert(0, parent._replace(head=child.before))
        return found

    def _parts(
        self, entry: Entry, first: int, last: int = SEQ_MAX
    ) -> Iterator[tuple[Entry, tuple[int, ...]]]:
        """Yield the sessions under which these seqs may stand, each with its number, first and last seq."""
        *shared, own = self.lineage(entry) if entry.parent else (entry,)
        for one in shared:
            yield one, (one.number, max(first, one.base + 1), min(last, one.head.seq))
        yield own, (own.number, max(first, own.base + 1), last)

    def forks(self, session_id: str) -> dict[str, int]:
        """Return the sessions that share events of this one: the last shared seq of each, by its id."""
        return dict(self.rows(_FORKS, (session_id,)))

    def sessions(self, query: SessionQuery) -> list[SessionRow]:
        """Return the chosen sessions, newest first."""
        wanted = [(clause, values) for clause, values in self._conditions(query) if None not in values]
        clauses = " AND ".join(clause for clause, _ in wanted)
        bounds = [*chain.from_iterable(values for _, values in wanted), query.limit]
        return [self._session_row(row) for row in self.rows(f"{_SESSIONS}{clauses}{_ORDER}", bounds)]

    def _conditions(self, query: SessionQuery) -> Iterator[tuple[str, tuple[str | int | None, ...]]]:
        """Yield each condition with its values; None in them says that it is not wanted."""
        at, number = query.place or (None, None)
        tag = query.tag
        yield f"status <> '{HIDDEN}'", ()
        yield (
            "id IN (SELECT session FROM {s}.tags WHERE tag = %s)",
            (None if tag is None else self.stored_tag(tag),),
        )
        yield "status = %s", (query.status,)
        yield "last_ms >= %s", (query.since_ms,)
        yield "(created_ms, id) < (%s, %s)", (at, number)

    def stored_tag(self, tag: str) -> str:
        """Return the form in which a tag stands in the log."""
        return tag if self._cipher is None else self._cipher.tag(tag)

    def stored_text(self, place: str, session_id: str, text: str) -> str:
        """Return a title or details as the log has them. An empty text is not encrypted."""
        if self._cipher is None or not text:
            return text.replace("\0", "\N{REPLACEMENT CHARACTER}")  # which PostgreSQL keeps in no text
        return self._cipher.seal((place, session_id), text.encode()).hex()  # type: ignore[arg-type]  # one of the places

    def details(self, session_id: str, stored: str) -> Details:
        """Return tags and metadata of a session; none if they cannot be read."""
        return details_in(self._cipher, session_id, self._kept(stored)) if stored else Details()

    def details_of(self, session_id: str) -> Details:
        """Return tags and metadata of a session. Raises SessionNotFound."""
        rows = self.rows(_DETAILS, (session_id,)) if is_text(session_id) else []
        if not rows:
            raise no_session(session_id)
        return self.details(session_id, rows[0][0])

    def _kept(self, stored: str) -> bytes:
        try:
            return stored.encode() if self._cipher is None else bytes.fromhex(stored)
        except ValueError:
            return b"?"  # which does not decrypt

    def _session_row(self, row: Row) -> SessionRow:
        number, session_id, epoch, head, created_ms, title, status, kind, failures, last_ms = row[:10]
        host, details, parent, base = row[10:]
        found = self.details(session_id, details)
        shown = title_in(self._cipher, session_id, self._kept(title)) if title else ""
        values = (session_id, epoch, head, created_ms, shown, number, status, kind, failures, last_ms, host)
        values = (*values, *msgspec.structs.astuple(found), parent, base)
        try:
            return msgspec.convert(dict(zip(_FIELDS, values, strict=True)), SessionRow)
        except msgspec.ValidationError:
            raise damaged_session(session_id) from None

    # --- events -------------------------------------------------------------------

    def events(self, session_id: str, start: int, limit: int, *, hidden: bool = False) -> list[Stored]:
        """Return up to `limit` events from seq `start`. Raises SessionNotFound."""
        rows: list[Stored] = []
        for part, bounds in self._parts(self.entry(session_id, hidden=hidden), start):
            if len(rows) < limit and bounds[1] <= bounds[2]:
                rows += self._stored(part, self.rows(_ROWS, (*bounds, limit - len(rows))))
        return rows

    def events_of(self, session_id: str, address: str, first: int, last: int, limit: int) -> list[Stored]:
        """Return up to `limit` events that an actor received or posted. Raises SessionNotFound."""
        rows: list[Stored] = []
        for part, bounds in self._parts(self.entry(session_id), first, last):
            if len(rows) < limit and bounds[1] <= bounds[2] and is_text(address):
                rows += self._stored(
                    part, self.rows(_OWN_ROWS, (*bounds, address, address, limit - len(rows)))
                )
        return rows

    def checked_pages(
        self,
        hash_chain: HashChain,
        entry: Entry,
        upto: int,
        known: Head | None = None,
        after: Head | None = None,
        *,
        with_data: bool = True,
    ) -> Iterator[list[Sealed]]:
        """Yield rows 1 to `upto`, checked, in pages. With the last event, its place as the last one too."""
        session_id = entry.session_id
        parts = {part.session_id: part for part in self.lineage(entry)}
        behind = None  # the row after the last page, if it was asked for

        def read(name: str, start: int, limit: int) -> list[Sealed]:
            nonlocal behind
            part = parts[name]
            bounds = (part.number, max(start, part.base + 1), SEQ_MAX, limit + 1)
            rows = self.rows(_ROWS, bounds)
            behind = rows[limit:]
            return self._sealed(part, rows[:limit], with_data=with_data)

        segments = [part.segment for part in parts.values()]
        yield from hash_chain.checked_pages(segments, read, upto, known, after)
        if upto >= entry.head.seq and not entry.is_hidden:
            if behind is None or entry.head.seq == entry.base:
                behind = self.rows(_ROWS, (entry.number, entry.head.seq + 1, SEQ_MAX, 1))
            # Asked again: a live owner may have appended since, and moves the head with the events.
            if behind and self.entry(session_id).head.seq < behind[0][0]:
                raise corrupt(session_id, behind[0][0], "comes after the last one of its session")

    def verify(self, hash_chain: HashChain, entry: Entry, known: Head | None = None) -> Head:
        """Check every digest and return the head. known: one that the log must still contain."""
        upto = max(entry.head.seq, known.seq if known else 0)
        head = last_head(self.checked_pages(hash_chain, entry, upto, known, with_data=False), entry.before)
        self._check_head(entry, head)
        return head

    def checked(self, hash_chain: HashChain, session_id: str, after: Head | None, limit: int) -> list[Stored]:
        """Return events whose digests were recomputed, as `EventLog.checked` does."""
        entry = self.entry(session_id)
        upto = min(entry.head.seq, (after.seq if after else 0) + limit)
        rows = [row for page in self.checked_pages(hash_chain, entry, upto, after=after) for row in page]
        if rows:
            self._check_head(entry, Head(rows[-1].seq, rows[-1].digest))
        return [whole_row(session_id, row) for row in rows]

    def verify_tail(self, hash_chain: HashChain, entry: Entry) -> None:
        """Check the last events of a session, whose row the transaction has locked. Raises CorruptLog."""
        first = max(entry.base, entry.head.seq - TAIL_EVENTS)
        before = entry.before
        if first > entry.base:
            before = Head(first, self.digest_at(entry, first))
        pages = self.checked_pages(hash_chain, entry, entry.head.seq, after=before, with_data=False)
        self._check_head(entry, last_head(pages, before))

    def digest_at(self, entry: Entry, seq: int) -> bytes:
        """Return the digest of an event of the session. Raises CorruptLog."""
        rows = self.rows("SELECT digest FROM {s}.events WHERE session = %s AND seq = %s", (entry.number, seq))
        if not rows:
            raise corrupt(entry.session_id, seq, "is missing")
        return bytes(rows[0][0])

    def _check_head(self, entry: Entry, head: Head) -> None:
        if head.seq == entry.head.seq and head.digest != entry.head.digest:
            raise corrupt(entry.session_id, max(1, head.seq), "is not the one that its session ends with")

    def _stored(self, entry: Entry, page: list[Row]) -> list[Stored]:
        made, blobs = [], self._blobs(entry, page)
        for seq, at, sender, recipient, cause, body, digest, kept in page:
            if self._cipher is not None:
                body = decrypted(self._cipher, entry.session_id, seq, body)
            if kept is not None:
                body = whole_body(entry.session_id, seq, body, _cuts(entry, seq, kept, blobs))
            made.append(Stored(seq, at, sender, recipient, cause, body, digest))
        return made

    def _sealed(self, entry: Entry, page: list[Row], *, with_data: bool) -> list[Sealed]:
        made, blobs = [], self._blobs(entry, page)
        for seq, at, sender, recipient, cause, body, digest, kept in page:
            if self._cipher is not None:
                body = decrypted(self._cipher, entry.session_id, seq, body)
            cuts = () if kept is None else _cuts(entry, seq, kept, blobs)
            if not with_data:
                cuts = tuple(one._replace(data=b"") for one in cuts)
            made.append(Sealed(seq, at, sender, recipient, cause, body, cuts, digest))
        return made

    def _blobs(self, entry: Entry, page: list[Row]) -> dict[bytes, bytes]:
        """Return the large values of a page, by the digests under which they are kept."""
        odd = [row for row in page if row[7] is not None]
        if not odd:
            return {}
        wanted = {name for row in odd for _, name in places_of(entry.session_id, row[0], row[7])}
        rows = self.rows(_BLOBS, (byteas(sorted(wanted)),))
        if self._cipher is None:
            return dict(rows)
        found = {}
        for digest, data in rows:
            with suppress(Unopenable):  # then its event lacks it
                found[digest] = self._cipher.open(("blob", digest), data)
        return found


def places_of(session_id: str, seq: int, cuts: str) -> list[tuple[int, bytes]]:
    """Return offsets and digests of the large values of an event. Raises CorruptLog."""
    try:
        return [(offset, bytes.fromhex(name)) for offset, name in _places(cuts)]
    except ValueError:  # as of msgspec, too
        raise corrupt(session_id, seq, "holds a damaged place of a large value") from None


def _cuts(entry: Entry, seq: int, kept: str, blobs: dict[bytes, bytes]) -> tuple[Cut, ...]:
    """Return the cuts of an event, each with the digest of the data that is there."""
    try:
        found = [(offset, blobs[name]) for offset, name in places_of(entry.session_id, seq, kept)]
    except KeyError:
        raise corrupt(entry.session_id, seq, "lacks a large value") from None
    return tuple(Cut(offset, blob_digest(data), data) for offset, data in found)


def is_text(text: str) -> bool:
    """Return whether PostgreSQL can hold a text: one without NUL and without lone surrogates."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
