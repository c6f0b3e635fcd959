"""The table `meta`: a row that is missing or damaged is corruption, a wrong key is the caller's mistake."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import CorruptLog, StoreIncomplete, WrongKey
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.sqlite.meta import (
    check_complete,
    check_key,
    find_cipher,
    meta_value,
)
from tests.runtime.log.kit import write_some


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    write_some(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        yield made


def read_all(connection: sqlite3.Connection, path: Path) -> None:
    check_key(connection, path, HashChain())
    find_cipher(connection, path, None)
    check_complete(connection, path)
    meta_value(connection, "owner")


@pytest.mark.parametrize("key", ["digest", "key_check", "encryption", "owner", "wal"])
@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM meta WHERE key = ?", "UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE key = ?"],
)
def test_a_row_that_is_missing_or_not_utf_8_is_corruption(
    connection: sqlite3.Connection, path: Path, key: str, statement: str
) -> None:
    read_all(connection, path)
    connection.execute(statement, (key,))
    with pytest.raises(CorruptLog, match=f"meta has no valid '{key}'"):
        read_all(connection, path)


@pytest.mark.parametrize("key", ["digest", "key_check", "wal"])
def test_a_value_that_callboard_never_writes_is_corruption(
    connection: sqlite3.Connection, path: Path, key: str
) -> None:
    connection.execute("UPDATE meta SET value = value || '?' WHERE key = ?", (key,))
    with pytest.raises(CorruptLog, match=f"log.db is damaged: .* no valid '{key}'"):
        read_all(connection, path)


def test_another_digest_key_is_the_callers_mistake(connection: sqlite3.Connection, path: Path) -> None:
    with pytest.raises(WrongKey, match="leave the key out"):
        check_key(connection, path, HashChain(b"key"))


def test_a_missing_wal_is_told_with_the_path_that_the_user_knows(
    connection: sqlite3.Connection, path: Path
) -> None:
    connection.execute("UPDATE meta SET value = 'needed' WHERE key = 'wal'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for shown in (None, Path("/somewhere/else.db")):
        with pytest.raises(StoreIncomplete) as info:
            check_complete(connection, path, shown)
        assert str(info.value).startswith(
            f"{shown or path} was copied or moved without {(shown or path).name}-wal"
        )
