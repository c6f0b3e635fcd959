"""The stacks of a process that hangs: its parent asks for them by a signal, before it kills the process.

The stack of a task that waits ends at its outermost coroutine, so each is followed to the future it awaits.
"""

import asyncio
import faulthandler
import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final

ASK: Final = signal.SIGUSR2
_ANSWER_S: Final = 20.0
_END: Final = "\n(all stacks)\n"


def install(path: Path) -> None:
    """Write the stacks of all threads and tasks of this process into a file when its parent asks."""

    def write(number: int, frame: FrameType | None) -> None:
        with path.open("w") as file:
            faulthandler.dump_traceback(file, all_threads=True)
            _write_tasks(file)
            file.write(_END)

    signal.signal(ASK, write)


def ask(pid: int, path: Path) -> None:
    """Let a process write its stacks, and wait some seconds until it has."""
    path.write_text("it wrote no stacks\n")
    os.kill(pid, ASK)
    until = time.monotonic() + _ANSWER_S
    while not path.read_text().endswith(_END) and time.monotonic() < until:
        time.sleep(0.02)


def _write_tasks(file: IO[str]) -> None:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        file.write("no loop runs in the main thread\n")
        return
    for task in tasks:
        file.write(f"\n{task.get_name()}: {task!r}\n")
        for line in _awaited(task.get_coro()):
            file.write(f"  {line}\n")


def _awaited(inner: Any) -> list[str]:
    """Describe a coroutine and, one below the other, the awaitables it waits for."""
    lines = []
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        where = f"{frame.f_code.co_filename}:{frame.f_lineno} in " if frame is not None else ""
        lines.append(f"{where}{getattr(inner, '__qualname__', repr(inner))}")
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    return lines
