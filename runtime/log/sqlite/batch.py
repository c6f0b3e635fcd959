"""A batch: its plan, and the one statement that writes all of it, so that SQLite does its work in one go.

The statement is an INSERT into a temporary view. The view's trigger refuses if another connection has changed
the file since `data_version` was read, as its owner may be another process by now; if a session is not where
its writer believes; and if a row needs a large value that is neither in the batch nor in the file. Then it
moves the heads, and inserts the large values and the rows. A refused statement has changed nothing. The
caller then writes the batch statement by statement, which names the error.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.session.budget_keys import SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import UNWRITABLE, HashChain, Sealing
from callboard.runtime.log.protocol import Append, Head, refusal
from callboard.runtime.log.session_rows import NO_CHANGE, RowChange, change_of, title_of
from callboard.runtime.log.spending import Place, summed
from callboard.runtime.log.sqlite.rows import CHUNK_FIELDS, Chunk, Rows, inserts_from
from callboard.runtime.log.sqlite.schema import SEQ_BITS
from callboard.runtime.log.sqlite.spending import STATEMENTS

# SQLite renders `value` as text for each column that reads it, unless a subquery has done it once. OFFSET
# keeps SQLite from folding that subquery into the query.
ONCE: Final = "(SELECT value FROM json_each({}) LIMIT -1 OFFSET 0)"
# Moves the heads of sessions that are at their expected one: [[number, epoch, from, to, last time], ...].
MOVE_HEADS: Final = (
    "UPDATE sessions SET head = json_extract(m.value, '$[3]'), "
    f"last_ms = ifnull(json_extract(m.value, '$[4]'), last_ms) FROM {ONCE} AS m "
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
_FIELDS: Final = ("version", "moves", "changes", *CHUNK_FIELDS)
# Batches with budgets above their sessions go by a view of their own: the others need no such statements. All
# others share one: to compile its trigger takes as long as to look at hundreds of empty lists of usage.
_VIEWS: Final = {
    "batch": (*_FIELDS, "usage"),
    "spending_batch": (*_FIELDS, "charges", "reserved", "settled", "usage"),
}
"""The columns of each view."""

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
_INSERTS: Final = {view: f"INSERT INTO {view} VALUES (:{', :'.join(_VIEWS[view])})" for view in _VIEWS}

NO_SPENDING: Final[Mapping[str, str]] = {"usage": "[]"}

_encode = msgspec.json.Encoder().encode


def make_batch_view(connection: sqlite3.Connection, kind: str) -> None:
    """Make the view and its trigger, once for a connection. kind: TEXT or BLOB, the type of bodies."""
    connection.execute("PRAGMA temp_store = MEMORY")
    pieces, uses, rows = inserts_from("NEW.", kind)
    moved, changed = MOVE_HEADS.format("NEW.moves"), CHANGE_ROWS.format("NEW.changes")
    parts = {"moved": moved, "changed": changed, "pieces": pieces, "uses": uses, "rows": rows}
    for view, columns in _VIEWS.items():
        connection.execute(f"CREATE TEMP VIEW {view} AS SELECT NULL AS {', NULL AS '.join(columns)}")
        spending = "".join(f"{text.format('NEW.')};" for name, text in STATEMENTS.items() if name in columns)
        connection.execute(_TRIGGER.format(view=view, spending=spending, **parts))


def insert_batch(
    connection: sqlite3.Connection,
    version: int,
    moves: str,
    changes: str,
    chunk: Chunk,
    spending: Mapping[str, str] = NO_SPENDING,
) -> bool:
    """Append a chunk of rows. Return False if it was refused and nothing has changed.

    spending: the parameters of the statements for spending and usage.
    """
    view = "spending_batch" if "charges" in spending else "batch"
    parameters = {"version": version, "moves": moves, "changes": changes, **chunk, **spending}
    try:
        connection.execute(_INSERTS[view], parameters)
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
        moved = self._moves.get(part.session_id)
        before, last_ms = (known.head, None) if moved is None else (moved[2], moved[4])
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
