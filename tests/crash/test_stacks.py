"""A process that hangs tells where."""

import asyncio
import os
import signal
from pathlib import Path

from tests.crash import stacks


async def _waits_for_nothing() -> None:
    loop = asyncio.get_running_loop()
    loop.call_soon(os.write, _bell, b"!")
    await loop.create_future()


_rope, _bell = os.pipe()


def test_a_hung_process_writes_what_its_tasks_wait_for(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    pid = os.fork()
    if pid == 0:
        stacks.install(path)
        asyncio.run(_waits_for_nothing())
    try:
        os.read(_rope, 1)
        stacks.ask(pid, path)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    said = path.read_text()
    assert f"{Path(__file__).name}:{_waits_for_nothing.__code__.co_firstlineno + 3} in" in said
    assert "Current thread" in said
