"""A server as a child process: messages as lines on its stdin and stdout, its stderr kept for errors.

The child ends with this process, after a SIGKILL too: its stdin ends, and on Linux the kernel kills it. It
has few environment variables of this process. A message has a limit, since it is held in memory.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client import stdio as sdk
from mcp.shared.message import SessionMessage

from callboard.runtime.mcp.foreign_json import CURRENT, parsed
from callboard.runtime.mcp.wire import Wire
from callboard.runtime.sanitize import clean_text

MESSAGE_BYTES_MAX: Final = 32 * 2**20  # bytes of one message: twice what one value of the log may have
_CHUNK: Final = 2**18
_STDERR_LINES: Final = 20
_LINE_CHARS: Final = 400
_END_S: Final = 2.0  # seconds that a server has to end, first after the end of its stdin, then after SIGTERM

# A process asks for its own parent-death signal, so a launcher does and then becomes the server. A parent
# that was dead before is seen by the other parent's id.
_LAUNCHER: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
os.getppid() == int(sys.argv[1]) or os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""

_Incoming = SessionMessage | Exception


class ServerOutput:
    """The last lines of a server's stderr, and its lines on stdout that are not messages."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_STDERR_LINES)
        self._stray = ""
        self._strays = 0

    def add(self, line: bytes) -> None:
        """Keep a line of stderr."""
        if text := clean_text(line.decode(errors="replace")).strip():
            self._lines.append(text[:_LINE_CHARS])

    def add_stray(self, line: bytes) -> None:
        """Count a line of stdout that is not a message, and keep the first."""
        self._strays += 1
        self._stray = self._stray or clean_text(line.decode(errors="replace")).strip()[:_LINE_CHARS]

    def told(self) -> str:
        """Return what an error says of the output; empty if there was none."""
        stray = f"; it printed {self._strays} lines on stdout that are not messages: {self._stray!r}"
        last = "; the last lines of its stderr:\n" + "\n".join(self._lines)
        return (stray if self._strays else "") + (last if self._lines else "")


@contextlib.asynccontextmanager
async def child_process(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None, output: ServerOutput, wire: Wire
) -> "AsyncIterator[tuple[MemoryObjectReceiveStream[_Incoming], Writer, asyncio.Task[None]]]":
    """Run a server. Yield the streams of its messages, and a task that ends with its stdout.

    Raises OSError if it cannot be started.
    """
    variables = {**sdk.get_default_environment(), **env}
    process = await asyncio.create_subprocess_exec(
        *_launched(command, variables),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=variables,
        cwd=cwd,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    send, receive = anyio.create_memory_object_stream[_Incoming](64)
    readers = [
        asyncio.create_task(_read_messages(process.stdout, send, output, wire)),
        asyncio.create_task(_read_lines(process.stderr, output)),
    ]
    try:
        yield receive, Writer(process.stdin, wire), readers[0]
    finally:
        with anyio.CancelScope(shield=True):
            receive.close()
            await _end(process)
            for reader in readers:
                reader.cancel()
            await asyncio.wait(readers)


def _launched(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    program = shutil.which(command[0], path=env.get("PATH"))
    if program is None:
        raise FileNotFoundError(f"there is no program {command[0]!r}")
    if not sys.platform.startswith("linux"):
        return [program, *command[1:]]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), program, *command[1:]]


class Writer:
    """The stdin of a server, as the SDK's stream of outgoing messages.

    A message is written in the task of its call, which so learns whether the first byte has left.
    """

    def __init__(self, pipe: asyncio.StreamWriter, wire: Wire) -> None:
        self._pipe = pipe
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message. Raises anyio.BrokenResourceError if the server has closed its stdin."""
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if self._pipe.is_closing():
            raise anyio.BrokenResourceError
        self._wire.sent(item.message)
        if sending := CURRENT.get():
            sending.has_left = True
        try:
            self._pipe.write(data)
            await self._pipe.drain()
        except (OSError, RuntimeError) as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close the server's stdin, by which it learns that it shall end."""
        self._pipe.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


async def _read_messages(
    pipe: asyncio.StreamReader,
    send: "MemoryObjectSendStream[_Incoming]",
    output: ServerOutput,
    wire: Wire,
) -> None:
    """Hand on the messages of each line, until the server ends or sends a line above the limit."""
    async with send:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for line in _lines(pipe):
                is_above = len(line) > MESSAGE_BYTES_MAX
                if is_above:
                    output.add(f"(ended: it sent a message above {MESSAGE_BYTES_MAX:,} bytes)".encode())
                for message in _read_above(line, wire) if is_above else _read(line, output, wire):
                    await send.send(message)
                if is_above:
                    return


async def _lines(pipe: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines, and a last one without an end if it is whole or above the limit."""
    rest: list[bytes] = []  # the parts of a line that has not ended, joined once: linear time for a long one
    begun = 0
    while chunk := await pipe.read(_CHUNK):
        *lines, last = chunk.split(b"\n")
        if lines:
            yield b"".join((*rest, lines[0]))
            rest, begun = [], 0
            for line in lines[1:]:
                yield line
        rest.append(last)
        begun += len(last)
        if begun > MESSAGE_BYTES_MAX:
            yield b"".join(rest)
            return
    if _is_whole(line := b"".join(rest)):  # else it was cut, and its answer is lost
        yield line


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(parsed(line), dict | list)
    except ValueError:
        return False


def _read(line: bytes, output: ServerOutput, wire: Wire) -> "list[SessionMessage]":
    try:
        return [SessionMessage(message) for message in wire.read(line)]
    except ValueError as error:
        if answered := wire.broken(line, f"a line that cannot be read ({error})"):
            return [SessionMessage(message) for message in answered]
        output.add_stray(line)
        return []


def _read_above(line: bytes, wire: Wire) -> "list[SessionMessage]":
    messages = wire.broken(line, f"it is above {MESSAGE_BYTES_MAX:,} bytes")
    return [SessionMessage(message) for message in messages]


async def _read_lines(pipe: asyncio.StreamReader, output: ServerOutput) -> None:
    rest = b""
    while chunk := await pipe.read(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[:_LINE_CHARS]
        for line in lines[-_STDERR_LINES:]:
            output.add(line)
    output.add(rest)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a server: its stdin ends, then SIGTERM, then SIGKILL for all of its process group."""
    assert process.stdin
    process.stdin.close()
    for name in ("", "SIGTERM", "SIGKILL"):
        _signal(process, name)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_exited(process), _END_S)
            break
    _signal(process, "SIGKILL")  # the rest of its group
    # Else a grandchild that holds a pipe keeps the transport open. The SDK closes it in the same way.
    process._transport.close()  # type: ignore[attr-defined]  # asyncio has no public name for it


async def _exited(process: asyncio.subprocess.Process) -> None:
    # Not `wait`: it also waits for the end of the pipes, which a grandchild may hold.
    while process.returncode is None:  # noqa: ASYNC110  # a process has no event of its end alone
        await asyncio.sleep(0.01)


def _signal(process: asyncio.subprocess.Process, name: str) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if not name:
            return
        if os.name == "posix":
            os.killpg(process.pid, signal.Signals[name])
        elif name == "SIGKILL":
            process.kill()
