"""A batch in few values comes out of SQLite as the rows that went in, with any contents."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import Fenced, StoreFailed, WrongHead
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import DIGEST_BYTES, HashChain, Sealing
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.protocol import GENESIS, Append, Head, Sealed
from callboard.runtime.log.sqlite import batch as sqlite_batch
from callboard.runtime.log.sqlite.batch import (
    BLOB,
    TEXT,
    BatchPlan,
    Chunk,
    KnownHead,
    Rows,
    insert_batch,
    make_batch_view,
)
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.schema import SEQ_BITS, Blobs, pragma
from tests.effort import effort
from tests.runtime.log.kit import events

ODD = "\"\\'\x01\x1f\x7f\u2028\U0001f4de\ufffd%s?;:{}[]\n\t"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
BODIES = st.one_of(
    st.binary(min_size=1, max_size=60),
    TEXTS.map(lambda text: f"[{text}]".encode()),
    st.just(b'{"a":"\0\xff"}' * 9),
)
INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)
LARGE = st.one_of(BODIES, st.sampled_from([b'"one that many need"', b"null"]))
CUTS = st.builds(lambda offset, data: Cut(offset, blob_digest(data), data), st.integers(0, 2**40), LARGE)
SEALED = st.builds(
    Sealed,
    seq=st.integers(1, 2**32 - 1),
    at=INTEGERS,
    sender=TEXTS,
    recipient=TEXTS,
    cause=INTEGERS,
    body=BODIES,
    cuts=st.lists(CUTS, max_size=3).map(tuple),
    digest=st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES),
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    prepare(made, tmp_path / "log.db", "process", HashChain())
    yield made
    made.close()


def sealed(seq: int = 1, at: int = 1, body: bytes = b"{}", sender: str = "host", cause: int = 0) -> Sealed:
    return Sealed(seq, at, sender, "supervisor", cause, body, (), bytes([seq % 256]) * DIGEST_BYTES)


def add(rows: Rows, base: int, given: list[Sealed]) -> None:
    """Return rows as a store adds them: events and their sealing."""
    cuts = {at: row.cuts for at, row in enumerate(given) if row.cuts}
    sealing = Sealing([row.body for row in given], [row.digest for row in given], cuts)
    rows.add(base, [event_of(row) for row in given], sealing)


def event_of(row: Sealed) -> Event:
    return Event(row.seq, row.at, row.sender, row.recipient, row.cause, Cancel(""))


def stored(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Return every row, with its types; texts as bytes, which need not be UTF-8."""
    query = (
        "SELECT id, at, sender, recipient, cause, CAST(body AS BLOB), digest, "
        "typeof(at), typeof(sender), typeof(recipient), typeof(cause), typeof(body), typeof(digest) "
        "FROM events ORDER BY id"
    )
    return connection.execute(query).fetchall()


TYPES = ("integer", "text", "text", "integer", "text", "blob")


@settings(max_examples=effort(25, 500), deadline=None, derandomize=True)
@given(st.lists(SEALED, max_size=8), st.integers(0, 8), st.sampled_from([30, 4 * 2**20]))
def test_every_row_is_stored_byte_for_byte(given: list[Sealed], known: int, chunk_bytes: int) -> None:
    """Insert large values that are in the file already, in the same batch, or new."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    prepare_tables(connection)
    given = [replace(row, seq=number) for number, row in enumerate(given, 1)]
    names: set[bytes] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_batch, "CHUNK_BYTES", chunk_bytes)
        for part in (given[:known], given[known:]):
            rows = Rows(known=names)
            add(rows, 0, part)
            rows.insert(connection)
            names |= rows.names
    assert stored(connection) == [
        (row.seq, row.at, row.sender, row.recipient, row.cause, row.body, row.digest, *TYPES) for row in given
    ]
    assert [cuts_of(connection, row.seq) for row in given] == [row.cuts for row in given]
    assert names == {cut.digest for row in given for cut in row.cuts}
    assert names == {name for (name,) in connection.execute("SELECT digest FROM blobs")}
    used = connection.execute("SELECT digest FROM uses JOIN blobs ON id = blob WHERE session = 0")
    assert names == {name for (name,) in used}
    connection.close()


def cuts_of(connection: sqlite3.Connection, seq: int) -> tuple[Cut, ...]:
    """Return the values that were cut out of a row, as a reader finds them."""
    blobs = Blobs(connection, None, lambda data: (blob_digest(data), data))
    (cuts,) = connection.execute("SELECT cuts FROM events WHERE id = ?", (seq,)).fetchone()
    return () if cuts is None else blobs.cuts("s", seq, cuts)


def prepare_tables(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE uses(blob INTEGER, session INTEGER, PRIMARY KEY(blob, session))")
    connection.execute(
        "CREATE TABLE events(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, sender TEXT NOT NULL, "
        "recipient TEXT NOT NULL, cause INTEGER NOT NULL, body TEXT NOT NULL, cuts TEXT, "
        "digest BLOB NOT NULL)"
    )
    connection.execute(
        "CREATE TABLE blobs(id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, data TEXT NOT NULL)"
    )


def test_ids_at_the_end_of_their_range_stay_whole(connection: sqlite3.Connection) -> None:
    rows = Rows()
    add(rows, 2**63 - 1, [sealed()])
    rows.insert(connection)
    assert stored(connection)[0][0] == 2**63 - 1


def test_odd_characters_of_an_address_survive(connection: sqlite3.Connection) -> None:
    rows = Rows()
    add(rows, 0, [sealed(sender=ODD)])
    rows.insert(connection)
    assert stored(connection)[0][2] == ODD


def test_no_rows_are_no_statement(connection: sqlite3.Connection) -> None:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    Rows().insert(connection)
    assert statements == []


def test_a_statement_is_bounded_in_size_and_a_body_is_not(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_batch, "CHUNK_BYTES", 100)
    sizes = [90, 20, 500, 30, 30, 30, 30]
    rows = Rows()
    for first in (0, 4):  # as two sessions of one batch
        part = [sealed(at, body=b"x" * size) for at, size in enumerate(sizes, 1) if (at > 4) == bool(first)]
        add(rows, 0, part)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    rows.insert(connection)
    assert len(statements) == 3  # 90 + 20, 500, the rest
    found = stored(connection)
    assert [len(bytes(row[5])) for row in found] == sizes  # type: ignore[call-overload]  # the column holds bytes
    assert [row[6] for row in found] == [bytes([n]) * DIGEST_BYTES for n in range(1, 8)]


def test_large_values_count_for_the_size_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_batch, "CHUNK_BYTES", 100)
    data = b"x" * 60
    rows = Rows()
    add(rows, 0, [replace(sealed(1), cuts=(Cut(0, blob_digest(data), data),))])
    add(rows, 0, [sealed(2, body=b"y" * 50)])
    add(rows, 0, [sealed(3, body=b"z")])
    assert rows.only_chunk() is None, "there are two: the first was full"


def test_a_large_value_is_sent_once_and_not_if_the_file_has_it() -> None:
    new, old = b'"new"' * 300, b'"old"' * 300
    cuts = [Cut(at, blob_digest(data), data) for at, data in enumerate((new, old, new))]
    rows = Rows(known={blob_digest(old)})
    add(rows, 0, [replace(sealed(1), cuts=tuple(cuts)), replace(sealed(2), cuts=tuple(cuts))])
    chunk = rows.only_chunk()
    assert chunk is not None
    assert chunk["data"] == new
    assert rows.size == 2 * len(b"{}") + len(new)


# --- a batch in one statement: all of it, or nothing where something is not as it was thought to be --------

ONE = json.dumps([[1, 1, 0, 3]])
"""Session 1, under epoch 1, goes on from event 0 to event 3."""


@pytest.fixture
def two_sessions(connection: sqlite3.Connection) -> sqlite3.Connection:
    for name in "ab":
        connection.execute(
            "INSERT INTO sessions(session_id, epoch, head, created_ms, title, origin) "
            "VALUES (?, 1, 0, 1, '', ?)",
            (name, GENESIS),
        )
    return connection


def chunk(kind: str = TEXT, count: int = 3) -> Chunk:
    rows = Rows(kind)
    given = events(1, count)
    rows.add(1 << SEQ_BITS, given, HashChain().seal_all("a", GENESIS, given))
    made = rows.only_chunk()
    assert made is not None
    return made


def heads_and_rows(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    heads = connection.execute("SELECT head, epoch FROM sessions ORDER BY id").fetchall()
    return [
        *heads,
        *connection.execute("SELECT id & 0xffffffff, typeof(body) FROM events ORDER BY id").fetchall(),
    ]


UNTOUCHED = [(0, 1), (0, 1)]


@pytest.mark.parametrize(("kind", "stored_as"), [(TEXT, "text"), (BLOB, "blob")])
def test_rows_and_heads_go_in_together(two_sessions: sqlite3.Connection, kind: str, stored_as: str) -> None:
    make_batch_view(two_sessions, kind)
    assert pragma(two_sessions, "temp_store") == 2  # in memory
    assert insert_batch(two_sessions, pragma(two_sessions, "data_version"), ONE, "[]", chunk(kind))
    assert heads_and_rows(two_sessions) == [(3, 1), (0, 1), *[(seq, stored_as) for seq in (1, 2, 3)]]
    assert not two_sessions.in_transaction


@pytest.mark.parametrize(
    "moves",
    [
        [[1, 1, 1, 3]],
        [[1, 2, 0, 3]],
        [[9, 1, 0, 3]],
        [[1, 1, 0, 3], [2, 1, 5, 6]],
        [[1, 1, 0, 3], [2, 2, 0, 0]],
    ],
    ids=["another head", "another epoch", "no session", "one of two", "the epoch of one of two"],
)
def test_a_session_that_is_elsewhere_keeps_everybody_out(
    two_sessions: sqlite3.Connection, moves: list[list[int]]
) -> None:
    make_batch_view(two_sessions, TEXT)
    assert not insert_batch(
        two_sessions, pragma(two_sessions, "data_version"), json.dumps(moves), "[]", chunk()
    )
    assert heads_and_rows(two_sessions) == UNTOUCHED
    assert not two_sessions.in_transaction


def test_any_change_by_another_connection_refuses_the_batch(
    two_sessions: sqlite3.Connection, tmp_path: Path
) -> None:
    make_batch_view(two_sessions, TEXT)
    version = pragma(two_sessions, "data_version")
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    other.execute("UPDATE meta SET value = 'somebody else' WHERE key = 'owner'")
    other.close()
    assert not insert_batch(two_sessions, version, ONE, "[]", chunk())
    assert heads_and_rows(two_sessions) == UNTOUCHED
    assert insert_batch(two_sessions, pragma(two_sessions, "data_version"), ONE, "[]", chunk()), "asked again"


def test_a_row_that_is_there_already_keeps_its_place(two_sessions: sqlite3.Connection) -> None:
    make_batch_view(two_sessions, TEXT)
    version = pragma(two_sessions, "data_version")
    assert insert_batch(two_sessions, version, ONE, "[]", chunk())
    two_sessions.execute("UPDATE sessions SET head = 0")
    before = two_sessions.execute("SELECT * FROM events").fetchall()
    assert not insert_batch(two_sessions, version, ONE, "[]", chunk(count=2))
    assert two_sessions.execute("SELECT * FROM events").fetchall() == before


def test_nothing_of_it_is_in_the_file(two_sessions: sqlite3.Connection, tmp_path: Path) -> None:
    make_batch_view(two_sessions, TEXT)
    other = sqlite3.connect(tmp_path / "log.db")
    names = {name for (name,) in other.execute("SELECT name FROM sqlite_master")}
    other.close()
    assert not names & {"batch", "insert_batch"}


# --- the plan of a batch -----------------------------------------------------------------------------------

CIPHER = Cipher(b"e" * 32, b"salt" * 4)
OPENED = SessionOpened(2, "chief", (), ModelSpec("m"), tags=("t",))
KNOWN = {"a": KnownHead(1, 1, 0, GENESIS), "b": KnownHead(2, 1, 0, GENESIS)}


def appended(*bodies: Any, head: int = 0, at: int = 10, name: str = "a", epoch: int = 1) -> Append:
    """Return messages that continue a session."""
    made = [Event(seq, at + seq, "host", SUPERVISOR, 0, body) for seq, body in enumerate(bodies, head + 1)]
    return Append(name, head, epoch, made)


def add_all(plan: BatchPlan, *parts: Append) -> list[Head | Exception]:
    """Add parts as a store does: each goes on from the head that the plan knows."""
    return [plan.add(part, plan.heads.get(part.session_id, KNOWN[part.session_id])) for part in parts]


@pytest.mark.parametrize("cipher", [None, CIPHER], ids=["readable", "encrypted"])
def test_the_parts_of_a_session_in_a_batch_are_one_move_and_one_change(
    two_sessions: sqlite3.Connection, cipher: Cipher | None
) -> None:
    kind = BLOB if cipher else TEXT
    make_batch_view(two_sessions, kind)
    plan, ask = BatchPlan(Rows(kind, cipher=cipher), HashChain(), cipher), Ask("r", text_json("x" * 5_000))
    parts = [
        appended(OPENED, ask),
        appended(Cancel(""), name="b", at=70),
        appended(AskEnded("r", "answered"), head=2, at=20),
        appended(head=3),
    ]
    answers = add_all(plan, *parts)
    assert not plan.is_refused
    assert json.loads(plan.moves()) == [[1, 1, 0, 3, 23], [2, 1, 0, 1, 71]]
    assert json.loads(plan.changes()) == [[1, "open", "answered", "chief", 0, True]]
    assert plan.opened == {"a": OPENED}
    chunk = plan.rows.only_chunk()
    assert chunk is not None
    assert insert_batch(
        two_sessions, pragma(two_sessions, "data_version"), plan.moves(), plan.changes(), chunk
    )
    found = two_sessions.execute("SELECT head, last_ms, status, kind, host FROM sessions ORDER BY id")
    assert found.fetchall() == [(3, 23, "open", "answered", "chief"), (1, 71, "open", "", "")]
    chain, previous = HashChain(), GENESIS
    sealing = chain.seal_all(
        "a", GENESIS, [event for part in parts if part.session_id == "a" for event in part.events]
    )
    rows = two_sessions.execute(
        "SELECT id & 0xffffffff, CAST(body AS BLOB), digest FROM events WHERE id >> 32 = 1"
    )
    for (seq, body, digest), plain, sealed_as in zip(rows, sealing.bodies, sealing.digests, strict=True):
        assert (cipher.open(("event", "a", seq), body) if cipher else body) == plain
        assert (digest, previous) == (sealed_as, previous)
    assert answers == [
        Head(2, sealing.digests[1]),
        Head(1, plan.heads["b"].digest),
        Head(3, sealing.digests[2]),
        Head(3, sealing.digests[2]),
    ]
    assert plan.heads["a"] == KnownHead(1, 1, 3, sealing.digests[2])


def test_a_part_without_events_moves_nothing_and_changes_no_row() -> None:
    plan = BatchPlan(Rows(), HashChain(), None)
    assert add_all(plan, appended()) == [Head(0, GENESIS)]
    assert json.loads(plan.moves()) == [[1, 1, 0, 0, None]]
    assert (plan.changes(), plan.opened, plan.rows.only_chunk()) == ("[]", {}, None)


def test_one_part_that_is_refused_refuses_the_batch_and_is_not_in_its_plan() -> None:
    unwritable = appended(Ask("\ud800", text_json("go")))
    for refused, error in (
        (appended(Cancel(""), epoch=2), Fenced),
        (appended(Cancel(""), head=4), WrongHead),
        (unwritable, StoreFailed),
    ):
        plan = BatchPlan(Rows(), HashChain(), None)
        plan.answers = add_all(plan, refused, appended(Cancel(""), name="b"))
        assert isinstance(plan.answers[0], error)
        assert plan.is_refused
        assert [*plan.heads] == ["b"]
        assert json.loads(plan.moves()) == [[2, 1, 0, 1, 11]]
