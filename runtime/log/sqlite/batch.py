"""A batch: its plan, and the one statement that writes all of it, so that SQLite does its work in one go.

A chunk of rows goes over in few values: all bodies end to end, all digests end to end, and small fields as
JSON, with the places of the bodies. SQLite takes them apart again. Large values go the same way, before the
rows that need them. Values that the file is known to have are not sent again.

The statement is an INSERT into a temporary view. The view's trigger refuses if another connection has changed
the file since `data_version` was read, as its owner may be another process by now; if a session is not where
its writer believes; and if a row needs a large value that is neither in the batch nor in the file. Then it
moves the heads, and inserts the large values and the rows. A refused statement has changed nothing. The
caller then writes the batch statement by statement, which names the error.
"""

import sqlite3
from collections.abc import Container, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Final, TypeAlias

import msgspec

from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.session.budget_keys import SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import DIGEST_BYTES, UNWRITABLE, HashChain, Sealing
from callboard.runtime.log.large_values import Cut
from callboard.runtime.log.protocol import Append, Head, refusal
from callboard.runtime.log.session_rows import NO_CHANGE, RowChange, change_of, title_of
from callboard.runtime.log.sqlite.schema import SEQ_BITS
from callboard.runtime.log.sqlite.spending import STATEMENTS
from callboard.runtime.log.usage_rows import Place, summed

CHUNK_BYTES: Final = 4 * 2**20  # beyond this a statement gets no further row: SQLite copies them
TEXT: Final = "CAST({} AS TEXT)"
BLOB: Final = "{}"  # SQL for a stored body or large value: readable, or encrypted

# A value is bound with the interpreter lock held, and a row has eight of them: 1.3 us a row, of 1.6 us that
# an INSERT of 256 rows takes. In a chunk a row takes 0.2 us with the lock and 1.8 us without it, on another
# core (CPython 3.11, SQLite 3.40, batches of 512 rows with bodies of 180 bytes).
Chunk: TypeAlias = dict[str, str | bytes]
"""The parameters of the statements. For rows: `rows`, `bodies`, `digests`. For large values: `names`, their
digests end to end; `data`; and `pieces`, the place of each in the data, or null if it is not sent.
"""

# Without large values no row is looked at for cuts: a look costs 0.1 us.
_INSERT_ROWS: Final = """INSERT INTO events
SELECT json_extract(row.value, '$[0]'),
       json_extract(row.value, '$[1]'),
       json_extract(row.value, '$[2]'),
       json_extract(row.value, '$[3]'),
       json_extract(row.value, '$[4]'),
       {body},
       CASE WHEN length({of}names) AND json_extract(row.value, '$[7]') IS NOT NULL THEN ({cuts}) END,
       substr({of}digests, row.key * {size} + 1, {size})
FROM json_each({of}rows) AS row"""
_BODY: Final = "substr({of}bodies, json_extract(row.value, '$[5]'), json_extract(row.value, '$[6]'))"
_CUTS: Final = """SELECT {checked} FROM (
    SELECT json_extract(cut.value, '$[0]') AS offset, blobs.id AS number
    FROM json_each(row.value, '$[7]') AS cut
    LEFT JOIN blobs ON digest = substr({of}names, json_extract(cut.value, '$[1]') * {size} + 1, {size})
    ORDER BY cut.key)"""
_NUMBERED: Final = "json_group_array(json_array(offset, number))"
_ALL_NUMBERED: Final = f"CASE count(*) WHEN count(number) THEN {_NUMBERED} ELSE RAISE(ABORT, 'lost') END"
_INSERT_PIECES: Final = """INSERT INTO blobs(digest, data)
SELECT substr({of}names, piece.key * {size} + 1, {size}), {data}
FROM json_each({of}pieces) AS piece WHERE piece.type = 'array'
ON CONFLICT(digest) DO NOTHING"""
_INSERT_USES: Final = """INSERT INTO uses
SELECT blobs.id, json_extract(use.value, '$[0]')
FROM json_each({of}uses) AS use
JOIN blobs ON digest = substr({of}names, json_extract(use.value, '$[1]') * {size} + 1, {size})
WHERE true ON CONFLICT DO NOTHING"""
_DATA: Final = "substr({of}data, json_extract(piece.value, '$[0]'), json_extract(piece.value, '$[1]'))"
# Moves the heads of sessions that are at their expected one: [[number, epoch, from, to, last time], ...].
MOVE_HEADS: Final = (
    "UPDATE sessions SET head = json_extract(m.value, '$[3]'), "
    "last_ms = ifnull(json_extract(m.value, '$[4]'), last_ms) FROM json_each({}) AS m "
    "WHERE sessions.id = json_extract(m.value, '$[0]') AND epoch = json_extract(m.value, '$[1]') "
    "AND head = json_extract(m.value, '$[2]')"
)
# Changes the rows of sessions: [[number, *RowChange], ...]. A statement of its own: most batches
# change none, and every write of the column also writes its index.
CHANGE_ROWS: Final = (
    "UPDATE sessions SET kind = ifnull(nullif(json_extract(c.value, '$[2]'), ''), kind), "
    "host = ifnull(nullif(json_extract(c.value, '$[3]'), ''), host), "
    "failures = json_extract(c.value, '$[4]') + iif(json_extract(c.value, '$[5]'), 0, failures), "
    "status = ifnull(nullif(json_extract(c.value, '$[1]'), ''), status) FROM json_each({}) AS c "
    "WHERE sessions.id = json_extract(c.value, '$[0]')"
)
_VIEW: Final = """CREATE TEMP VIEW batch AS
SELECT NULL AS version, NULL AS moves, NULL AS changes, NULL AS rows, NULL AS bodies, NULL AS digests,
       NULL AS pieces, NULL AS data, NULL AS names, NULL AS uses"""
# Batches that settle calls go by views of their own: the others need no such statements, and those without
# budgets above their sessions only the last one.
_MORE: Final = {"": (), "usage_": ("usage",), "spending_": ("charges", "reserved", "settled", "usage")}
"""The prefixes of the views, and the further columns of each."""

_TRIGGER: Final = """CREATE TEMP TRIGGER insert_{view} INSTEAD OF INSERT ON {view} BEGIN
SELECT RAISE(ABORT, 'changed') WHERE (SELECT data_version FROM pragma_data_version) IS NOT NEW.version;
{moved};
SELECT RAISE(ABORT, 'elsewhere') WHERE changes() IS NOT json_array_length(NEW.moves);
{changed};
{pieces};
{uses};
{rows};
{spending}
END"""
# While the main thread computes without pause, every call into SQLite gives the interpreter lock away and
# waits for milliseconds to get it back. Five statements wait five times; this one waits once, and SQLite does
# all its work on another core, fsync included.
_INSERT: Final = (
    "INSERT INTO batch VALUES "
    "(:version, :moves, :changes, :rows, :bodies, :digests, :pieces, :data, :names, :uses)"
)

_INSERTS: Final = {
    frozenset(columns): _INSERT.replace("INTO batch", f"INTO {prefix}batch").removesuffix(")")
    + "".join(f", :{one}" for one in columns)
    + ")"
    for prefix, columns in _MORE.items()
}

_NO_PIECES: Final[Chunk] = {"pieces": "[]", "names": b"", "data": b"", "uses": "[]"}

_encode = msgspec.json.Encoder().encode


@cache
def inserts_from(of: str, kind: str) -> tuple[str, str, str]:
    """Return the statements that insert a chunk's large values, their uses, and its rows. of: `:`, `NEW.`."""
    # In a trigger (`NEW.`) a large value that is not in the file is an error.
    cuts = _CUTS.format(of=of, size=DIGEST_BYTES, checked=_ALL_NUMBERED if of == "NEW." else _NUMBERED)
    body, data = kind.format(_BODY.format(of=of)), kind.format(_DATA.format(of=of))
    return (
        _INSERT_PIECES.format(of=of, size=DIGEST_BYTES, data=data),
        _INSERT_USES.format(of=of, size=DIGEST_BYTES),
        _INSERT_ROWS.format(of=of, size=DIGEST_BYTES, body=body, cuts=cuts),
    )


class _Pieces:
    """The large values of a chunk, once each."""

    def __init__(self, known: Container[bytes], cipher: Cipher | None) -> None:
        self.size = 0
        self._known = known
        self._cipher = cipher
        self._numbers: dict[bytes, int] = {}
        self._places: list[tuple[int, int] | None] = []
        self._data: list[bytes] = []
        self._uses: dict[tuple[int, int], None] = {}

    def number(self, session: int, digest: bytes, data: bytes) -> int:
        """Return the number in this chunk of a value that was cut out of the body of a session's row."""
        if digest not in self._numbers:
            self._numbers[digest] = len(self._numbers)
            self._places.append(None if digest in self._known else self._added(digest, data))
        number = self._numbers[digest]
        self._uses[session, number] = None
        return number

    def _added(self, digest: bytes, data: bytes) -> tuple[int, int]:
        kept = data if self._cipher is None else self._cipher.seal(("blob", digest), data)
        self._data.append(kept)
        self.size += len(kept)
        return self.size - len(kept) + 1, len(kept)  # SQLite counts from 1

    def chunk(self) -> Chunk:
        """Return the chunk's parameters for large values."""
        if not self._numbers:
            return _NO_PIECES
        places, names = _encode(self._places).decode(), b"".join(self._numbers)
        uses = _encode(list(self._uses)).decode()
        return {"pieces": places, "names": names, "data": b"".join(self._data), "uses": uses}


class Rows:
    """New rows of `events`. known: digests of large values that the file certainly has. size: in bytes."""

    def __init__(self, kind: str = TEXT, known: Container[bytes] = (), cipher: Cipher | None = None) -> None:
        self.size = 0
        self.names: set[bytes] = set()
        self._known = known
        self._cipher = cipher
        self._insert_pieces, self._insert_uses, self._insert = inserts_from(":", kind)
        self._chunks: list[Chunk] = []
        self._begin()

    def _begin(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._bodies: list[bytes] = []
        self._digests: list[bytes] = []
        self._pieces = _Pieces(self._known, self._cipher)
        self._end = 1  # where the next body begins: SQLite counts from 1

    def add(self, base: int, events: Sequence[Event], sealing: Sealing) -> None:
        """Add rows behind all others. base: the part of their ids above the seq."""
        if sealing.cuts or self._end + self._pieces.size + sum(map(len, sealing.bodies)) > CHUNK_BYTES:
            self._add_one_by_one(base, events, sealing)
            return
        sizes = [len(body) for body in sealing.bodies]
        *places, self._end = accumulate(sizes, initial=self._end)
        self._rows += [
            (base | event.seq, event.at, event.sender, event.recipient, event.cause, place, size)
            for event, place, size in zip(events, places, sizes, strict=True)
        ]
        self._bodies += sealing.bodies
        self._digests += sealing.digests

    def _add_one_by_one(self, base: int, events: Sequence[Event], sealing: Sealing) -> None:
        """Add rows that have large values, or fill more than one chunk."""
        sealed, cuts = zip(events, sealing.bodies, sealing.digests, strict=True), sealing.cuts
        for at, (event, body, digest) in enumerate(sealed):
            size = len(body)
            row = (base | event.seq, event.at, event.sender, event.recipient, event.cause, self._end, size)
            self._rows.append((*row, self._numbered(base >> SEQ_BITS, cuts[at])) if at in cuts else row)
            self._bodies.append(body)
            self._digests.append(digest)
            self._end += size
            if self._end + self._pieces.size > CHUNK_BYTES:
                self._finish()

    def _numbered(self, session: int, cuts: Sequence[Cut]) -> list[tuple[int, int]]:
        self.names.update(cut.digest for cut in cuts)
        return [(offset, self._pieces.number(session, digest, data)) for offset, digest, data in cuts]

    def only_chunk(self) -> Chunk | None:
        """Return the chunk if there is exactly one."""
        self._finish()
        return self._chunks[0] if len(self._chunks) == 1 else None

    def insert(self, connection: sqlite3.Connection) -> None:
        """Insert all rows, in as few statements as their size allows."""
        self._finish()
        for chunk in self._chunks:
            if chunk["names"]:
                connection.execute(self._insert_pieces, chunk)
                connection.execute(self._insert_uses, chunk)
            connection.execute(self._insert, chunk)

    def _finish(self) -> None:
        if self._rows:
            self.size += self._end - 1 + self._pieces.size
            bodies, digests = b"".join(self._bodies), b"".join(self._digests)
            rows = _encode(self._rows).decode()
            self._chunks.append({"rows": rows, "bodies": bodies, "digests": digests, **self._pieces.chunk()})
            self._begin()


def make_batch_view(connection: sqlite3.Connection, kind: str) -> None:
    """Make the view and its trigger, once for a connection. kind: TEXT or BLOB, the type of bodies."""
    connection.execute("PRAGMA temp_store = MEMORY")
    pieces, uses, rows = inserts_from("NEW.", kind)
    moved, changed = MOVE_HEADS.format("NEW.moves"), CHANGE_ROWS.format("NEW.changes")
    parts = {"moved": moved, "changed": changed, "pieces": pieces, "uses": uses, "rows": rows}
    for prefix, columns in _MORE.items():
        nulls = "".join(f", NULL AS {one}" for one in columns)
        connection.execute(_VIEW.replace("batch", f"{prefix}batch") + nulls)
        spending = "".join(f"{STATEMENTS[one].format('NEW.')};" for one in columns)
        connection.execute(_TRIGGER.format(view=f"{prefix}batch", spending=spending, **parts))


def insert_batch(
    connection: sqlite3.Connection,
    version: int,
    moves: str,
    changes: str,
    chunk: Chunk,
    spending: Mapping[str, str] | None = None,
) -> bool:
    """Append a chunk of rows. Return False if it was refused and nothing has changed.

    spending: the parameters of the statements for spending; None for no change.
    """
    statement = _INSERTS[frozenset(spending or ())]
    parameters = {"version": version, "moves": moves, "changes": changes, **chunk, **(spending or {})}
    try:
        connection.execute(statement, parameters)
    except sqlite3.IntegrityError:
        return False
    return True


def kept_title(cipher: Cipher | None, session_id: str, title: str) -> str | bytes:
    """Return a title as the file has it. An empty one is not encrypted, so that SQL knows it."""
    return title if cipher is None or not title else cipher.seal(("title", session_id), title.encode())


class KnownHead(msgspec.Struct, gc=False):
    """A session as its owner remembers it: number in the file, epoch, head, the head's digest.

    has_title: its next ask gives it none.
    """

    number: int
    epoch: int
    head: int
    digest: bytes
    has_title: bool = True


class BatchPlan:
    """The plan of one batch. answers: one per session. heads: of the sessions, after the batch."""

    def __init__(self, rows: Rows, hash_chain: HashChain, cipher: Cipher | None) -> None:
        self.answers: list[Head | Exception] = []
        self.rows = rows
        self.heads: dict[str, KnownHead] = {}
        self.opened: dict[str, SessionOpened] = {}
        self.titles: dict[str, str | bytes] = {}
        self.spending: list[SpendingChange] = []
        self.usage: dict[tuple[int, Place], Usage] = {}
        self._moves: dict[str, tuple[int, int, int, int, int | None]] = {}
        self._changes: dict[str, RowChange] = {}
        self._hash_chain = hash_chain
        self._cipher = cipher

    @property
    def settles(self) -> bool:
        """Return True if calls are reserved or settled."""
        return bool(self.spending or self.usage)

    @property
    def takes_steps(self) -> bool:
        """Return True if one statement is not enough: a session gets a title or details, or is refused."""
        return bool(self.opened or self.titles) or self.is_refused  # in a transaction it may not be

    @property
    def is_refused(self) -> bool:
        """True if a session of the batch is refused."""
        return any(isinstance(answer, Exception) for answer in self.answers)

    def moves(self) -> str:
        """Return number, epoch, former and new head, and last time of each session, as JSON."""
        return _encode(list(self._moves.values())).decode()

    def changes(self) -> str:
        """Return the number and the change of each session whose row changes, as JSON."""
        if not self._changes:
            return "[]"
        found = [(self.heads[name].number, *change[:5]) for name, change in self._changes.items()]
        return _encode(found).decode()

    def _sealed(self, part: Append, known: KnownHead) -> Sealing:
        """Seal events, and encrypt their bodies if the log has a key. Raises one of `UNWRITABLE`."""
        sealing = self._hash_chain.seal_all(part.session_id, known.digest, part.events)
        if self._cipher is None:
            return sealing
        seal, events = self._cipher.seal, zip(part.events, sealing.bodies, strict=True)
        return sealing._replace(
            bodies=[seal(("event", part.session_id, event.seq), body) for event, body in events]
        )

    def add(self, part: Append, known: KnownHead) -> Head | Exception:
        """Seal the events of one session together. Return its answer. known: its head so far."""
        if refused := refusal(part, known.epoch, known.head):
            return refused
        try:
            sealing = self._sealed(part, known)
        except UNWRITABLE as error:  # of one session only: the others of the batch go on
            return StoreFailed(f"session {part.session_id}: an event cannot be written: {error}")
        head = sealing.head(Head(known.head, known.digest))
        self.rows.add(known.number << SEQ_BITS, part.events, sealing)
        _, _, before, _, last_ms = self._moves.get(part.session_id, (0, 0, known.head, 0, None))
        last_ms = part.events[-1].at if part.events else last_ms
        self._moves[part.session_id] = (known.number, known.epoch, before, head.seq, last_ms)
        has_title = self._note(part, known)
        self.heads[part.session_id] = KnownHead(known.number, known.epoch, *head, has_title)
        self.spending += part.spending
        if part.usage:
            self._add_usage(known.number, part.usage)
        return head

    def _add_usage(self, number: int, charges: Sequence[Charge]) -> None:
        for place, usage in summed(charges).items():
            self.usage[number, place] = plus(self.usage.get((number, place), ZERO), usage)

    def _note(self, part: Append, known: KnownHead) -> bool:
        """Note the change that the events make to their session's row. Return whether it has a title then."""
        change = change_of(part.events, self._changes.get(part.session_id, NO_CHANGE))
        if change.opened is not None:
            self.opened[part.session_id] = change.opened
        if change.asked is not None and not known.has_title:
            title = title_of(change.asked.prompt)
            self.titles[part.session_id] = kept_title(self._cipher, part.session_id, title)
        if change is not NO_CHANGE:
            self._changes[part.session_id] = change
        return known.has_title or change.asked is not None
