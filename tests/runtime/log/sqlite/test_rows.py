"""Rows in few values come out of SQLite as they went in, with any contents."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.events import Event
from callboard.runtime.log.hash_chain import DIGEST_BYTES, HashChain, Sealing
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.protocol import Sealed
from callboard.runtime.log.sqlite import rows as sqlite_rows
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.rows import (
    CHUNK_BYTES,
    CHUNK_FIELDS,
    ODD_MAX,
    Rows,
)
from callboard.runtime.log.sqlite.schema import SEQ_BITS, Blobs
from tests.effort import effort
from tests.tables import table

ODD = "\"\\'\x01\x1f\x7f\u2028\U0001f4de\ufffd%s?;:{}[]\n\t"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
ADDRESSES = st.one_of(st.sampled_from(["supervisor", "host", "context", "host.1"]), TEXTS)
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
    at=st.one_of(st.integers(2**17 - 2, 2**18 + 1), INTEGERS),
    sender=ADDRESSES,
    recipient=ADDRESSES,
    cause=st.one_of(st.integers(0, 9), st.sampled_from([2**32 - 1, 2**32]), INTEGERS),
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
        patch.setattr(sqlite_rows, "CHUNK_BYTES", chunk_bytes)
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
    monkeypatch.setattr(sqlite_rows, "CHUNK_BYTES", 100)
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
    monkeypatch.setattr(sqlite_rows, "CHUNK_BYTES", 100)
    data = b"x" * 60
    rows = Rows()
    add(rows, 0, [replace(sealed(1), cuts=(Cut(0, blob_digest(data), data),))])
    add(rows, 0, [sealed(2, body=b"y" * 50)])
    add(rows, 0, [sealed(3, body=b"z")])
    assert rows.only_chunk() is None, "there are two: the first was full"


def test_the_large_values_of_rows_that_are_added_together_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_rows, "CHUNK_BYTES", 100)
    values = [letter * 60 for letter in (b"x", b"y", b"z")]
    cuts = [(Cut(0, blob_digest(data), data),) for data in values]
    rows = Rows()
    add(rows, 0, [replace(sealed(seq), cuts=cut) for seq, cut in enumerate(cuts, 1)])
    assert rows.only_chunk() is None, "two fill the first"
    assert [chunk["data"] for chunk in rows._chunks] == [b"x" * 60 + b"y" * 60, b"z" * 60]


def test_rows_that_follow_each_other_need_no_ids() -> None:
    for seqs, has_ids in (((1, 2, 3), False), ((1, 2, 4), True)):
        rows = Rows()
        for seq in seqs:
            add(rows, 0, [sealed(seq)])
        chunk = rows.only_chunk()
        assert chunk is not None
        assert (chunk["ids"] is not None) == has_ids


def test_a_large_value_is_sent_once_and_not_if_the_file_has_it() -> None:
    new, old = b'"new"' * 300, b'"old"' * 300
    cuts = [Cut(at, blob_digest(data), data) for at, data in enumerate((new, old, new))]
    rows = Rows(known={blob_digest(old)})
    add(rows, 0, [replace(sealed(1), cuts=tuple(cuts)), replace(sealed(2), cuts=tuple(cuts))])
    chunk = rows.only_chunk()
    assert chunk is not None
    assert chunk["data"] == new
    assert rows.size == 2 * len(b"{}") + len(new)


def fitting(count: int, **changed: object) -> list[Sealed]:
    return [replace(sealed(seq, at=1_790_000_000_000), **changed) for seq in range(1, count + 1)]


def test_rows_of_several_sessions_keep_their_ids(connection: sqlite3.Connection) -> None:
    rows = Rows()
    for session, first, count in ((1, 1, 3), (2, 7, 2), (1, 4, 1), (2**30, 1, 2)):
        given = [replace(row, seq=first + at) for at, row in enumerate(fitting(count))]
        add(rows, session << SEQ_BITS, given)
    assert (chunk := rows.only_chunk()) is not None
    assert chunk["ids"] is not None
    rows.insert(connection)
    wanted = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 7), (2, 8), (2**30, 1), (2**30, 2)]
    assert [divmod(int(str(row[0])), 1 << SEQ_BITS) for row in stored(connection)] == wanted


def test_more_addresses_than_a_chunk_has_numbers_for(connection: sqlite3.Connection) -> None:
    given = [replace(row, sender=f"host.{row.seq}") for row in fitting(4_200)]
    rows = Rows()
    add(rows, 0, given[:4_000])
    add(rows, 0, given[4_000:])
    rows.insert(connection)
    assert [row[2] for row in stored(connection)] == [row.sender for row in given]


def test_rows_that_do_not_fit_are_few_in_a_chunk(connection: sqlite3.Connection) -> None:
    given = [replace(row, at=row.seq << 40) for row in fitting(2 * ODD_MAX + 3)]
    rows = Rows()
    add(rows, 0, given)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    rows.insert(connection)
    assert len(statements) == 3
    assert [row[1] for row in stored(connection)] == [row.at for row in given]


def test_a_chunk_of_a_live_session_has_no_row_that_does_not_fit() -> None:
    rows = Rows()
    add(rows, 0, fitting(200))
    assert (chunk := rows.only_chunk()) is not None
    assert (chunk["odd"], chunk["ids"], chunk["first"]) == (None, None, 1)


def test_the_fields_of_a_chunk_stand_in_the_bits_that_its_docstring_names() -> None:
    rows = Rows()
    at = 1_790_000_000_000
    add(rows, 5 << SEQ_BITS, [sealed(7, at, b"12345", "host", 3), sealed(8, at + 2, b"678", "host.1", 4)])
    assert rows.only_chunk() == {
        "rows": f"[{5 << 35 | 1 << 12 | 2},{3 << 35 | 6 << 12 | 11}]",
        "numbers": b"[%d,%d]" % (10**18 + (2**17 << 44 | 3 << 12), 10**18 + ((2**17 + 2) << 44 | 4 << 12)),
        "since": at - 2**17,
        "first": 5 << SEQ_BITS | 7,
        "ids": None,
        "addresses": '["host.1"]',
        "odd": None,
        "bodies": b"12345678",
        "digests": bytes([7]) * DIGEST_BYTES + bytes([8]) * DIGEST_BYTES,
        "pieces": "[]",
        "data": b"",
        "names": b"",
        "uses": "[]",
    }
    assert {*CHUNK_FIELDS} == {*rows._chunks[0]}
    assert (CHUNK_BYTES, ODD_MAX) == (4 * 1_048_576, 64)


def test_large_values_between_rows_without_any(connection: sqlite3.Connection) -> None:
    values = [Cut(1, blob_digest(data), data) for data in (b'"one"' * 400, b'"other"' * 400)]
    given = [replace(row, body=b"x" * row.seq, sender=f"host.{row.seq % 3}") for row in fitting(9)]
    for place, cuts in ((1, values[:1]), (4, values), (5, values[1:])):
        given[place] = replace(given[place], cuts=tuple(cuts))
    rows = Rows()
    add(rows, 0, given[:7])
    add(rows, 0, given[7:])
    chunk = rows.only_chunk()
    assert chunk is not None
    odd = msgspec.json.decode(str(chunk["odd"]))
    assert {int(place): found[4] for place, found in odd.items()} == {
        1: [[1, 0]],
        4: [[1, 0], [1, 1]],
        5: [[1, 1]],
    }
    rows.insert(connection)
    assert [(row[0], row[2], row[5]) for row in stored(connection)] == [
        (row.seq, row.sender, row.body) for row in given
    ]
    assert [cuts_of(connection, row.seq) for row in given] == [row.cuts for row in given]


@pytest.mark.parametrize(("size", "chunks"), [(99, [300]), (100, [101, 200]), (101, [101, 201])])
def test_a_chunk_is_full_at_its_bound(size: int, chunks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_rows, "CHUNK_BYTES", 101)
    rows = Rows()
    add(rows, 0, [sealed(1, body=b"x" * size)])
    add(rows, 0, [replace(sealed(2, body=b"y"), cause=-1)])  # is odd: one by one
    add(rows, 0, [sealed(3, body=b"z" * 200)])
    rows._finish()
    assert [len(bytes(chunk["bodies"] or b"")) for chunk in rows._chunks] == chunks  # type: ignore[arg-type]  # bytes
    assert rows.size == size + 1 + 200


@table(
    ("changed", "is_odd"),
    [
        ({"at": -(2**17)}, False),
        ({"at": -(2**17) - 1}, True),
        ({"at": 2**17 - 1}, False),
        ({"at": 2**17}, True),
        ({"cause": 0}, False),
        ({"cause": -1}, True),
        ({"cause": 2**32 - 1}, False),
        ({"cause": 2**32}, True),
    ],
)
def test_a_row_is_odd_if_a_field_of_it_does_not_fit(changed: dict[str, int], is_odd: bool) -> None:
    rows, at = Rows(), 1_790_000_000_000
    add(rows, 0, [sealed(1, at)])
    fields = {"at": at, **changed} if "at" not in changed else {"at": at + changed["at"]}
    add(rows, 0, [replace(sealed(2), **fields)])
    assert (chunk := rows.only_chunk()) is not None
    assert (chunk["odd"] is not None) == is_odd
