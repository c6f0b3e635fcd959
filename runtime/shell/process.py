"""One command, run by its guard: its output up to a limit, and how it ended.

The command can stop or kill its guard, and write into the guard's report. So a guard that is stopped or late
is killed with all processes below it, and its report is read as foreign input.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard.runtime.shell.guard import kill_below

End: TypeAlias = Literal["exited", "timeout", "processes", "output", "stopped", "lost"]
"""The end of a command: by itself, by a limit of time, processes or output, by its caller, or unwatched."""

GRACE_S: Final = 0.3
"""Seconds between the request to end, SIGTERM, and the end by force, SIGKILL."""

FLOOD: Final = 100
"""A command is ended when its output is so many times as long as what is kept of it."""

_GUARD: Final = str(Path(__file__).with_name("guard.py"))
_READ_BYTES: Final = 65_536
_DRAIN_S: Final = 1.0  # for output after the end, which a process that escaped may hold open
_LATE_S: Final = 2.0  # for a guard to end its command, before that is done here
_STEP_S, _STEPS_MAX = 0.01, 100  # in which killed processes end
_REPORT_BYTES_MAX: Final = 1_000


class _Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The second line of a guard's report."""

    ended: Literal["exited", "timeout", "processes", "stopped"]
    code: Annotated[int, msgspec.Meta(ge=-255, le=255)] | None
    left: Annotated[int, msgspec.Meta(ge=0, le=2**22)]  # Linux has at most 2**22 processes


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
        self._ends_at = self._loop.time() + command.timeout_s + _LATE_S
        self._late: End = "timeout"
        self._is_stopped: asyncio.Future[None] = self._loop.create_future()
        self._survivors = 0
        self._life, life = socket.socketpair()
        self._reads, writes = os.pipe()
        try:
            self._guard = _guard(command, writes, life.fileno())
        except BaseException:
            os.close(self._reads)
            self._life.close()
            raise
        finally:
            os.close(writes)
            life.close()
        self._stops = threading.Thread(target=self._end_if_stopped, daemon=True)
        self._stops.start()
        assert self._guard.stdout is not None
        self._output = self._guard.stdout.fileno()
        for file, take in ((self._output, self._take_output), (self._reads, self._take_report)):
            os.set_blocking(file, False)
            self._loop.add_reader(file, take)

    def stop(self) -> None:
        """End the command. It is over when `finished` returns."""
        assert self._guard.stdin is not None
        self._late = "output" if self._is_flooded else "stopped"
        self._ends_at = min(self._ends_at, self._loop.time() + _LATE_S)
        _set(self._is_stopped)
        with contextlib.suppress(OSError):
            self._guard.stdin.close()

    async def finished(self) -> Finished:
        """Wait for the end, no longer than the command may take."""
        if not await self._is_over():
            left = await asyncio.shield(asyncio.to_thread(_end_by_force, self._guard, self._first))
            await asyncio.wait([self._is_drained], timeout=_DRAIN_S)
            return Finished(*self._kept.parts(), self._late, None, left)
        # Of a guard that was killed the report may be whole, but by the command.
        code = await asyncio.shield(asyncio.to_thread(_code_of, self._guard))
        found = self._read_report() if code == 0 else None
        if found is None:
            await asyncio.shield(asyncio.to_thread(self._stops.join))
            _kill_group(self._first)
        await asyncio.wait([self._is_drained], timeout=_DRAIN_S)
        if found is None:
            return Finished(*self._kept.parts(), "lost", None, self._survivors)
        ended: End = "output" if self._is_flooded and found.ended == "stopped" else found.ended
        return Finished(*self._kept.parts(), ended, found.code, found.left)

    def _end_if_stopped(self) -> None:
        """Wait for the end of the guard, and end it by force if it is stopped; blocks."""
        # A guard is stopped by nothing but its command, and the event loop may be busy for long.
        if _has_stopped(self._guard.pid):
            self._survivors = _end_by_force(self._guard, self._first)

    async def _is_over(self) -> bool:
        """Return True once the report has ended, False when the guard is late."""
        for awaited in (
            [self._is_reported, self._is_stopped],
            [self._is_reported],
        ):  # a stop leaves less time
            left = max(0.0, self._ends_at - self._loop.time())
            await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return self._is_reported.done()

    @property
    def _first(self) -> int:
        """Return the id of the first process, 0 before it begins."""
        # This line is the guard's own: the command starts after it was written.
        line, ends, _ = self._report.partition(b"\n")
        return int(line) if ends and line.isdigit() else 0

    def _read_report(self) -> _Report | None:
        try:
            return msgspec.json.decode(self._report.partition(b"\n")[2], type=_Report)
        except msgspec.MsgspecError:
            return None

    def close(self) -> None:
        """Let go of the guard, which ends the processes that are left."""
        self.stop()
        for file in (self._output, self._reads):
            self._loop.remove_reader(file)
        os.close(self._reads)
        assert self._guard.stdout is not None
        self._guard.stdout.close()
        if self._guard.poll() is None:  # it is about to end
            threading.Thread(target=self._end_late, daemon=True).start()
        else:
            self._life.close()

    def _end_late(self) -> None:
        """Wait for a guard that is about to end, and end it by force if it does not; blocks."""
        if _code_of(self._guard) is None:
            _end_by_force(self._guard, self._first)
        self._life.close()

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
            self._report += data[: _REPORT_BYTES_MAX - len(self._report)]


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


def _guard(command: Command, report: int, life: int) -> "subprocess.Popen[bytes]":
    plan = {
        "command": list(command.arguments),
        "env": dict(command.env),
        "folder": command.folder,
        "report": report,
        "life": life,
        "timeout_s": command.timeout_s,
        "processes_max": command.processes_max,
        "grace_s": GRACE_S,
    }
    with _unnamed_file() as file:
        file.write(json.dumps(plan).encode())
        file.seek(0)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", _GUARD, str(file.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            pass_fds=(report, command.folder, life, file.fileno()),
            start_new_session=True,
        )


def _unnamed_file() -> BinaryIO:
    """Open a file for a plan, which no other process finds by a name. It is in memory on Linux."""
    if sys.platform == "linux":
        return open(os.memfd_create("callboard"), "w+b", buffering=0)  # noqa: PTH123  # a descriptor
    return tempfile.TemporaryFile("w+b", buffering=0)  # returned


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


def _kill_group(first: int) -> None:
    """End the group of a command. first: its first process, 0 for none."""
    if first > 1:
        with contextlib.suppress(OSError):
            os.killpg(first, signal.SIGKILL)


def _has_stopped(pid: int) -> bool:
    """Wait until a child is stopped or ends. Return True if it is stopped; blocks.

    It takes nothing from those who wait for its end. False at once where the system has no such wait.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return False
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return False
    return found is not None and found.si_code == os.CLD_STOPPED


def _code_of(guard: "subprocess.Popen[bytes]") -> int | None:
    """Return the code of a guard that is about to end, None if it does not; blocks."""
    try:
        return guard.wait(_LATE_S)
    except subprocess.TimeoutExpired:
        return None


def _end_by_force(guard: "subprocess.Popen[bytes]", first: int) -> int:
    """Kill a guard, the group of its command and all processes below it. Return how many are left; blocks."""
    killed = kill_below(guard.pid)
    _kill_group(first)
    guard.kill()
    guard.wait()
    pause = threading.Event()
    for _ in range(_STEPS_MAX):
        if not any(map(_is_there, killed)):
            break
        pause.wait(_STEP_S)
    return sum(map(_is_there, killed))


def _is_there(pid: int) -> bool:
    """Return True for a process that has not ended. A zombie has."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return status.rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])
