"""A process that is killed while it begins a fork leaves either no fork, or one that can go on."""

import asyncio
import signal
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.recording import Recording
from callboard.runtime.runtime import Runtime
from tests.runtime.forks.kit import Counted, host_of, recorded, reporting
from tests.runtime.log.kit import child

BASE = 3
FORKING = f"""
import asyncio, os, signal, sys
from callboard.runtime.log.sqlite import store
from callboard.runtime.runtime import Runtime
from tests.runtime.forks.kit import Counted, host_of, reporting

path, moment = sys.argv[1:]
is_forking = False

def killed_before(cls, name):
    original = getattr(cls, name)
    def call(*arguments):
        if is_forking:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)
    setattr(cls, name, call)

if moment == "its events are written":
    killed_before(store.SQLiteStore, "_write")
else:
    killed_before(store.SQLiteStore, "append")

async def main():
    global is_forking
    async with Runtime(path, model=Counted(reporting)) as runtime:
        is_forking = True
        await runtime.fork("origin", host_of(), at={BASE}, fork_id="f")
        await asyncio.sleep(5)

asyncio.run(main())
"""


def killed_before(moment: str, path: Path) -> list[str]:
    """Record a session, and fork it in a process that is killed. Return the sessions of the log."""
    asyncio.run(recorded(path, reporting))
    done = child(FORKING, path, moment)
    assert done.returncode == -signal.SIGKILL, done.stderr

    async def names() -> list[str]:
        async with Runtime(path, model=Counted(reporting)) as runtime:
            return [row.session_id async for row in runtime.sessions()]

    return asyncio.run(names())


@pytest.mark.slow
def test_a_fork_whose_first_events_are_not_stored_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    assert killed_before("its events are written", path) == ["origin"]
    assert Recording.open(path, "origin").verify().is_ok


@pytest.mark.slow
def test_a_fork_that_is_killed_before_its_next_commit_goes_on_with_its_recorded_answers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.db"
    assert set(killed_before("the next commit", path)) == {"f", "origin"}
    assert isinstance(Recording.open(path, "f").event(BASE + 1).body, Forked)

    async def resume() -> list[tuple[str, int]]:
        async with Runtime(path, model=(model := Counted(reporting))) as runtime, asyncio.timeout(10):
            session = await runtime.resume("f", host_of())
            assert (await session.outcome).kind == "answered"
            await session.close()
        return model.asked

    assert asyncio.run(resume()) == []
    fork = Recording.open(path, "f")
    assert fork.verify().is_ok
    assert all(one.body.reused for one in fork.events_after(BASE) if isinstance(one.body, ModelReplied))
