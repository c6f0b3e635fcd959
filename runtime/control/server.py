"""The server behind the control socket: one command for each connection, from this user only.

Rules
  - A runtime works without it: where no socket can stand, an error is logged and nothing listens.
  - A client gets so many bytes and seconds for its request, and its connection ends after the answer.
  - Clients that have sent nothing yet give way to new ones, the oldest first; if all commands that may run
    at a time do, a new one hears so, and when to try again.
  - No client sees a traceback, and none can end the server.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import msgspec

from callboard.actors.protocol.errors import CallboardError, MisuseError, StoreFailed
from callboard.runtime.control.commands import Controlled, carry_out
from callboard.runtime.control.place import HAS_SOCKETS, bound_socket, is_same_user
from callboard.runtime.control.wire import COMMANDS, LINE_BYTES_MAX, Answered, Command
from callboard.runtime.sanitize import clean_json

_REQUEST_S: Final = 5.0
_ANSWER_S: Final = 5.0
_CLIENTS_MAX: Final = 32
_AGAIN_S: Final = 5

logger = logging.getLogger("callboard.control")


@runtime_checkable
class Announcing(Protocol):
    """A log in a file, whose lock can name the socket of its owner."""

    @property
    def owned_path(self) -> Path:
        """Return the resolved path of the open log."""

    def announce(self, address: str) -> None:
        """Write the name of the socket into the lock."""


class ControlServer:
    """The socket of one runtime. runtime: returns that runtime; None after its end."""

    # By a weak reference: the event loop keeps the server, and must not keep a runtime that was forgotten.
    def __init__(self, runtime: Callable[[], Controlled | None]) -> None:
        self._runtime = runtime
        self._server: asyncio.Server | None = None
        self._place: Path | None = None
        self._inode = 0
        self._process = 0
        self._clients: dict[asyncio.Task[None], bool] = {}  # True for those that have sent a command

    async def open(self, log: object) -> None:
        """Listen for a log in a file; do nothing for any other."""
        if not isinstance(log, Announcing):
            return
        if not HAS_SOCKETS:
            logger.info("this system has no Unix sockets; `callboard approvals` cannot reach this process")
            return
        try:
            made, place = bound_socket(log.owned_path)
        except (StoreFailed, OSError) as error:
            logger.error("%s; `callboard approvals` cannot reach this process", error)
            return
        self._place, self._inode, self._process = place, place.stat().st_ino, os.getpid()
        self._server = await asyncio.start_unix_server(self._serve, sock=made, limit=LINE_BYTES_MAX)
        log.announce(os.fspath(place))

    async def aclose(self) -> None:
        """Stop listening, end all connections, and remove the socket."""
        server, self._server = self._server, None
        if server is None or self._process != os.getpid():
            return
        server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            # A process that took the log by force has put its own socket there.
            if self._place is not None and self._place.lstat().st_ino == self._inode:
                self._place.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if not is_same_user(writer.get_extra_info("socket")):
                return
            self._make_room()
            self._clients[task] = False
            await self._talk(task, reader, writer)
        except (OSError, ValueError, TimeoutError) as error:
            # The client is gone, its line is too long, or it is too slow: only its connection ends.
            logger.debug("a connection to the control socket ended early: %r", error)
        except asyncio.CancelledError:
            # `aclose` cancels this task and needs no more of it. asyncio would report the cancellation as an
            # error in the callback of its server.
            pass
        finally:
            self._clients.pop(task, None)
            writer.transport.abort()

    def _make_room(self) -> None:
        """End the oldest client that has sent nothing yet, if there are too many of them."""
        idle = [task for task, has_sent in self._clients.items() if not has_sent]
        if len(idle) >= _CLIENTS_MAX:
            self._clients.pop(idle[0])
            idle[0].cancel()

    async def _talk(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with asyncio.timeout(_REQUEST_S):
            line = await reader.readline()
        if not line.endswith(b"\n"):
            return
        if sum(self._clients.values()) >= _CLIENTS_MAX:
            why = f"the process that owns the log is busy with {_CLIENTS_MAX} commands"
            await _send(writer, Answered(error=f"{why}; try again in {_AGAIN_S} s", kind="StoreFailed"))
            return
        self._clients[task] = True
        await _send(writer, await self._answered(line))

    async def _answered(self, line: bytes) -> Answered:
        """Carry out the command of a line. Return its value or its error."""
        runtime = self._runtime()
        try:
            if runtime is None:
                raise StoreFailed("the runtime that owned this log is gone")
            return Answered(await carry_out(runtime, _command(line)))
        except CallboardError as error:
            return Answered(error=str(error), kind=type(error).__name__)
        except Exception as error:
            logger.exception("a command on the control socket failed")
            return Answered(error=f"the command failed with {type(error).__name__}", kind="CallboardError")


async def _send(writer: asyncio.StreamWriter, answer: Answered) -> None:
    writer.write(msgspec.json.encode(answer) + b"\n")
    async with asyncio.timeout(_ANSWER_S):
        await writer.drain()
        writer.close()
        await writer.wait_closed()


def _command(line: bytes) -> Command:
    try:
        return COMMANDS.decode(clean_json(line))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MisuseError(f"this is not a command: {str(error)[:200]}") from None
