"""SQLiteReader: reads beside and after the owner, never writes, and finds tampering."""

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import pytest

from callboard.actors.protocol.errors import CorruptLog, StoreError, StoreFailed, StoreUnreadable, WrongKey
from callboard.runtime.log.hash_chain import PAGE_EVENTS
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.effort import effort
from tests.runtime.log.kit import added, as_nobody, child, events, large, run, same
from tests.runtime.log.sqlite.test_schema import older
from tests.runtime.log.transcripts import answer_alike

POSTED = [*events(1, 20), large(21), large(22, 4_000, "y"), *events(23, 40)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder that every user can reach; pytest's own are closed to others."""
    with TemporaryDirectory() as name:
        made = Path(name)
        made.chmod(0o755)
        yield made
        made.chmod(0o755)


def write(path: Path) -> Head:
    async def work() -> Head:
        log = SQLiteLog(path)
        await log.open()
        await log.create("other", 1, "")
        await added(log, "other", 1, POSTED)
        await log.create("s", 1, "")
        head = await added(log, "s", 1, POSTED)
        await log.close()
        return head

    return run(work)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "log.db"
    write(path)
    return path


@pytest.fixture
def path(folder: Path, template: Path) -> Path:
    """Return a closed log of two sessions with the same forty events."""
    return Path(shutil.copy(template, folder / "log.db"))


def beside_an_owner(path: Path, look: Callable[[], None]) -> None:
    """Do something while the log is open elsewhere in this process, and its WAL is not empty."""

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await added(log, "s", 1, events(41, 45))
        look()
        await log.close()

    run(work)


def left_behind(path: Path, *suffixes: str) -> Path:
    """Return a copy as a killed owner leaves it: with a WAL, and with these other files."""
    copy = path.with_name("killed.db")

    def look() -> None:
        for suffix in ("", "-wal", *suffixes):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
            Path(f"{copy}{suffix}").chmod(0o644)

    beside_an_owner(path, look)
    return copy


# --- where it works -----------------------------------------------------------------


def test_it_reads_beside_a_live_owner_and_holds_nothing_between_calls(path: Path) -> None:
    def look() -> None:
        with SQLiteReader(path) as reader:
            assert same(reader.events("s"), [*POSTED, *events(41, 45)])
            assert reader.verify_chain("s").seq == 45
            shell = sqlite3.connect(path)
            assert shell.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
            shell.close()
            assert reader.verify_chain("s").seq == 45

    beside_an_owner(path, look)


@pytest.mark.parametrize("suffixes", [(), ("-shm",)], ids=["without -shm", "with -shm"])
@pytest.mark.parametrize("mode", [0o755, 0o555], ids=["writable folder", "read-only folder"])
def test_it_reads_the_files_of_a_killed_owner(path: Path, suffixes: tuple[str, ...], mode: int) -> None:
    copy = left_behind(path, *suffixes)
    before = copy.read_bytes(), Path(f"{copy}-wal").read_bytes()
    copy.parent.chmod(mode)
    with as_nobody(), SQLiteReader(copy) as reader:
        assert same(reader.events("s"), [*POSTED, *events(41, 45)])
        assert reader.verify_chain("s").seq == 45
    assert (copy.read_bytes(), Path(f"{copy}-wal").read_bytes()) == before


def test_it_reads_a_closed_log_in_a_read_only_folder(path: Path) -> None:
    path.parent.chmod(0o555)
    names = sorted(path.parent.iterdir())
    with as_nobody(), SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 40
    assert sorted(path.parent.iterdir()) == names


@pytest.mark.parametrize("session", ["", "s"])
def test_it_copies_the_files_of_a_read_only_folder(path: Path, tmp_path: Path, session: str) -> None:
    for origin in (left_behind(path), path):
        origin.parent.chmod(0o555)
        with as_nobody(), TemporaryDirectory() as place:
            with SQLiteReader(origin) as reader:
                reader.copy_to(Path(place, "copy.db"), session)
            with SQLiteReader(Path(place, "copy.db")) as copy:
                assert copy.verify_chain("s").seq == 45
        origin.parent.chmod(0o755)


def test_its_own_copy_is_removed_if_it_cannot_be_opened(path: Path) -> None:
    copy = left_behind(path)
    copy.parent.chmod(0o555)
    before = set(Path(gettempdir()).glob("callboard-*"))
    with as_nobody(), pytest.raises(WrongKey):
        SQLiteReader(copy, encryption_key=bytes(32))
    assert set(Path(gettempdir()).glob("callboard-*")) == before


def test_an_error_that_another_way_of_opening_would_not_avoid_is_raised_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str] = []

    def fail(reader: SQLiteReader, path: Path, mode: str) -> sqlite3.Connection:
        modes.append(mode)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(SQLiteReader, "_connect", fail)
    with pytest.raises(StoreFailed, match="disk I/O error"):
        SQLiteReader(path)
    assert modes == ["mode=ro"]


def test_it_leaves_the_database_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    with SQLiteReader(path) as reader:
        reader.sessions()
        reader.events("s")
        reader.verify_chain("s")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM events")
    assert path.read_bytes() == before


def test_it_pages_through_a_long_session(folder: Path) -> None:
    count = 2 * PAGE_EVENTS + 7
    path = folder / "long.db"

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, count))
        await log.close()

    run(work)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == count
        seqs: list[int] = []
        while page := reader.events("s", len(seqs) + 1, 1_000):
            seqs += [row.seq for row in page]
        assert seqs == list(range(1, count + 1))


def test_it_may_be_used_from_another_thread(path: Path) -> None:
    heads = []
    with SQLiteReader(path) as reader:
        thread = threading.Thread(target=lambda: heads.append(reader.verify_chain("s")))
        thread.start()
        thread.join()
    assert heads[0].seq == 40


@pytest.mark.slow
def test_it_needs_no_event_loop_and_nothing_that_could_act() -> None:
    script = (
        "import sys, callboard.runtime.log.sqlite.reader, callboard.runtime.log.memory; print(*sys.modules)"
    )
    done = child(script)
    loaded = set(done.stdout.split())
    assert "callboard.runtime.log.sqlite.reader" in loaded, done.stderr
    assert not loaded & {"asyncio", "aiosqlite", "pykka", "anthropic", "callboard.runtime.log.sqlite.log"}


def test_addresses_are_shared_between_events(path: Path) -> None:
    with SQLiteReader(path) as reader:
        assert len({id(row.sender) for row in reader.events("s")}) == 1


# --- refusals ---------------------------------------------------------------------


def test_it_says_why_a_path_is_wrong(folder: Path) -> None:
    (folder / "empty").touch()
    (folder / "notes").write_text("not a database " * 100)
    for name, said in (
        ("missing", "there is no log at"),
        ("nowhere/log.db", "does not exist"),
        ("", "is a folder"),
        ("empty", "nothing was ever recorded"),
        ("notes", "not a callboard log"),
    ):
        with pytest.raises(StoreUnreadable, match=said):
            SQLiteReader(folder / name)
    assert sorted(each.name for each in folder.iterdir()) == ["empty", "notes"]


def test_it_refuses_another_programs_database(folder: Path) -> None:
    connection = sqlite3.connect(folder / "other.db")
    connection.execute("CREATE TABLE recipes(name)")
    connection.close()
    with pytest.raises(StoreUnreadable, match="not a callboard log"):
        SQLiteReader(folder / "other.db")


def test_it_says_that_a_file_may_not_be_read(path: Path) -> None:
    path.chmod(0o600)
    with as_nobody(), pytest.raises(StoreUnreadable, match="this user may read"):
        SQLiteReader(path)


# --- tampering ----------------------------------------------------------------------

ID = "(SELECT id FROM sessions WHERE session_id = 's') << 32"
TAMPERING = {
    "a byte of a body": (f"UPDATE events SET body = replace(body, 'n 7', 'n 8') WHERE id = {ID} | 7", 7),
    "a body as a number": (f"UPDATE events SET body = 5 WHERE id = {ID} | 7", 7),
    "a body that is not UTF-8": (f"UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE id = {ID} | 7", 7),
    "a sender that is not UTF-8": (f"UPDATE events SET sender = CAST(x'ff' AS TEXT) WHERE id = {ID} | 7", 7),
    "a time": (f"UPDATE events SET at = at + 1 WHERE id = {ID} | 7", 7),
    "a time as text": (f"UPDATE events SET at = 'noon' WHERE id = {ID} | 7", 7),
    "a sender": (f"UPDATE events SET sender = 'host.9' WHERE id = {ID} | 7", 7),
    "a recipient": (f"UPDATE events SET recipient = 'tools' WHERE id = {ID} | 7", 7),
    "a cause": (f"UPDATE events SET cause = 1 WHERE id = {ID} | 7", 7),
    "a digest": (f"UPDATE events SET digest = zeroblob(32) WHERE id = {ID} | 7", 7),
    "a digest as text": (f"UPDATE events SET digest = 'none' WHERE id = {ID} | 7", 7),
    "two bodies swapped": (
        f"UPDATE events SET body = o.body FROM events AS o "
        f"WHERE events.id IN ({ID} | 7, {ID} | 8) AND o.id = 2 * ({ID}) + 15 - events.id",
        7,
    ),
    "an event gone": (f"DELETE FROM events WHERE id = {ID} | 7", 7),
    "the first gone": (f"DELETE FROM events WHERE id = {ID} | 1", 1),
    "the last gone": (f"DELETE FROM events WHERE id = {ID} | 40", 40),
    "all gone": (f"DELETE FROM events WHERE id > {ID}", 1),
    "events of another session": (
        f"UPDATE events SET body = o.body, digest = o.digest FROM events AS o "
        f"WHERE events.id > {ID} AND o.id = events.id - (1 << 32)",
        1,
    ),
    "an event added": (
        f"INSERT INTO events SELECT id + 1, at, sender, recipient, cause, body, cuts, digest "
        f"FROM events WHERE id = {ID} | 40",
        41,
    ),
    "a large value": ("UPDATE blobs SET data = replace(data, 'xx', 'xy')", 21),
    "a large value gone": ("DELETE FROM blobs", 21),
    "large values exchanged": ("UPDATE blobs SET data = o.data FROM blobs AS o WHERE o.id <> blobs.id", 21),
    "a cut moved": (f"UPDATE events SET cuts = replace(cuts, '[[', '[[1') WHERE id = {ID} | 21", 21),
    "a cut dropped": (f"UPDATE events SET cuts = NULL WHERE id = {ID} | 21", 21),
    "cuts that are not JSON": (f"UPDATE events SET cuts = '[[' WHERE id = {ID} | 21", 21),
    "cuts that are a number": (f"UPDATE events SET cuts = 5 WHERE id = {ID} | 21", 21),
    "the origin": ("UPDATE sessions SET origin = zeroblob(31)", 1),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_found_at_its_event(path: Path, what: str) -> None:
    statement, seq = TAMPERING[what]
    shell = sqlite3.connect(path)
    assert shell.execute(statement).rowcount > 0
    shell.commit()
    shell.close()
    with SQLiteReader(path) as reader:
        with pytest.raises(CorruptLog) as caught:
            reader.verify_chain("s")
        assert (caught.value.session_id, caught.value.seq) == ("s", seq)
        assert f"event {seq}" in str(caught.value)


def test_a_shortened_log_is_found_by_a_head_that_was_kept(path: Path) -> None:
    with SQLiteReader(path) as reader:
        kept = reader.head("s")
    shell = sqlite3.connect(path)
    shell.execute(f"DELETE FROM events WHERE id > ({ID}) + 30")
    shell.execute("UPDATE sessions SET head = 30 WHERE session_id = 's'")
    shell.commit()
    shell.close()
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 30
        with pytest.raises(CorruptLog, match="event 31 is missing, and all after it"):
            reader.verify_chain("s", head=kept)


@pytest.mark.parametrize(
    ("what", "said"), [("a large value gone", "lacks"), ("a cut moved", "no known place")]
)
def test_a_body_that_cannot_be_put_together_is_an_error_for_its_reader(
    path: Path, what: str, said: str
) -> None:
    shell = sqlite3.connect(path)
    shell.execute(TAMPERING[what][0])
    shell.commit()
    shell.close()
    with SQLiteReader(path) as reader:
        assert len(reader.events("s", 1, 20)) == 20
        with pytest.raises(CorruptLog, match=said) as caught:
            reader.events("s")
        assert caught.value.seq == 21


@pytest.mark.slow
def test_a_flipped_byte_anywhere_in_the_file_changes_nothing_unnoticed(path: Path) -> None:
    original = path.read_bytes()
    with SQLiteReader(path) as reader:
        kept, rows = reader.head("s"), reader.events("s")
    noticed = 0
    for at in range(150, len(original), effort(997, 499)):
        damaged = bytearray(original)
        damaged[at] ^= 0x41
        path.write_bytes(damaged)
        try:
            with SQLiteReader(path) as reader:
                reader.verify_chain("s", head=kept)
                assert reader.events("s") == rows  # unused space, or another session's
        except (StoreError, CorruptLog):
            noticed += 1
    assert noticed > 10


def test_it_reads_the_events_of_one_actor_and_the_checked_rows_of_a_session(path: Path) -> None:
    with SQLiteReader(path) as reader:
        own = reader.events_of("s", POSTED[0].sender, 5, 9, 3)
        assert [row.seq for row in own] == [5, 6, 7]
        assert [row.seq for row in reader.events_of("s", POSTED[0].sender, 5, 6)] == [5, 6]
        assert reader.events_of("s", "host.9", 1, 40) == []
        rows = [row for page in reader.checked_pages("s", 30) for row in page]
        assert [row.whole() for row in rows] == reader.events("s", 1, 30)
        behind = reader.checked_pages("s", 30, after=Head(20, rows[19].digest))
        assert [row.seq for page in behind for row in page] == [*range(21, 31)]
        with pytest.raises(CorruptLog, match="event 20 is not the one"):
            list(reader.checked_pages("s", 30, known=Head(20, bytes(32))))
        with pytest.raises(WrongKey):
            list(reader.checked_pages("s", 30, b"key"))
        assert (reader.key_check(), reader.segments("s")[0].last) == ("", 40)


def test_a_damaged_page_is_told_with_the_session_and_the_first_event_that_was_asked_for(path: Path) -> None:
    size = 8_192
    damaged = bytearray(path.read_bytes())
    with sqlite3.connect(path) as shell:
        (root,) = shell.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()
    shell.close()
    damaged[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(damaged)
    with SQLiteReader(path) as reader:
        for read in (
            lambda: reader.events("s", 4),
            lambda: reader.events_of("s", "host", 4, 9),
            lambda: list(reader.checked_pages("s", 9, after=Head(3, bytes(32)))),
        ):
            with pytest.raises(CorruptLog, match=r"session s, from event 4: .* reading failed") as info:
                read()
            assert (info.value.session_id, info.value.seq) == ("s", 4)


def test_a_wal_that_is_damaged_before_its_end_is_told(path: Path) -> None:
    copy = left_behind(path)
    wal = copy.with_name("killed.db-wal")
    with SQLiteReader(copy) as reader:
        reader.check_whole()
        content = bytearray(wal.read_bytes())
        content[32 + 24 + 100] ^= 0xFF
        wal.write_bytes(content)
        with pytest.raises(CorruptLog, match=r"-wal is damaged at frame 1: \d+ commits after that cannot"):
            reader.check_whole()


def test_its_connection_only_reads_trusts_no_schema_and_is_closed_with_it(path: Path) -> None:
    with SQLiteReader(path) as reader:
        ask = reader._connection.execute
        asked = [
            ask(f"PRAGMA {name}").fetchone()[0] for name in ("query_only", "trusted_schema", "busy_timeout")
        ]
        assert asked == [1, 0, 30_000]
        assert reader._connection.isolation_level is None
    reader.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        ask("SELECT 1")


def test_an_error_says_what_was_done_with_which_file(path: Path, tmp_path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 8_000)
    with pytest.raises(StoreError, match="opening"):
        SQLiteReader(path)
    write(tmp_path / "b.db")
    with SQLiteReader(tmp_path / "b.db") as reader:
        for session in ("", "s"):
            with pytest.raises(StoreError, match=r"copying to .*nowhere"):
                reader.copy_to(tmp_path / "nowhere" / "c.db", session)
        reader._connection.execute("PRAGMA query_only = OFF")
        with pytest.raises(StoreFailed, match="reading") as raised, reader._reported("s", 3):
            raise sqlite3.OperationalError("odd")
        assert isinstance(raised.value.__cause__, sqlite3.OperationalError)


def test_a_check_goes_on_from_a_head_that_was_checked_and_ends_at_the_one_that_is_asked_for(
    path: Path,
) -> None:
    with SQLiteReader(path) as reader:
        pages = [sealed for page in reader.checked_pages("s", 9) for sealed in page]
        assert [sealed.seq for sealed in pages] == [*range(1, 10)]
        after = Head(9, pages[-1].digest)
        later = [sealed.seq for page in reader.checked_pages("s", 12, after=after) for sealed in page]
        assert later == [10, 11, 12]
        with pytest.raises(CorruptLog):
            list(reader.checked_pages("s", 9, known=Head(5, b"x" * 32)))
        assert reader.segments("s") == (("s", (0, bytes(32)), 40),)


def test_a_file_whose_newest_events_are_elsewhere_is_refused(path: Path, tmp_path: Path) -> None:
    def copy_it() -> None:
        shutil.copy(path, tmp_path / "alone.db")

    beside_an_owner(path, copy_it)
    with pytest.raises(StoreError, match="where its newest events are"):
        SQLiteReader(tmp_path / "alone.db")


def test_a_key_may_be_given_once_for_all_checks(tmp_path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(tmp_path / "keyed.db", key=b"k" * 32)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 3))
        await log.close()

    run(work)
    with SQLiteReader(tmp_path / "keyed.db", b"k" * 32) as reader:
        assert reader.verify_chain("s").seq == reader.verify_chain("s", b"k" * 32).seq == 3
        with pytest.raises(WrongKey):
            reader.verify_chain("s", b"x" * 32)
    with SQLiteReader(tmp_path / "keyed.db") as reader, pytest.raises(WrongKey):
        reader.verify_chain("s")


def test_a_reader_and_its_store_say_what_those_in_memory_say(tmp_path: Path) -> None:
    answer_alike(MemoryLog(), tmp_path / "file.db")


def test_a_log_of_an_earlier_format_is_read_without_being_written(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    write(path)
    older(path)
    before = path.read_bytes()
    with SQLiteReader(path) as reader:
        assert len(reader.sessions()) == 2
        assert reader.usage() == []
    assert path.read_bytes() == before


def test_a_page_that_is_damaged_names_the_session_that_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.sqlite"
    write(path)
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    with SQLiteReader(path) as reader:

        def fail(session_id: str) -> None:
            raise error

        monkeypatch.setattr(reader._tables, "entry", fail)
        with pytest.raises(CorruptLog, match="session s, from event 1") as caught:
            reader.verify_chain("s")
    assert (caught.value.session_id, caught.value.seq) == ("s", 1)
