"""SQLite's errors as errors of callboard."""

import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import (
    CorruptLog,
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreUnreadable,
)
from callboard.runtime.log.sqlite import store_errors as sqlite_wal
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.meta import WAL_BYTES_MAX
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.sqlite.store_errors import (
    FRAME_BYTES,
    HEADER_BYTES,
    Damage,
    WalWatch,
    _sum,
    error_code,
    find_damage,
    is_whole,
    store_error,
)
from tests.runtime.log.kit import added, events, large, run
from tests.tables import table


@table(
    ("code", "kind", "said"),
    [
        (sqlite3.SQLITE_READONLY, StoreReadOnly, "open_reader"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreReadOnly, "open_reader"),
        (sqlite3.SQLITE_NOTADB, StoreUnreadable, "not a callboard log"),
        (sqlite3.SQLITE_CORRUPT, StoreUnreadable, "damaged"),
        (sqlite3.SQLITE_CANTOPEN, StoreUnreadable, "may read"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreLocked, "sqlite3 shell"),
        (sqlite3.SQLITE_LOCKED, StoreLocked, "sqlite3 shell"),
        (sqlite3.SQLITE_FULL, StoreFailed, "make room"),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreFailed, "reopen"),
        (0, StoreFailed, "reopen"),
    ],
)
def test_every_error_names_the_next_step(code: int, kind: type[StoreError], said: str) -> None:
    error = sqlite3.OperationalError("what SQLite said")
    if code:
        error.sqlite_errorcode = code
        error.sqlite_errorname = "SQLITE_X"
    mapped = store_error(error, Path("log.db"), "append")
    assert type(mapped) is kind
    assert said in str(mapped)
    assert "log.db" in str(mapped)
    assert ("(SQLITE_X); " if code else "(OperationalError); ") in str(mapped)
    assert error_code(error) == code & 0xFF


def test_a_message_that_sqlite3_cannot_decode_is_damage() -> None:
    error = UnicodeDecodeError("utf-8", b"malformed database schema (\xff)", 27, 28, "invalid start byte")
    mapped = store_error(error, Path("log.db"), "opening")
    assert type(mapped) is StoreUnreadable
    assert "opening failed on a name that is not UTF-8" in str(mapped)


STEP = FRAME_BYTES + 8_192


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a killed owner: a log and a WAL of many transactions."""
    path = tmp_path_factory.mktemp("killed") / "log.db"

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        await log.create("s", 1, "")
        for seq in range(1, 30):
            await added(log, "s", 1, [large(seq, 9_000)] if seq % 5 == 0 else events(seq, seq))
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{path}.left{suffix}")
        await log.close()

    run(work)
    return path.with_name("log.db.left")


@pytest.fixture
def wal(template: Path, tmp_path: Path) -> Path:
    shutil.copy(template, tmp_path / "log.db")
    return Path(shutil.copy(f"{template}-wal", tmp_path / "log.db-wal"))


def transactions(wal: Path) -> list[range]:
    """Return the bytes of every transaction of the WAL, in order."""
    content = wal.read_bytes()
    salts = content[16:24]
    found, start = [], HEADER_BYTES
    for at in range(HEADER_BYTES, len(content) - STEP + 1, STEP):
        if content[at + 8 : at + 16] == salts and content[at + 4 : at + 8] != bytes(4):
            found.append(range(start, at + STEP))
            start = at + STEP
    return found


def flip(wal: Path, at: int, bit: int = 0) -> None:
    content = bytearray(wal.read_bytes())
    content[at] ^= 1 << bit
    wal.write_bytes(content)


def test_a_wal_as_it_was_written_is_not_damaged(wal: Path, tmp_path: Path) -> None:
    assert len(transactions(wal)) > 20
    assert find_damage(wal) is None
    assert find_damage(tmp_path / "none") is None
    (tmp_path / "empty").touch()
    assert find_damage(tmp_path / "empty") is None


@pytest.mark.slow
def test_a_flipped_bit_anywhere_before_the_last_transaction_is_found(wal: Path) -> None:
    whole = wal.read_bytes()
    last = transactions(wal)[-1].start
    chance = random.Random(1)
    for at in [0, 5, 9, 13, 17, 21, 25, 31, *(chance.randrange(32, last) for _ in range(40))]:
        flip(wal, at, chance.randrange(8))
        damage = find_damage(wal)
        in_salts = at >= HEADER_BYTES and 8 <= (at - HEADER_BYTES) % STEP < 16
        assert in_salts or (damage and damage.frame == max(0, (at - HEADER_BYTES) // STEP + 1)), at
        wal.write_bytes(whole)


def test_a_damaged_salt_is_found_at_the_next_frame(wal: Path) -> None:
    second = transactions(wal)[1]
    flip(wal, second.start + 9)
    damage = find_damage(wal)
    assert damage is not None
    assert damage.commits >= len(transactions(wal)) - 2


def test_the_number_of_lost_commits_is_reported(wal: Path) -> None:
    found = transactions(wal)
    flip(wal, found[-4].start + 100)
    damage = find_damage(wal)
    assert damage == Damage((found[-4].start - HEADER_BYTES) // STEP + 1, 4)


def test_a_last_transaction_that_was_cut_short_is_no_damage(wal: Path) -> None:
    whole = wal.read_bytes()
    last = transactions(wal)[-1]
    for end in (last.start, last.start + 10, last.start + 500, last.stop - 1):
        wal.write_bytes(whole[:end])
        assert find_damage(wal) is None
    wal.write_bytes(whole[: last.start] + bytes(100) + whole[last.start + 100 :])
    assert find_damage(wal) is None


def test_a_wal_that_is_overwritten_while_it_is_read_is_read_again(
    wal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = wal.read_bytes()
    flip(wal, transactions(wal)[2].start + 100)
    torn = wal.read_bytes()
    wal.write_bytes(whole)
    reads = [whole[:20] + b"another " + torn[28:]] * 2 + [whole]
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.pop(0))
    assert find_damage(wal) is None
    assert not reads
    reads = [whole[:20] + b"another " + torn[28:]] * sqlite_wal._TRIES
    assert find_damage(wal) is None


def test_a_header_alone_has_lost_no_commit_whatever_is_in_it(wal: Path) -> None:
    whole = wal.read_bytes()
    for content in (whole[:HEADER_BYTES], bytes(HEADER_BYTES)):
        wal.write_bytes(content)
        assert find_damage(wal) is None
    wal.write_bytes(bytes(HEADER_BYTES + 1))
    assert find_damage(wal) == Damage(0, 0)


def test_a_file_that_is_not_a_wal_is_damaged_from_the_start(wal: Path) -> None:
    wal.write_bytes(b"these are notes" * 1_000)
    assert find_damage(wal) == Damage(0, 0)


def test_a_reader_reports_the_damage_and_the_next_step(wal: Path) -> None:
    path = wal.with_name("log.db")
    with SQLiteReader(path) as reader:
        reader.check_whole()
    flip(wal, transactions(wal)[5].start + 100)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq < 29  # SQLite itself is content
        with pytest.raises(CorruptLog, match="copy both files"):
            reader.check_whole()
    flip(wal, 3)
    with SQLiteReader(path) as reader, pytest.raises(CorruptLog, match="all commits"):
        reader.check_whole()


# --- a WAL that is cut below an open log -------------------------------------------


def shorten(wal: Path, left: int) -> None:
    with wal.open("r+b") as file:
        file.truncate(left)


def replace_by_copy(wal: Path, left: int) -> None:
    copy = wal.with_name("copy")
    shutil.copy(wal, copy)
    copy.replace(wal)


def remove(wal: Path, left: int) -> None:
    wal.unlink()


@pytest.mark.parametrize("harm", [shorten, replace_by_copy, remove])
@pytest.mark.parametrize("left", [0, 17, HEADER_BYTES, HEADER_BYTES + STEP, HEADER_BYTES + 3 * STEP - 5])
def test_a_wal_that_is_cut_below_an_open_log_ends_it_before_a_commit_is_acknowledged(
    tmp_path: Path, harm: Callable[[Path, int], None], left: int
) -> None:
    async def work() -> None:
        log = SQLiteLog(tmp_path / "log.db", "process")
        await log.open()
        await log.create("s", 1, "")
        for seq in range(1, 9):
            await added(log, "s", 1, events(seq, seq))
        harm(tmp_path / "log.db-wal", left)
        for _ in range(2):  # closed for good: the second append is refused by the first one's error
            with pytest.raises(StoreError):
                await added(log, "s", 1, events(9, 9))
        await log.close()

    run(work)


def test_a_wal_that_another_program_has_written_back_and_emptied_is_no_cut(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        await log.create("s", 1, "")
        for seq in range(1, 9):
            await added(log, "s", 1, events(seq, seq))
            other = sqlite3.connect(path)
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
            other.close()
            assert path.with_name("log.db-wal").stat().st_size == 0
        await log.close()

    run(work)
    with SQLiteReader(path) as reader:
        assert [row.head for row in reader.sessions()] == [8]


def test_a_log_goes_on_once_its_wal_was_larger_than_it_may_stay(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, [large(1, WAL_BYTES_MAX + 1_000_000)])
        assert path.with_name("log.db-wal").stat().st_size == WAL_BYTES_MAX, "SQLite has cut it"
        for seq in range(2, 9):
            await added(log, "s", 1, events(seq, seq))
        await log.close()

    run(work)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 8


def test_a_wal_is_whole_only_if_each_byte_belongs_to_a_right_frame(wal: Path) -> None:
    whole = wal.read_bytes()
    last = transactions(wal)[-1]
    other_salts = bytearray(whole[-STEP:])
    other_salts[8] ^= 1
    for content, is_right in (
        (whole, True),
        (whole[: last.start], True),
        (b"", True),
        (whole[:HEADER_BYTES], False),
        (whole[: HEADER_BYTES - 1], False),
        (whole[:-1], False),
        (whole + bytes(1), False),
        (whole + other_salts, False),
        (whole[:-1] + bytes([whole[-1] ^ 1]), False),
        (bytes([whole[0] ^ 1]) + whole[1:], False),
    ):
        wal.write_bytes(content)
        assert is_whole(wal) is is_right, len(content)


def test_a_watch_says_what_was_done_to_the_wal_between_two_commits(tmp_path: Path, wal: Path) -> None:
    content = wal.read_bytes()
    path = tmp_path / "watched.db"
    mine = tmp_path / "watched.db-wal"
    watch = WalWatch(path)
    assert (watch.before(), watch.after()) == ("", ""), "there is none yet"
    mine.write_bytes(content)
    assert (watch.before(), watch.after()) == ("", "")
    with mine.open("r+b") as cut:
        cut.truncate(len(content) - 1)
    assert watch.before() == ""
    assert watch.after() == f"{mine} was cut below the open log"
    assert watch.before() == "", "it is as long as after the last commit"
    watch.note()
    mine.rename(tmp_path / "kept")
    mine.write_bytes(content)
    assert watch.before() == f"{mine} was replaced or removed below the open log"
    watch.note()
    with mine.open("r+b") as cut:
        cut.truncate(0)
    assert (watch.before(), watch.after()) == ("", ""), "another program has written it back"
    mine.unlink()
    assert watch.before() == f"{mine} was replaced or removed below the open log"


@pytest.mark.parametrize(
    ("page_bytes", "is_right"), [(511, False), (512, True), (65_536, True), (65_537, False)]
)
def test_a_header_with_an_impossible_size_of_pages_is_damaged(
    page_bytes: int, is_right: bool, tmp_path: Path
) -> None:
    start = struct.pack(">6I", 0x377F0683, 3_007_000, page_bytes, 0, 1, 2)
    header = start + struct.pack(">2I", *_sum((0, 0), start, ">"))
    (tmp_path / "a-wal").write_bytes(header + b"x")
    assert find_damage(tmp_path / "a-wal") == (None if is_right else Damage(0, 0))
