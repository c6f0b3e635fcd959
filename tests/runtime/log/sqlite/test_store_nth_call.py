"""A disk that fails at its n-th call, for every n until no call fails any more.

After every failure: no acknowledged event is lost, the log can be opened again and its hash chains are whole,
and no session continues on an event that is not stored. The idea is SQLite's own
(https://www.sqlite.org/testing.html, "I/O error testing").
"""

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import CallboardError, StoreError, WrongHead
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.sqlite import rows as sqlite_rows
from callboard.runtime.log.sqlite import store as sqlite_store
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.meta import Durability, prepare
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.sqlite.store import SQLiteStore
from callboard.runtime.log.sqlite.store_errors import store_error
from callboard.runtime.log.sqlite.thread import SQLiteThread
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.tool import tool
from tests.effort import effort
from tests.runtime.log.kit import events, large, run
from tests.runtime.log.sqlite.disk import ERRORS, Disk

CALLS_MAX = 2_000
STEP = effort(5, 1)
"""The suite lets every third call fail, and each kind of failure another third: the campaign every call."""


@pytest.fixture(autouse=True)
def many_checkpoints_and_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_PAGES", 10)
    monkeypatch.setattr(sqlite_rows, "CHUNK_BYTES", 10_000)


# --- the store ----------------------------------------------------------------------


class Work:
    """A small job on a store, done step by step; a step that fails is told, and the next one tried."""

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], durability: Durability = "full"
    ) -> None:
        self.path = path
        self.durability = durability
        self.heads: dict[str, Head] = {}
        self.failures = 0
        try:
            connection = connect()
        except sqlite3.Error:
            self.failures += 1
            return
        with contextlib.suppress(sqlite3.Error), closing(connection):
            self._use(connection)

    def _use(self, connection: sqlite3.Connection) -> None:
        try:
            owner = prepare(connection, self.path, self.durability, HashChain())
        except (sqlite3.Error, StoreError):
            self.failures += 1
            return
        store = SQLiteStore(connection, self.path, HashChain(), owner)
        for name in "ab":
            with self._failing():
                store.create(name, 1, "", GENESIS)
                self.heads[name] = Head(0, GENESIS)
        for step in range(4):
            with self._failing():
                self._append(store, step)
        with contextlib.suppress(sqlite3.Error):
            store.leave()

    def _append(self, store: SQLiteStore, step: int) -> None:
        """Return one batch for both sessions, on top of the acknowledged heads.

        Every other batch is too large for one statement.
        """
        batch = []
        for name, head in self.heads.items():
            size = 20_000 + step if step % 2 else 2_000
            more = [*events(head.seq + 1, head.seq + 3), large(head.seq + 4, size, name)]
            batch.append(Append(name, head.seq, 1, more))
        for part, answer in zip(batch, store.append(batch), strict=True):
            if isinstance(answer, Head):
                self.heads[part.session_id] = answer
            else:  # the batch before was stored, and its writer was told that it failed
                assert isinstance(answer, WrongHead)
                self.failures += 1

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            self.failures += 1


def check(path: Path, heads: dict[str, Head]) -> None:
    """Check that the log is whole, has all acknowledged events, and can be continued."""

    async def go_on() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        for row in await log.sessions():
            epoch, head = await log.take_over(row.session_id)
            (answer,) = await log.append(
                [Append(row.session_id, head.seq, epoch, events(head.seq + 1, head.seq + 2))]
            )
            assert isinstance(answer, Head)
        await log.close()

    run(go_on)
    with SQLiteReader(path) as reader:
        assert set(heads) <= {row.session_id for row in reader.sessions()}
        for row in reader.sessions():
            reader.verify_chain(row.session_id, head=heads.get(row.session_id))


@pytest.mark.slow
@pytest.mark.parametrize("failure", ERRORS)
def test_a_store_whose_disk_fails_at_any_call_loses_nothing_acknowledged(
    tmp_path: Path, failure: str
) -> None:
    for number in range(1 + list(ERRORS).index(failure) % STEP, CALLS_MAX, STEP):
        path = tmp_path / f"{number}.db"
        disk = Disk()
        disk.fail_at, disk.failure = number, failure
        work = Work(path, lambda disk=disk, path=path: disk.connect(path))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        disk.close()
        check(path, work.heads)
        if disk.calls < number:
            assert not work.failures
            assert {name: head.seq for name, head in work.heads.items()} == {"a": 16, "b": 16}
            assert number > 50
            return
    pytest.fail("it never ends")


class Refusing:
    """A connection whose n-th statement fails, before it does anything or after it did all."""

    def __init__(self, connection: sqlite3.Connection, fail_at: int, code: int, *, is_done: bool) -> None:
        self._connection = connection
        self.fail_at = fail_at
        self.code = code
        self.is_done = is_done
        self.calls = 0

    def execute(self, statement: str, parameters: object = ()) -> object:
        self.calls += 1
        if self.calls != self.fail_at:
            return self._connection.execute(statement, parameters)  # type: ignore[arg-type]  # passed on as they came
        if self.is_done:
            self._connection.execute(statement, parameters)  # type: ignore[arg-type]  # passed on as they came
        error = sqlite3.OperationalError("this statement fails, as the test wants it to")
        error.sqlite_errorcode, error.sqlite_errorname = self.code, "SQLITE_TEST"
        raise error

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "is_done"),
    [
        (sqlite3.SQLITE_BUSY, False),
        (sqlite3.SQLITE_FULL, False),
        (sqlite3.SQLITE_IOERR, False),
        (sqlite3.SQLITE_IOERR, True),
    ],
    ids=["busy", "full", "input/output error", "input/output error after it was done"],
)
def test_a_store_any_of_whose_statements_fails_loses_nothing_acknowledged(
    tmp_path: Path, code: int, is_done: bool
) -> None:
    """Fail commits too that were carried out, as after an error of fsync."""
    made: list[Refusing] = []
    for number in range(1 + (code + is_done) % STEP, CALLS_MAX, STEP):
        path = tmp_path / f"{number}.db"

        def connect(path: Path = path, number: int = number) -> sqlite3.Connection:
            connection = sqlite3.connect(path, isolation_level=None, timeout=0)
            made.append(Refusing(connection, number, code, is_done=is_done))
            return made[-1]  # type: ignore[return-value]  # it has the methods that the store calls

        work = Work(path, connect, "process")
        check(path, work.heads)
        if made[-1].calls < number:
            assert not work.failures
            assert number > 50
            return
    pytest.fail("it never ends")


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_page_fails_batches_and_loses_nothing(tmp_path: Path) -> None:
    for pages in itertools.count(8):
        path = tmp_path / f"{pages}.db"

        def connect(path: Path = path, pages: int = pages) -> sqlite3.Connection:
            connection = sqlite3.connect(path, isolation_level=None, timeout=0)
            prepare(connection, path, "process", HashChain())
            connection.execute(f"PRAGMA max_page_count = {pages}")
            return connection

        work = Work(path, connect, "process")
        check(path, work.heads)
        if not work.failures:
            assert pages > 12
            return


def test_the_errors_of_the_disk_are_those_that_the_store_knows(tmp_path: Path) -> None:
    """Fail as SQLite reports it, to test the store's own rules for errors."""
    said = []
    for failure in ERRORS:
        disk = Disk()
        with closing(disk.connect(tmp_path / f"{failure[:5]}.db")) as connection:
            prepare(connection, tmp_path / "log.db", "full", HashChain())
            disk.fail_at, disk.failure = disk.calls + 2, failure
            with pytest.raises(sqlite3.Error) as caught:
                connection.execute("UPDATE meta SET value = 'x'")
            said.append(str(store_error(caught.value, tmp_path, "append")))
        disk.close()
    assert "SQLITE_IOERR_WRITE" in said[0]
    assert "make room" in said[1]
    assert "SQLITE_IOERR_WRITE" in said[2]


# --- a whole runtime ----------------------------------------------------------------


@tool(effect="read")
def count_files(folder: str) -> str:
    """Count files."""
    return f"{folder}: 3"


class Episode:
    """A session with a delegation on a disk that fails, and what its user was told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[tuple[int, bytes]] = []
        self.head: tuple[int, str] | None = None
        self.error: BaseException | None = None

    async def play(self) -> None:
        model = ScriptedModel(
            {
                "host": [
                    call("task", agent="counter", prompt="Count"),
                    call("count_files", folder="b"),
                    say("Done."),
                ],
                "counter": [calls(call("count_files", folder="a"), text="Hm."), say("3")],
            }
        )
        counter = Agent("counter", description="Counts.", tools=[count_files])
        host = Agent("host", agents=[counter], tools=[count_files])
        async with Runtime(self.path, model=model) as runtime:
            session = await runtime.open(host, session_id="s")
            watching = asyncio.create_task(self._watch(session))
            try:
                outcome = await session.ask("How many?")
                assert outcome.is_ok
                self.head = outcome.head
            finally:
                with contextlib.suppress(CallboardError):
                    await session.close()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, session: Session) -> None:
        async for event in session.events():
            self.seen.append((event.seq, encode(event.body)))


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["input/output error", "disk full"])
def test_a_session_whose_disk_fails_at_any_call_stops_or_goes_on_and_never_pretends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    """Check that events and outcomes that callers have seen are in the log, to the byte."""
    for number in range(1 + list(ERRORS).index(failure) % STEP, CALLS_MAX, STEP):
        episode = Episode(tmp_path / f"{number}.db")
        disk = Disk()
        disk.fail_at, disk.failure = number, failure

        def connect(thread: SQLiteThread, disk: Disk = disk, path: Path = episode.path) -> sqlite3.Connection:
            made = disk.connect(path)
            thread._connection._connection = made
            return made

        with monkeypatch.context() as patched:
            patched.setattr(SQLiteThread, "_connect", connect)
            try:
                run(episode.play)
            except CallboardError as error:
                episode.error = error
        disk.close()
        recorded = _recorded(episode)
        if disk.calls < number:
            assert episode.error is None
            assert episode.head is not None
            assert recorded > 20
            assert number > 20
            return
        assert disk.calls >= number
    pytest.fail("it never ends")


def _recorded(episode: Episode) -> int:
    """Return the number of events in the log, which must be whole and hold all that callers have seen."""
    try:
        with SQLiteReader(episode.path) as reader:
            if not reader.sessions():
                assert not episode.seen
                return 0
            head = Head(episode.head[0], bytes.fromhex(episode.head[1])) if episode.head else None
            recording = Recording.open(reader, "s", head=head)
            rows = {row.seq: row.body for row in recording.rows}
            recording.verify().check()
    except StoreError:
        assert not episode.seen
        assert episode.head is None
        return 0
    assert all(rows[seq] == body for seq, body in episode.seen)
    return len(rows)
