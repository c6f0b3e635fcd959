"""SQLiteStore and its queries, without a thread: what the batches do to the tables."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import (
    Fenced,
    SessionExists,
    SessionNotFound,
    StoreError,
    StoreFailed,
    StoreLocked,
    WrongHead,
)
from callboard.replay.testing.stores.contract import StoreContract, StorePlace
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.large_values import blob_digest
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.session_rows import EVERY_SESSION, Details
from callboard.runtime.log.sqlite import rows as sqlite_rows
from callboard.runtime.log.sqlite import store as sqlite_store
from callboard.runtime.log.sqlite.batch import insert_batch
from callboard.runtime.log.sqlite.deletion import remove_some, take_out
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.sqlite.rows import Chunk
from callboard.runtime.log.sqlite.schema import pragma
from callboard.runtime.log.sqlite.store import SQLiteStore
from callboard.runtime.log.sqlite.tables import Tables
from tests.runtime.log.kit import event, events, json_text, large, same
from tests.runtime.log.sqlite.disk import Disk
from tests.runtime.log.transcripts import answer_alike

KEY = b"k" * 32


class InEncryptedFile:
    """A log in an encrypted file of this folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "log.db"

    def log(self, key: bytes | None = None) -> SQLiteLog:
        return SQLiteLog(self.path, key=key, encryption_key=KEY)

    def reader(self) -> SQLiteReader:
        return SQLiteReader(self.path, encryption_key=KEY)

    def after_crash(self) -> "InEncryptedFile":
        copy = self.folder / "after the crash"
        copy.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{self.path}{suffix}", copy)
        return InEncryptedFile(copy)


class TestEncryptedLog(StoreContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> StorePlace:
        return InEncryptedFile(tmp_path)


@pytest.fixture
def store(connection: sqlite3.Connection, path: Path) -> SQLiteStore:
    made = SQLiteStore(connection, path, HashChain(), prepare(connection, path, "process", HashChain()))
    made.create("s", 1, "", GENESIS)
    return made


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257, 700])
def test_a_batch_of_any_size_is_written_whole(store: SQLiteStore, count: int) -> None:
    (head,) = store.append([Append("s", 0, 1, events(1, count))])
    assert isinstance(head, Head)
    assert same(store.read("s", 1, 10_000), events(1, count))


def calls_of(connection: sqlite3.Connection, work: Callable[[], object]) -> list[str]:
    """Return the first words of all statements of some work, without those of triggers."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    work()
    connection.set_trace_callback(None)
    return [" ".join(text.split()[:3]) for text in statements if not text.startswith("--")]


def test_a_batch_is_one_statement(store: SQLiteStore, connection: sqlite3.Connection) -> None:
    """Count statements: each may cost 5 ms and more while another thread computes."""
    for name in "tu":
        store.create(name, 1, "", GENESIS)
    batch = [Append(name, 0, 1, events(1, 100)) for name in "stu"]
    assert set(calls_of(connection, lambda: store.append(batch))) == {"INSERT INTO batch"}
    assert not connection.in_transaction
    assert all(same(store.read(name, 1, 200), events(1, 100)) for name in "stu")


def test_so_is_one_with_large_values(store: SQLiteStore, connection: sqlite3.Connection) -> None:
    """Append large values of this batch, of an earlier one, and one that the owner has forgotten."""
    store.append([Append("s", 0, 1, [large(1, 9_000), large(2, 8_000)])])
    store._remembered.blobs.discard(blob_digest(json_text(8_000)))
    given = [large(3, 9_000), large(4, 8_000), large(5, 7_000), large(6, 7_000), *events(7, 7)]
    assert set(calls_of(connection, lambda: store.append([Append("s", 2, 1, given)]))) == {
        "INSERT INTO batch"
    }
    assert same(store.read("s", 3, 10), given)
    assert connection.execute("SELECT count(*) FROM blobs").fetchone() == (3,)


def test_a_batch_that_is_too_large_for_one_statement_is_one_transaction(
    store: SQLiteStore, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_rows, "CHUNK_BYTES", 10_000)
    store.append([Append("s", 0, 1, events(1, 1))])
    given = [large(seq, 9_000 + seq % 3) for seq in range(2, 8)]  # two to a statement
    calls = calls_of(connection, lambda: store.append([Append("s", 1, 1, given)]))
    assert [call.split()[0] for call in calls] == ["BEGIN", "PRAGMA", *["INSERT"] * 9, "UPDATE", "COMMIT"]
    assert same(store.read("s", 2, 10), given)


def test_a_large_value_goes_over_once(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def watched(
        connection: sqlite3.Connection,
        version: int,
        moves: str,
        changes: str,
        chunk: Chunk,
        spending: dict[str, str],
    ) -> bool:
        sent.append(chunk["data"])
        return insert_batch(connection, version, moves, changes, chunk, spending)

    monkeypatch.setattr(sqlite_store, "insert_batch", watched)
    for seq in (1, 2, 3):
        store.append([Append("s", seq - 1, 1, [large(seq, 9_000)])])
    assert [len(data) for data in sent] == [9_000, 0, 0]
    assert same(store.read("s", 1, 10), [large(seq, 9_000) for seq in (1, 2, 3)])


def test_a_large_value_that_went_with_its_session_is_stored_again(store: SQLiteStore) -> None:
    store.create("t", 1, "", GENESIS)
    store.append([Append("t", 0, 1, [large(1)])])
    store.delete("t", False)
    store.append([Append("s", 0, 1, [large(1)])])
    assert same(store.read("s", 1, 10), [large(1)])


def test_so_is_one_that_another_connection_took_away(
    store: SQLiteStore, connection: sqlite3.Connection, path: Path
) -> None:
    store.create("t", 1, "", GENESIS)
    store.append([Append("t", 0, 1, [large(1)])])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        take_out(other, Tables(other), Tables(other).entry("t"))
        assert remove_some(other).is_last
    store.append([Append("s", 0, 1, [large(1)])])
    assert same(store.read("s", 1, 10), [large(1)])


def test_a_session_that_another_connection_took_away_is_not_found_and_the_others_go_on(
    store: SQLiteStore, path: Path
) -> None:
    store.create("t", 1, "", GENESIS)
    store.append([Append(name, 0, 1, events(1, 1)) for name in "st"])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        take_out(other, Tables(other), Tables(other).entry("t"))
    answers = store.append([Append(name, 1, 1, events(2, 2)) for name in "st"])
    assert [type(one) for one in answers] == [Head, SessionNotFound]
    assert same(store.read("s", 1, 10), events(1, 2))


def test_a_wrong_memory_of_large_values_loses_none(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    """Remove a large value: the insert of a row alone would not notice that."""
    store.append([Append("s", 0, 1, [large(1, 8_000)])])
    connection.execute("DELETE FROM blobs")  # behind the store's back, on its own connection
    given = [large(2, 7_000), large(3, 8_000), *events(4, 4)]
    (head,) = store.append([Append("s", 1, 1, given)])
    assert isinstance(head, Head)
    assert same(store.read("s", 2, 10), given)


def test_a_batch_that_the_one_statement_refuses_is_judged_in_a_transaction(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    store.append([Append("s", 0, 1, events(1, 1))])
    connection.execute("UPDATE sessions SET epoch = 2")  # behind the store's back, on its own connection
    with pytest.raises(StoreFailed, match="changed by another program"):
        store.append([Append("s", 1, 1, events(2, 2))])
    connection.execute("UPDATE sessions SET epoch = 1")
    (head,) = store.append([Append("s", 1, 1, events(2, 2))])
    assert isinstance(head, Head)
    assert same(store.read("s", 1, 10), events(1, 2))


def test_a_batch_that_fails_leaves_no_trace_in_file_or_memory(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    connection.execute(
        "CREATE TRIGGER stop BEFORE UPDATE OF head ON sessions WHEN NEW.head = 3 "
        "BEGIN SELECT RAISE(FAIL, 'no'); END"
    )
    with pytest.raises(StoreFailed, match="no"):
        store.append([Append("s", 0, 1, [*events(1, 2), large(3)])])
    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM blobs").fetchone() == (0,)
    (head,) = store.append([Append("s", 0, 1, [large(1)])])
    assert isinstance(head, Head)
    assert same(store.read("s", 1, 10), [large(1)])


def test_a_head_that_moved_behind_the_owners_back_is_never_written_over(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    store.append([Append("s", 0, 1, events(1, 2))])
    connection.execute("UPDATE sessions SET head = 1")  # this connection: no `data_version` tells of it
    with pytest.raises(StoreFailed, match="changed by another program"):
        store.append([Append("s", 2, 1, events(3, 4))])
    assert len(store.read("s", 1, 10)) == 2


def test_a_file_that_a_shell_holds_fails_the_batch_but_not_the_log(store: SQLiteStore, path: Path) -> None:
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFailed, match="sqlite3 shell"):
        store.append([Append("s", 0, 1, events(1, 2))])
    with pytest.raises(StoreLocked):
        store.take_over("s")
    shell.execute("ROLLBACK")
    shell.close()
    (head,) = store.append([Append("s", 0, 1, events(1, 2))])
    assert isinstance(head, Head)


def test_commits_sync_again_after_a_session_was_taken_over(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    statements = calls_of(connection, lambda: store.take_over("s"))
    unsynced = statements.index("PRAGMA synchronous =")
    assert unsynced < statements.index("BEGIN IMMEDIATE") < statements.index("COMMIT") < len(statements) - 1
    assert statements[-1] == "PRAGMA synchronous ="
    with pytest.raises(SessionNotFound):
        store.take_over("nowhere")
    full = 2
    assert pragma(connection, "synchronous") == full


def test_the_first_failure_that_ends_a_log_is_told(store: SQLiteStore) -> None:
    for why in ("the first", "the second"):
        store._fail(why)
    with pytest.raises(StoreFailed, match=r"^the first; this log is closed for good"):
        store.head("s")


def test_a_rollback_that_fails_ends_the_log(connection: sqlite3.Connection, path: Path) -> None:
    class NoRollback:
        in_transaction = True

        def execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:
            if statement == "ROLLBACK":
                raise sqlite3.OperationalError("disk I/O error")
            return connection.execute(statement, *parameters)  # type: ignore[arg-type]  # passed on as they came

    owner = prepare(connection, path, "process", HashChain())
    store = SQLiteStore(NoRollback(), path, HashChain(), owner)  # type: ignore[arg-type]  # it has the methods that the store calls
    with pytest.raises(SessionNotFound):
        store.take_over("nowhere")
    connection.execute("ROLLBACK")
    with pytest.raises(StoreFailed, match="a rollback failed"):
        store.append([])


def test_queries_give_rows_as_they_are_stored(store: SQLiteStore, connection: sqlite3.Connection) -> None:
    store.append([Append("s", 0, 1, [large(1), *events(2, 3), large(4)])])
    tables = Tables(connection)
    with pytest.raises(SessionNotFound):
        tables.entry("t")
    ((*rows,),) = tables.checked_pages(HashChain(), tables.entry("s"), 4)
    assert [row.seq for row in rows] == [1, 2, 3, 4]
    assert rows[0].cuts == rows[3].cuts
    assert tables.head_of(tables.entry("s")) == Head(4, rows[3].digest)
    assert [row.seq for row in tables.events("s", 2, 2)] == [2, 3]


def erase(store: SQLiteStore, name: str) -> int:
    """Delete a session, remove all of it, and cut the file."""
    count = store.delete(name, False)
    while store.purge():
        pass
    assert store.vacuum(1_000_000) == 0
    return count


def test_a_deleted_session_is_nowhere_in_the_files(
    store: SQLiteStore, connection: sqlite3.Connection, path: Path
) -> None:
    store.create("t", 1, "another title", GENESIS)
    store.append([Append("t", 0, 1, [large(1, 20_000, "t"), large(2, 20_000, "u")])])
    store.create("secret", 1, "a secret title", GENESIS)
    posted = [event(1, Cancel("secret reason")), large(2, 20_000, "q"), large(3, 20_000, "t")]
    store.append([Append("secret", 0, 1, posted)])
    store.append([Append("s", 0, 1, [large(1, 20_000, "u")])])
    assert erase(store, "secret") == 3
    assert connection.execute("SELECT count(*) FROM blobs").fetchone() == (2,)
    for file in (path, path.with_name("log.db-wal")):
        content = file.read_bytes()
        assert b"secret" not in content
        assert b"qqqq" not in content
    assert b"tttt" in path.read_bytes()
    assert erase(store, "t") == 2
    assert connection.execute("SELECT substr(data, 2, 1) FROM blobs").fetchall() == [("u",)]
    assert same(store.read("s", 1, 10), [large(1, 20_000, "u")])


def test_a_removal_that_another_process_ends_leaves_nothing_in_the_file(
    store: SQLiteStore, connection: sqlite3.Connection, path: Path
) -> None:
    connection.execute("PRAGMA secure_delete = OFF")  # which some builds of SQLite do not start with
    store.create("t", 1, "secret title", GENESIS)
    store.append([Append("t", 0, 1, [event(1, Cancel("secret reason"))])])
    store.delete("t", False)
    connection.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as again:
        owner = prepare(again, path, "process", HashChain())
        again.execute("PRAGMA secure_delete = OFF")
        other = SQLiteStore(again, path, HashChain(), owner)
        assert not other.purge()
        again.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert b"secret" not in path.read_bytes()


def test_a_full_vacuum_leaves_no_free_page(store: SQLiteStore, connection: sqlite3.Connection) -> None:
    store.append([Append("s", 0, 1, [large(1, 200_000)])])
    store.delete("s", False)
    store.purge()
    assert pragma(connection, "freelist_count") > 0
    assert store.vacuum(None) == 0


def test_events_for_a_deleted_session_are_refused_and_those_of_others_stored(store: SQLiteStore) -> None:
    store.create("t", 1, "", GENESIS)
    store.append([Append("s", 0, 1, events(1, 2)), Append("t", 0, 1, events(1, 1))])
    store.delete("s", False)
    gone, head = store.append([Append("s", 2, 1, events(3, 4)), Append("t", 1, 1, events(2, 3))])
    assert isinstance(gone, SessionNotFound)
    assert head == store.head("t")
    assert same(store.read("t", 1, 10), events(1, 3))
    store.create("s", 1, "", GENESIS)
    (head,) = store.append([Append("s", 0, 1, events(1, 1))])
    assert head == store.head("s")


def test_the_space_of_a_deleted_session_returns(
    store: SQLiteStore, connection: sqlite3.Connection, path: Path
) -> None:
    store.append([Append("s", 0, 1, events(1, 5))])
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    small = path.stat().st_size
    store.create("big", 1, "", GENESIS)
    store.append([Append("big", 0, 1, [large(seq, 50_000, chr(96 + seq)) for seq in range(1, 21)])])
    store.append([Append("s", 5, 1, events(6, 10))])
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.stat().st_size
    erase(store, "big")
    assert before > 1_000_000
    assert path.stat().st_size <= small
    assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert same(store.read("s", 1, 10), events(1, 10))


def test_the_pages_of_a_deleted_session_are_overwritten_before_the_file_gets_smaller(path: Path) -> None:
    disk = Disk()
    connection = disk.connect(path)
    owner = prepare(connection, path, "process", HashChain())
    store = SQLiteStore(connection, path, HashChain(), owner)
    store.create("secret", 1, "", GENESIS)
    store.append([Append("secret", 0, 1, [large(seq, 50_000, "q" * seq) for seq in range(1, 6)])])
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"qqqq" in path.read_bytes()
    first = len(disk.trace)
    erase(store, "secret")
    content, cut_off = bytearray(), 0
    for at, op in enumerate(disk.trace):
        if op.name != str(path):
            continue
        if op.kind == "write":
            content[len(content) :] = bytes(max(0, op.offset - len(content)))
            content[op.offset : op.offset + len(op.data)] = op.data
        elif op.kind == "truncate" and at > first:
            cut_off += len(content) - op.offset
            assert b"qqqq" not in content[op.offset :]
            del content[op.offset :]
    assert cut_off > 250_000
    connection.close()
    disk.close()


def test_no_page_is_cut_off_while_a_reader_keeps_its_zeros_out_of_the_file(
    store: SQLiteStore, path: Path
) -> None:
    for name in ("first", "second"):
        store.create(name, 1, "", GENESIS)
        store.append([Append(name, 0, 1, [large(seq, 50_000, "q" * seq) for seq in range(1, 4)])])
        assert store.vacuum(0) >= 0
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM events").fetchone()
            store.delete(name, False)
            while store.purge():
                pass
            before = path.stat().st_size
            assert store.vacuum(1_000) > 10
            assert path.stat().st_size >= before
        assert store.vacuum(1_000) == 0
        assert path.stat().st_size < before


def test_a_former_owner_is_fenced_in_every_call(
    store: SQLiteStore, connection: sqlite3.Connection, path: Path
) -> None:
    store.append([Append("s", 0, 1, events(1, 2))])
    other = sqlite3.connect(path, isolation_level=None)
    owner = prepare(other, path, "process", HashChain())
    answers = store.append([Append("s", 2, 1, events(3, 4)), Append("s", 4, 1, events(5, 5))])
    assert [type(answer) for answer in answers] == [Fenced, Fenced]
    for ask in (
        lambda: store.create("t", 1, "", GENESIS),
        lambda: store.take_over("s"),
        lambda: store.delete("s", False),
        lambda: store.vacuum(1),
        lambda: store.read("s", 1, 10),
        lambda: store.head("s"),
        lambda: store.sessions(EVERY_SESSION),
    ):
        with pytest.raises(Fenced, match="taken over by another process"):
            ask()
    store.leave()
    successor = SQLiteStore(other, path, HashChain(), owner)
    assert same(successor.read("s", 1, 10), events(1, 2))
    assert path.with_name("log.db-wal").stat().st_size > 0
    other.close()


def test_a_full_disk_while_writing_back_fails_nothing_and_is_tried_again(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def full(connection: sqlite3.Connection, owner: str) -> None:
        tried.append(owner)
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(sqlite_store, "write_back", full)
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_PAGES", 5)
    for first in (1, 3, 5, 7):
        (answer,) = store.append([Append("s", first - 1, 1, events(first, first + 1))])
        assert isinstance(answer, Head)
    assert len(tried) == 2
    assert same(store.read("s", 1, 10), events(1, 8))


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB])
def test_a_disk_that_fails_while_writing_back_ends_the_log_and_keeps_the_batch(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(connection: sqlite3.Connection, owner: str) -> None:
        error = sqlite3.OperationalError("it failed")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(sqlite_store, "write_back", fail)
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_PAGES", 2)
    (answer,) = store.append([Append("s", 0, 1, events(1, 2))])
    assert isinstance(answer, Head)
    with pytest.raises(StoreFailed, match="writing the WAL back failed"):
        store.append([Append("s", 2, 1, events(3, 4))])


@pytest.mark.parametrize(
    "work",
    [
        lambda store, at: store.create(f"t{at}", 1, "", GENESIS),
        lambda store, at: store.take_over("s"),
        lambda store, at: store.fork(f"t{at}", 1, "", "s", 1, []),
        lambda store, at: store.set_waiting("s", at),
        lambda store, at: store.delete(f"u{at}", False),
    ],
    ids=["create", "take_over", "fork", "set_waiting", "delete"],
)
def test_all_that_writes_counts_towards_writing_the_wal_back(
    store: SQLiteStore,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[SQLiteStore, int], object],
) -> None:
    store.append([Append("s", 0, 1, events(1, 1))])
    for at in range(60):
        store.create(f"u{at}", 1, "", GENESIS)
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store._wal.note()
    store._pages = 0
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_PAGES", 20)
    for at in range(60):
        work(store, at)
    assert 0 < path.with_name("log.db-wal").stat().st_size < 50 * 8_192


def test_a_fork_shares_the_events_up_to_its_base_and_has_its_own(store: SQLiteStore) -> None:
    store.append([Append("s", 0, 1, events(1, 4))])
    own = [event(3, sender="host"), event(4)]
    head = store.fork("f", 2, "title", "s", 2, own)
    assert same(store.read("f", 1, 10), [*events(1, 2), *own])
    assert head == store.head("f")
    row = store.sessions(EVERY_SESSION)[0]
    assert (row.session_id, row.title, row.created_ms, row.parent, row.base) == ("f", "title", 2, "s", 2)
    assert same(store.read("s", 1, 10), events(1, 4))
    with pytest.raises(SessionExists):
        store.fork("f", 2, "title", "s", 2, own)
    for base in (0, 5):
        with pytest.raises(WrongHead):
            store.fork("g", 2, "title", "s", base, own)


def test_since_when_a_session_waits_stands_beside_its_tags(store: SQLiteStore, path: Path) -> None:
    tables = Tables(store._connection)
    tables.write_details(tables.entry("s"), Details(tags=("red",)))
    store.set_waiting("s", 7)
    assert store.waiting_since("s") == 7
    (row,) = store.sessions(EVERY_SESSION)
    assert (row.tags, row.waits_ms) == (("red",), 7)
    with pytest.raises(SessionNotFound):
        store.waiting_since("t")


@pytest.mark.parametrize(("left", "said"), [(None, "was replaced or removed"), (8_248, "was cut below")])
def test_a_wal_that_another_program_has_changed_ends_the_log(
    store: SQLiteStore, path: Path, left: int | None, said: str
) -> None:
    for seq in (1, 2, 3):
        store.append([Append("s", seq - 1, 1, events(seq, seq))])
    wal = path.with_name("log.db-wal")
    if left is None:
        wal.unlink()
    else:
        os.truncate(wal, left)
    for _ in range(2):
        with pytest.raises(StoreFailed, match=said):
            store.append([Append("s", 3, 1, events(4, 4))])
    with pytest.raises(StoreFailed, match=said):
        store.head("s")


class Refuses:
    """A connection that refuses statements which begin so."""

    def __init__(self, connection: sqlite3.Connection, start: str, code: int) -> None:
        self._connection, self.start, self.code = connection, start, code
        self.said: list[str] = []

    def execute(self, statement: str, parameters: object = ()) -> object:
        self.said.append(statement)
        if self.start and statement.startswith(self.start):
            error = sqlite3.OperationalError("refused")
            error.sqlite_errorcode, error.sqlite_errorname = self.code, "SQLITE_TEST"
            raise error
        return self._connection.execute(statement, parameters)  # type: ignore[arg-type]  # passed on

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


@pytest.mark.parametrize(("code", "is_fatal"), [(sqlite3.SQLITE_IOERR, True), (sqlite3.SQLITE_BUSY, False)])
def test_a_failed_disk_ends_the_store_and_a_busy_file_does_not(
    connection: sqlite3.Connection, path: Path, code: int, is_fatal: bool
) -> None:
    refuses = Refuses(connection, "", code)
    owner = prepare(connection, path, "process", HashChain())
    store = SQLiteStore(refuses, path, HashChain(), owner)  # type: ignore[arg-type]  # it does as one
    refuses.start = "BEGIN IMMEDIATE"
    with pytest.raises(StoreError, match="create failed: refused"):
        store.create("s", 1, "", GENESIS)
    refuses.start = ""
    if is_fatal:
        with pytest.raises(StoreFailed, match=r"an earlier create failed .*; this log is closed for good"):
            store.create("s", 1, "", GENESIS)
    else:
        store.create("s", 1, "", GENESIS)
    refuses.said.clear()
    store.leave()
    assert any("wal_checkpoint" in said for said in refuses.said) == (not is_fatal)


def test_a_changed_schema_is_looked_at_again(store: SQLiteStore, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("CREATE TABLE odd(a)")
    for _ in range(2):  # it stays odd until it is changed again
        with pytest.raises(StoreError, match="odd"):
            store.create("b", 1, "", GENESIS)


def test_the_last_step_of_a_removal_is_written_back_and_what_went_is_sent_again(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(sqlite_store, "write_back", lambda *given: done.append("written back"))
    store.append([Append("s", 0, 1, [large(1, 9_000)])])
    assert len(store._remembered.blobs) == 1
    store.delete("s", False)
    while store.purge():
        assert done == []
    assert done == ["written back"]
    assert len(store._remembered.blobs) == 0
    assert store.purge() is False
    assert done == ["written back"]


def test_pages_are_cut_off_only_once_nothing_is_left_to_remove(store: SQLiteStore) -> None:
    store.append([Append("s", 0, 1, [large(seq, 9_000 + seq) for seq in range(1, 40)])])
    store.delete("s", False)
    store.create("b", 1, "", GENESIS)
    assert store.vacuum(1_000) == 0, "no page is free before the events are gone"
    while store.purge():
        pass
    free = pragma(store._connection, "freelist_count")
    assert free > 10
    assert store.vacuum(1) == free - 1
    pages = store._pages
    assert store.vacuum(3) == free - 4
    assert store._pages >= pages + 3
    assert store.vacuum(1_000) == 0


def test_a_store_says_what_a_log_in_memory_says(tmp_path: Path) -> None:
    answer_alike(MemoryLog(), tmp_path / "file.db")
