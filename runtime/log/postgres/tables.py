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
from callboard.runtime.log.hash_chain import DIGEST_BYTES, corrupt
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.postgres.arrays import byteas, int8s, texts
from callboard.runtime.log.postgres.link import Link, Row
from callboard.runtime.log.postgres.schema import quoted
from callboard.runtime.log.protocol import Head, Sealed, Segment, Stored, no_session
from callboard.runtime.log.session_rows import HIDDEN, Details, SessionQuery, SessionRow
from callboard.runtime.log.stored_values import (
    damaged_session,
    decrypted,
    details_in,
    title_in,
    whole_body,
    without_parent,
)

SEQ_MAX: Final = (1 << 63) - 1
_ENTRIES: Final = (  # ordered, because locks are taken in this order
    "SELECT session_id, id, epoch, head, digest, origin, base, parent, status FROM {s}.sessions "
    "WHERE session_id = ANY(%s) ORDER BY id"
)
_DETAILS: Final = (
    f"SELECT session_id, details FROM {{s}}.sessions WHERE session_id = ANY(%s) AND status <> '{HIDDEN}'"
)
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
ROWS: Final = (
    "SELECT seq, at, sender, recipient, cause, body, digest, cuts FROM {s}.events "
    "WHERE session = %s AND seq BETWEEN %s AND %s ORDER BY seq LIMIT %s"
)
_OWN_ROWS: Final = ROWS.replace("ORDER BY", "AND (recipient = %s OR sender = %s) ORDER BY")
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
    base: int
    parent: str
    is_hidden: bool

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
        found = self.entries((session_id,), hidden=hidden, lock=lock)
        if session_id not in found:
            raise no_session(session_id)
        return found[session_id]

    def entries(
        self, session_ids: Collection[str], *, hidden: bool = False, lock: str = ""
    ) -> dict[str, Entry]:
        """Return those sessions that the log has, by their ids. hidden, lock: as in `entry`."""
        names = texts(filter(is_text, session_ids))
        found = [self._entry(*row) for row in self.rows(f"{_ENTRIES} {lock}", (names,))]
        return {one.session_id: one for one in found if hidden or not one.is_hidden}

    @staticmethod
    def _entry(
        session_id: str,
        number: int,
        epoch: int,
        head: int,
        digest: bytes,
        origin: bytes,
        base: int,
        parent: str,
        status: str,
    ) -> Entry:
        if epoch < 1 or not 0 <= base <= head or bool(parent) != (base != 0) or len(digest) != DIGEST_BYTES:
            raise damaged_session(session_id)
        if len(origin) != DIGEST_BYTES:
            raise corrupt(session_id, 1, "continues no digest of 32 bytes")
        lineage = (base, parent, status == HIDDEN)
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
        found = self.details_of_all((session_id,))
        if session_id not in found:
            raise no_session(session_id)
        return found[session_id]

    def details_of_all(self, session_ids: Collection[str]) -> dict[str, Details]:
        """Return tags and metadata of those sessions that the log has, by their ids."""
        rows = self.rows(_DETAILS, (texts(filter(is_text, session_ids)),))
        return {name: self.details(name, stored) for name, stored in rows}

    def waiting_since(self, session_ids: Sequence[str]) -> list[int | SessionNotFound]:
        """Return since when sessions wait, as `EventLog.waiting_since` does."""
        found = self.details_of_all(session_ids)
        return [found[name].waits_ms if name in found else no_session(name) for name in session_ids]

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
                rows += self._stored(part, self.rows(ROWS, (*bounds, limit - len(rows))))
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

    def digest_at(self, entry: Entry, seq: int) -> bytes:
        """Return the digest of an event of the session. Raises CorruptLog."""
        rows = self.rows("SELECT digest FROM {s}.events WHERE session = %s AND seq = %s", (entry.number, seq))
        if not rows:
            raise corrupt(entry.session_id, seq, "is missing")
        return bytes(rows[0][0])

    def _stored(self, entry: Entry, page: list[Row]) -> list[Stored]:
        made, blobs = [], self._blobs(entry, page)
        for seq, at, sender, recipient, cause, body, digest, kept in page:
            if self._cipher is not None:
                body = decrypted(self._cipher, entry.session_id, seq, body)
            if kept is not None:
                body = whole_body(entry.session_id, seq, body, _cuts(entry, seq, kept, blobs))
            made.append(Stored(seq, at, sender, recipient, cause, body, digest))
        return made

    def sealed(self, entry: Entry, page: list[Row], *, with_data: bool) -> list[Sealed]:
        """Return rows of a session as its log keeps them. with_data: with the bytes of large values."""
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
