"""A batch: its plan, and the one statement that writes it, with its rows, heads, and conditions.

The statement is an INSERT into a temporary view. The view's trigger refuses if another connection has changed
the file since `data_version` was read, as its owner may be another process by now; if a session is not where
its writer believes; and if a row needs a large value that is neither in the batch nor in the file. Then it
moves the heads, and inserts the large values and the rows. A refused statement has changed nothing. The
caller then writes the batch statement by statement, which names the error.
"""

import sqlite3
from typing import Final

import msgspec

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import UNWRITABLE, HashChain
from callboard.runtime.log.protocol import Append, Head, refusal
from callboard.runtime.log.sqlite.rows import Chunk, Rows, inserts_from
from callboard.runtime.log.sqlite.schema import SEQ_BITS

# Moves the heads of sessions that are at their expected one: [[number, epoch, from, to], ...].
MOVE_HEADS: Final = (
    "UPDATE sessions SET head = json_extract(m.value, '$[3]') FROM json_each({}) AS m "
    "WHERE sessions.id = json_extract(m.value, '$[0]') AND epoch = json_extract(m.value, '$[1]') "
    "AND head = json_extract(m.value, '$[2]')"
)
_VIEW: Final = """CREATE TEMP VIEW batch AS
SELECT NULL AS version, NULL AS moves, NULL AS rows, NULL AS bodies, NULL AS digests,
       NULL AS pieces, NULL AS data, NULL AS names"""
_TRIGGER: Final = """CREATE TEMP TRIGGER insert_batch INSTEAD OF INSERT ON batch BEGIN
SELECT RAISE(ABORT, 'changed') WHERE (SELECT data_version FROM pragma_data_version) IS NOT NEW.version;
{moved};
SELECT RAISE(ABORT, 'elsewhere') WHERE changes() IS NOT json_array_length(NEW.moves);
{pieces};
{rows};
END"""
# While the main thread computes without pause, every call into SQLite gives the interpreter lock away and
# waits for milliseconds to get it back. Five statements wait five times; this one waits once, and SQLite does
# all its work on another core, fsync included.
_INSERT: Final = (
    "INSERT INTO batch VALUES (:version, :moves, :rows, :bodies, :digests, :pieces, :data, :names)"
)

_encode = msgspec.json.Encoder().encode


def make_batch_view(connection: sqlite3.Connection, kind: str) -> None:
    """Make the view and its trigger, once for a connection. kind: TEXT or BLOB, the type of bodies."""
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(_VIEW)
    pieces, rows = inserts_from("NEW.", kind)
    connection.execute(_TRIGGER.format(moved=MOVE_HEADS.format("NEW.moves"), pieces=pieces, rows=rows))


def insert_batch(connection: sqlite3.Connection, version: int, moves: str, chunk: Chunk) -> bool:
    """Append a chunk of rows. Return False if it was refused and nothing has changed."""
    try:
        connection.execute(_INSERT, {"version": version, "moves": moves, **chunk})
    except sqlite3.IntegrityError:
        return False
    return True


class KnownHead(msgspec.Struct, gc=False):
    """A session as its owner remembers it: number in the file, epoch, head, the head's digest."""

    number: int
    epoch: int
    head: int
    digest: bytes


class BatchPlan:
    """The plan of one batch. answers: one per session. heads: of the sessions, after the batch."""

    def __init__(self, rows: Rows, hash_chain: HashChain, cipher: Cipher | None) -> None:
        self.answers: list[Head | Exception] = []
        self.rows = rows
        self.heads: dict[str, KnownHead] = {}
        self._moves: dict[str, tuple[int, int, int, int]] = {}
        self._hash_chain = hash_chain
        self._cipher = cipher

    @property
    def is_refused(self) -> bool:
        """True if a session of the batch is refused."""
        return any(isinstance(answer, Exception) for answer in self.answers)

    def moves(self) -> str:
        """Return number, epoch, former and new head of every session of the batch, as JSON."""
        return _encode(list(self._moves.values())).decode()

    def add(self, part: Append, known: KnownHead) -> Head | Exception:
        """Seal one session's events, all or none. Return its answer. known: its head so far."""
        if refused := refusal(part, known.epoch, known.head):
            return refused
        try:
            sealing = self._hash_chain.seal_all(part.session_id, known.digest, part.events)
            if self._cipher is not None:
                seal, events = self._cipher.seal, zip(part.events, sealing.bodies, strict=True)
                bodies = [seal(("event", part.session_id, event.seq), body) for event, body in events]
                sealing = sealing._replace(bodies=bodies)
        except UNWRITABLE as error:  # of one session only: the others of the batch go on
            return StoreFailed(f"session {part.session_id}: an event cannot be written: {error}")
        head = known.head + len(part.events)
        digest = sealing.digests[-1] if sealing.digests else known.digest
        self.rows.add(known.number << SEQ_BITS, part.events, sealing)
        _, _, before, _ = self._moves.get(part.session_id, (0, 0, known.head, 0))
        self._moves[part.session_id] = (known.number, known.epoch, before, head)
        self.heads[part.session_id] = KnownHead(known.number, known.epoch, head, digest)
        return Head(head, digest)
