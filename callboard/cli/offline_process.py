"""A process that loads a user's agents and cannot reach out, as the commands use it that call no model."""

import subprocess
import sys
import threading
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from callboard.cli.errors import FAILED, Failure
from callboard.cli.offline_child import Loaded, Task

T = TypeVar("T")

_START_S: Final = 60.0  # seconds to load the user's modules


class OfflineProcess:
    """The process that executes tasks with the agents of `module:agent`. One over its time is replaced.

    folder: in which it runs, where modules are looked for first; None for the current one. Entering it raises
    Failure if the agents cannot be loaded.
    """

    def __init__(self, spec: str, folder: str | None = None) -> None:
        self._spec = spec
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def ask(self, task: Task, kind: type[T], timeout_s: float) -> T | None:
        """Let the process do a task; None if that takes longer than `timeout_s` seconds, or ends it.

        kind: of the result.
        """
        process = self._process or self._start()
        line = self._answer(process, msgspec.json.encode(task) + b"\n", timeout_s)
        if line:
            return msgspec.json.decode(line, type=kind)
        self._end()
        return None

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "callboard.cli.offline_child", self._spec]
        process = self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self._folder
        )
        line = self._answer(process, b"", _START_S)
        loaded = msgspec.json.decode(line, type=Loaded) if line else Loaded("its process ended", FAILED)
        if loaded.error:
            self._end()
            raise Failure(loaded.error, loaded.exit_code)
        return process

    def _answer(self, process: "subprocess.Popen[bytes]", line: bytes, limit_s: float) -> bytes:
        """Send a line and return the next one of the process; nothing if it was killed at the limit."""
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return b""
        finally:
            timer.cancel()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
