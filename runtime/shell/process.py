"""One command, run by its guard: its output up to a limit, and how it ended."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

End: TypeAlias = Literal["exited", "timeout", "processes", "output", "stopped", "lost"]
"""The end of a command: by itself, by a limit of time, processes or output, by its caller, or unwatched."""

GRACE_S: Final = 0.3
"""Seconds between the request to end, SIGTERM, and the end by force, SIGKILL."""

FLOOD: Final = 100
"""A command is ended when its output is so many times as long as what is kept of it."""

_GUARD: Final = str(Path(__file__).with_name("guard.py"))
_READ_BYTES: Final = 65_536
_DRAIN_S: Final = 1.0  # for output after the end, which a process that escaped may hold open


class Finished(NamedTuple):
    """A command that has ended. output: its first and last bytes. left_out: bytes between them.

    code: of the exit; negative for a signal, None for none. survivors: processes that could not be ended.
    """

    output: tuple[bytes, bytes]
    left_out: int
    ended: End
    code: int | None = None
    survivors: int = 0


class Command(NamedTuple):
    """A command to run. folder: a descriptor. output_bytes_max: of its output that are kept."""

    arguments: Sequence[str]
    folder: int
    env: Mapping[str, str]
    timeout_s: float
    output_bytes_max: int
    processes_max: int


async def run(command: Command) -> Finished:
    """Run a command to its end. A caller that is cancelled ends it, and waits for that."""
    running = _Running(command)
    try:
        return await running.finished()
    except asyncio.CancelledError:
        running.stop()
        await running.finished()
        raise
    finally:
        running.close()


class _Running:
    """A command that runs. All of it is on the event loop's thread."""

    def __init__(self, command: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._kept = _Kept(command.output_bytes_max)
        self._report = b""
        self._is_reported: asyncio.Future[None] = self._loop.create_future()
        self._is_drained: asyncio.Future[None] = self._loop.create_future()
        self._is_flooded = False
        self._reads, writes = os.pipe()
        try:
            self._guard = _guard(command, writes)
        except BaseException:
            os.close(self._reads)
            raise
        finally:
            os.close(writes)
        assert self._guard.stdout is not None
        self._output = self._guard.stdout.fileno()
        for file, take in ((self._output, self._take_output), (self._reads, self._take_report)):
            os.set_blocking(file, False)
            self._loop.add_reader(file, take)

    def stop(self) -> None:
        """End the command. It is over when `finished` returns."""
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):
            self._guard.stdin.close()

    async def finished(self) -> Finished:
        """Wait for the end."""
        await asyncio.shield(self._is_reported)
        await asyncio.wait([self._is_drained], timeout=_DRAIN_S)
        first, _, said = self._report.partition(b"\n")
        if not said:
            _kill_group(first)
            return Finished(*self._kept.parts(), "lost")
        found = json.loads(said)
        ended: End = "output" if self._is_flooded and found["ended"] == "stopped" else found["ended"]
        return Finished(*self._kept.parts(), ended, found["code"], found["left"])

    def close(self) -> None:
        """Let go of the guard, which ends what is left."""
        self.stop()
        for file in (self._output, self._reads):
            self._loop.remove_reader(file)
        os.close(self._reads)
        assert self._guard.stdout is not None
        self._guard.stdout.close()
        if self._guard.poll() is None:  # it is about to end
            threading.Thread(target=self._guard.wait, daemon=True).start()

    def _take_output(self) -> None:
        data = _read(self._output)
        if data == b"":
            self._loop.remove_reader(self._output)
            _set(self._is_drained)
        elif data:
            self._kept.add(data)
            if self._kept.count > FLOOD * self._kept.limit and not self._is_flooded:
                self._is_flooded = True
                self.stop()

    def _take_report(self) -> None:
        data = _read(self._reads)
        if data == b"":
            self._loop.remove_reader(self._reads)
            _set(self._is_reported)
        elif data:
            self._report += data


class _Kept:
    """The first and the last bytes of an output. count: of all bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self._half = limit // 2
        self._first = b""
        self._last = bytearray()

    def add(self, data: bytes) -> None:
        """Take in more of the output."""
        self.count += len(data)
        room = self._half - len(self._first)
        self._first += data[:room] if room > 0 else b""
        self._last += data[max(room, 0) :]
        if len(self._last) > self._half + _READ_BYTES:
            del self._last[: -self._half]

    def parts(self) -> tuple[tuple[bytes, bytes], int]:
        """Return the first and last bytes, and the number of bytes between them."""
        last = bytes(self._last[-self._half :])
        return (self._first, last), self.count - len(self._first) - len(last)


def _guard(command: Command, report: int) -> "subprocess.Popen[bytes]":
    plan = {
        "command": list(command.arguments),
        "env": dict(command.env),
        "folder": command.folder,
        "report": report,
        "timeout_s": command.timeout_s,
        "processes_max": command.processes_max,
        "grace_s": GRACE_S,
    }
    return subprocess.Popen(
        [sys.executable, "-I", "-S", _GUARD, json.dumps(plan)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        pass_fds=(report, command.folder),
        start_new_session=True,
    )


def _read(file: int) -> bytes | None:
    """Read what is there: nothing at the end, None if there is nothing yet."""
    try:
        return os.read(file, _READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _kill_group(first: bytes) -> None:
    """End the group of a command whose guard was killed."""
    if first.isdigit():
        with contextlib.suppress(OSError):
            os.killpg(int(first), signal.SIGKILL)
