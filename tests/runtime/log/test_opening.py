"""A log is opened by its address: a path, a URL, or `":memory:"`."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from callboard import Runtime
from callboard.actors.protocol.errors import HasForks, MisuseError, SessionNotFound, StoreFailed, WrongKey
from callboard.cli.main import cli
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.opening import cut, erase, log_of, open_log
from callboard.runtime.log.reading import open_reader
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.runtime.log.kit import added, child, events, run, write_some


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///", "sqlite://log.db"])
def test_a_url_without_a_file_is_refused(address: str) -> None:
    for opens in (open_log, open_reader):
        with pytest.raises(MisuseError, match="names no file: write sqlite:///"):
            opens(address)


def test_an_unknown_scheme_is_refused_with_those_that_are_known() -> None:
    for opens in (open_log, open_reader):
        for scheme in ("mysql", "postgresql+psycopg", "memory"):
            with pytest.raises(MisuseError, match=re.escape(scheme) + r":// is not a store .* sqlite://"):
                opens(f"{scheme}://localhost/log")


@pytest.mark.parametrize("given", [5, None, b"callboard.db", ["callboard.db"]])
def test_an_object_that_is_neither_an_address_nor_a_log_is_refused(given: Any) -> None:
    for opens in (Runtime, Recording.open):
        with pytest.raises(MisuseError, match=re.escape(f'{given!r} is not a log; give a path, such as "')):
            opens(given)


@pytest.mark.parametrize("form", ["{path}", "sqlite:///{path}"])
def test_a_log_that_is_written_under_one_address_is_read_under_it(path: Path, form: str) -> None:
    address = form.format(path=path)

    async def work() -> None:
        log = open_log(address, "process", b"key", encryption_key=bytes(32))
        assert isinstance(log, SQLiteLog)
        assert (log.path, log.durability, log.force) == (path, "process", False)
        await log.open()
        await log.create("s", 1, "title")
        await added(log, "s", 1, events(1, 3))
        await log.close()

    run(work)
    with open_reader(address, b"key", bytes(32)) as reader:
        assert reader.verify_chain("s").seq == 3
    with pytest.raises(WrongKey):
        open_reader(address)


def test_a_relative_url_is_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def work() -> None:
        log = open_log("sqlite:///log.db")
        await log.open()
        await log.close()

    run(work)
    assert Path(tmp_path, "log.db").is_file()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log.db", "log.db.lock"]


def test_force_and_durability_reach_the_log(path: Path) -> None:
    log = open_log(path, force=True)
    assert isinstance(log, SQLiteLog)
    assert log.force
    with pytest.raises(MisuseError, match="durability"):
        open_log(path, "sometimes")  # type: ignore[arg-type]  # a wrong value on purpose


def test_a_log_in_memory_is_new_and_cannot_be_read_by_its_address() -> None:
    log = open_log(":memory:", "process")
    assert isinstance(log, MemoryLog)
    with pytest.raises(StoreFailed, match="await open"):
        run(lambda: log.create("s", 1, ""))
    with pytest.raises(MisuseError, match=r"MemoryReader\(log\)"):
        open_reader(":memory:")


@pytest.mark.slow
def test_reading_by_address_imports_nothing_that_could_write() -> None:
    done = child("import sys, callboard.runtime.log.reading; print(*sys.modules)")
    loaded = set(done.stdout.split())
    assert "callboard.runtime.log.sqlite.reader" in loaded, done.stderr
    assert not loaded & {"asyncio", "aiosqlite", "callboard.runtime.log.sqlite.log"}


def test_the_command_line_takes_a_url(path: Path) -> None:
    write_some(path)
    done = CliRunner().invoke(cli, ["sessions", "--log", f"sqlite:///{path}"])
    assert done.exit_code == 0, done.output
    for address, code, said in (
        (f"sqlite:///{path}.missing", 3, "there is no log at"),
        ("mysql://me:s3cret@localhost/log", 2, "is not a store that callboard knows"),
        ("postgresql://me:s3cret@/log?host=/nowhere", 4, "check that the server runs"),
    ):
        done = CliRunner().invoke(cli, ["sessions", "--log", address])
        assert "s3cret" not in done.output
        assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


def test_a_log_that_is_given_is_taken_as_it_is_and_an_address_is_opened(path: Path) -> None:
    given = MemoryLog()
    assert log_of(given) is given
    for address in (path, str(path)):
        log = log_of(address, "process")
        assert isinstance(log, SQLiteLog)
        assert (log.path, log.durability) == (path, "process")
    default = log_of(path)
    assert isinstance(default, SQLiteLog)
    assert default.durability == "full"


def test_a_log_in_memory_has_the_key_that_it_is_opened_with() -> None:
    log = open_log(":memory:", key=b"key")
    assert isinstance(log, MemoryLog)
    write_some_in(log)
    with MemoryReader(log) as reader:
        assert reader.verify_chain("s", b"key").seq == 3
        with pytest.raises(WrongKey):
            reader.verify_chain("s")


def write_some_in(log: MemoryLog) -> None:
    async def work() -> None:
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 3))

    run(work)


class Told:
    """A log that notes its calls, and purges in several pieces. pieces: that are left."""

    def __init__(self, pieces: int = 3) -> None:
        self.pieces, self.asked = pieces, list[Any]()

    async def delete(self, session_id: str, *, keep_forks: bool = False) -> int:
        self.asked.append((session_id, keep_forks))
        return len(session_id)

    async def purge(self) -> bool:
        self.pieces -= 1
        self.asked.append("purge")
        return self.pieces > 0

    async def vacuum(self, pages: int | None) -> int:
        self.asked.append(pages)
        return 0


@pytest.mark.parametrize("keeps", [True, False])
def test_every_session_is_deleted_before_any_is_purged_and_the_file_is_cut_last(keeps: bool) -> None:
    log: Any = Told()
    assert asyncio.run(erase(log, "a", "bcd", keep_forks=keeps)) == 4
    assert log.asked == [("a", keeps), ("bcd", keeps), "purge", "purge", "purge", 1 << 30]


def test_a_cut_purges_until_nothing_is_left() -> None:
    log: Any = Told(1)
    asyncio.run(cut(log))
    assert log.asked == ["purge", 1 << 30]


def test_an_erased_session_leaves_the_file_smaller_and_the_others_whole(path: Path) -> None:
    async def write() -> None:
        log = SQLiteLog(path)
        await log.open()
        for name in "ab":
            await log.create(name, 1, "")
            await added(log, name, 1, events(1, 400))
        await log.close()

    async def remove() -> None:
        log = SQLiteLog(path)
        await log.open()
        assert await erase(log, "a") == 400
        assert [row.session_id for row in await log.sessions()] == ["b"]
        assert len(await log.read("b")) == 400
        await log.close()

    run(write)
    before = path.stat().st_size
    run(remove)
    assert path.stat().st_size < before


def test_a_session_with_forks_stays_unless_its_shared_events_are_kept() -> None:
    async def work() -> None:
        log = MemoryLog()
        await log.open()
        await log.create("a", 1, "")
        await added(log, "a", 1, events(1, 4))
        await log.fork("f", 2, "", "a", 2)
        with pytest.raises(HasForks):
            await erase(log, "a")
        await erase(log, "a", keep_forks=True)
        assert [row.session_id for row in await log.sessions()] == ["f"]
        with pytest.raises(SessionNotFound):
            await erase(log, "a")

    run(work)
