"""A batch in three values comes out of SQLite as the rows that went in, whatever is in them."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.log import sqlite_rows
from callboard.runtime.log.chain import DIGEST_BYTES, Chain, Sealed
from callboard.runtime.log.cuts import Cut
from callboard.runtime.log.sqlite_rows import Rows, check_rows
from callboard.runtime.log.sqlite_schema import prepare

ODD = "\"\\'\x01\x1f\x7f\u2028\U0001f4de\ufffd%s?;:{}[]\n\t"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
BODIES = st.one_of(
    st.binary(min_size=1, max_size=60),
    TEXTS.map(lambda text: f"[{text}]".encode()),
    st.just(b'{"a":"\0\xff"}' * 9),
)
INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)
SEALED = st.builds(
    Sealed,
    seq=st.integers(1, 2**32 - 1),
    at=INTEGERS,
    sender=TEXTS,
    recipient=TEXTS,
    cause=INTEGERS,
    body=BODIES,
    cuts=st.just(()),
    digest=st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES),
)
CUTS = st.one_of(st.none(), st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 2**40)), min_size=1))


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    prepare(made, tmp_path / "log.db", "process", Chain())
    yield made
    made.close()


def sealed(seq: int = 1, at: int = 1, body: bytes = b"{}", sender: str = "host", cause: int = 0) -> Sealed:
    return Sealed(seq, at, sender, "supervisor", cause, body, (), bytes([seq % 256]) * DIGEST_BYTES)


def whole(row: Sealed) -> list[tuple[int, int]]:
    raise AssertionError(f"nothing was cut out of {row}")


def stored(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Every row, with its types; texts as their bytes, which need not be UTF-8."""
    query = (
        "SELECT id, at, sender, recipient, cause, CAST(body AS BLOB), cuts, digest, "
        "typeof(at), typeof(sender), typeof(recipient), typeof(cause), typeof(body), typeof(digest) "
        "FROM events ORDER BY id"
    )
    return connection.execute(query).fetchall()


TYPES = ("integer", "text", "text", "integer", "text", "blob")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(SEALED, CUTS), max_size=8))
def test_every_row_is_stored_byte_for_byte(given: list[tuple[Sealed, list[tuple[int, int]] | None]]) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    prepare_tables(connection)
    rows = Rows()
    expected: list[tuple[object, ...]] = []
    for number, (row, cuts) in enumerate(given, 1):
        check_rows([row])
        row = row._replace(seq=number, cuts=() if cuts is None else (Cut(0, b"", b""),))
        rows.add(0, [row], lambda _, cuts=cuts: cuts or [])  # type: ignore[misc]
        text = None if cuts is None else "[" + ",".join(f"[{a},{b}]" for a, b in cuts) + "]"
        envelope = (row.at, row.sender, row.recipient, row.cause)
        expected.append((number, *envelope, row.body, text, row.digest, *TYPES))
    rows.insert(connection)
    assert stored(connection) == expected
    connection.close()


def prepare_tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE events(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, sender TEXT NOT NULL, "
        "recipient TEXT NOT NULL, cause INTEGER NOT NULL, body TEXT NOT NULL, cuts TEXT, "
        "digest BLOB NOT NULL)"
    )


def test_ids_at_the_end_of_their_range_stay_whole(connection: sqlite3.Connection) -> None:
    rows = Rows()
    rows.add(2**63 - 1, [sealed()], whole)
    rows.insert(connection)
    assert stored(connection)[0][0] == 2**63 - 1


def test_odd_characters_of_an_address_survive(connection: sqlite3.Connection) -> None:
    rows = Rows()
    rows.add(0, [sealed(sender=ODD)], whole)
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
        rows.add(0, part, whole)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    rows.insert(connection)
    assert len(statements) == 3  # 90 + 20, 500, the rest
    found = stored(connection)
    assert [len(bytes(row[5])) for row in found] == sizes  # type: ignore[call-overload]
    assert [row[7] for row in found] == [bytes([n]) * DIGEST_BYTES for n in range(1, 8)]


@pytest.mark.parametrize("bad", [sealed(at=2**63), sealed(cause=2**63), sealed(at=-(2**63))])
def test_a_number_that_would_become_a_float_is_refused(bad: Sealed) -> None:
    with pytest.raises(OverflowError, match="64 bits"):
        check_rows([bad])


@pytest.mark.parametrize("bad", [sealed(sender="a\0b"), sealed()._replace(recipient="\0")])
def test_an_address_that_would_be_cut_at_nul_is_refused(bad: Sealed) -> None:
    with pytest.raises(ValueError, match="NUL"):
        check_rows([bad])
