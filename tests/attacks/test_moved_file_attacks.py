"""The file of a log is removed, replaced or moved under a runtime: no later event is acknowledged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import CallboardError, SessionFailed, StoreFailed
from callboard.runtime.agent import Agent
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from tests.runtime.log.kit import added, events, run, write_some


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def remove(path: Path) -> None:
    path.unlink()


def remove_all(path: Path) -> None:
    for one in path.parent.glob("log.db*"):
        one.unlink()


def replace(path: Path) -> None:
    """Put a backup in place of the log, as `mv backup.db log.db` does."""
    shutil.copy(path, path.with_name("backup.db"))
    path.with_name("backup.db").replace(path)


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace_wal(path: Path) -> None:
    path.with_name("log.db-wal").unlink()
    path.with_name("log.db-wal").touch()


CHANGES = [remove, remove_all, replace, move, replace_wal]


@pytest.mark.parametrize("change", CHANGES)
def test_no_event_is_acknowledged_that_is_missing_at_the_path(
    path: Path, change: Callable[[Path], None]
) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 5))
        change(path)
        for ask in (
            lambda: added(log, "s", 1, events(6, 7)),
            lambda: log.create("t", 1, ""),
            lambda: log.take_over("s"),
        ):
            with pytest.raises(StoreFailed, match=r"removed|replaced|moved"):
                await ask()
        await log.close()

    run(work)


@pytest.mark.parametrize("change", CHANGES)
def test_a_session_dies_with_its_file(path: Path, change: Callable[[Path], None]) -> None:
    async def work() -> None:
        model = ScriptedModel([say("One."), say("Two.")])
        async with Runtime(path, model=model) as runtime:
            session = await runtime.open(Agent("host"))
            assert (await session.ask("First.")).text == "One."
            change(path)
            with pytest.raises(CallboardError, match=r"removed|replaced|moved") as caught:
                await session.ask("Second.")
            assert isinstance(caught.value, StoreFailed | SessionFailed)
            with pytest.raises(CallboardError):
                await session.ask("Third.")

    run(work)


def test_a_file_that_is_put_back_opens_with_all_that_was_acknowledged(path: Path) -> None:
    write_some(path)

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        epoch, head = await log.take_over("s")
        await added(log, "s", epoch, events(head.seq + 1, head.seq + 5))
        move(path)
        with pytest.raises(StoreFailed):
            await added(log, "s", epoch, events(head.seq + 6, head.seq + 6))
        path.with_name("elsewhere.db").rename(path)
        await log.close()

    run(work)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq >= 15


def test_a_link_to_the_log_may_be_removed(path: Path) -> None:
    async def work() -> None:
        link = path.with_name("link.db")
        link.symlink_to(path)
        log = SQLiteLog(link)
        await log.open()
        link.unlink()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 5))
        await log.close()

    run(work)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 5
