"""The server behind the control socket: commands of this user, carried out on a live runtime."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from callboard.actors.protocol.errors import CallboardError, MisuseError, StoreFailed
from callboard.actors.protocol.immutable import Json
from callboard.runtime.approvals import Approval, ApprovalAnswer
from callboard.runtime.control.forking import Forker, fork_session
from callboard.runtime.control.seen import refuse_unseen
from callboard.runtime.control.wire import (
    COMMANDS,
    HAS_SOCKETS,
    LINE_BYTES_MAX,
    AnswerApproval,
    Answered,
    AskSession,
    CancelAsk,
    Command,
    DeleteSession,
    ForkSession,
    ListApprovals,
    PruneSessions,
    SetTools,
    ShownApproval,
    TellAgent,
    Vacuum,
    bound_socket,
    is_same_user,
)
from callboard.runtime.log.session_rows import ForksChoice, SessionStatus
from callboard.runtime.sanitize import clean_json
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.session import Session

_REQUEST_S: Final = 5.0
_ANSWER_S: Final = 5.0
_CLIENTS_MAX: Final = 32
_AGAIN_S: Final = 5
logger = logging.getLogger("callboard.control")


class Controlled(Forker, Protocol):
    """A runtime, as far as commands need it."""

    @property
    def live_sessions(self) -> Mapping[str, Session]:
        """Return the sessions that run here, by id."""

    def running(self, session_id: str) -> Session:
        """Return a session that runs here. Raises Diverged for one that waits for its code, UnknownName."""

    async def cancel(self, session_id: str, reason: str = "") -> Outcome | None:
        """Cancel the ask of a session that runs here, or waits for its code."""

    async def delete(self, session_id: str, *, forks: ForksChoice = "refuse") -> int:
        """Delete a session that does not run here. Return the number of its events."""

    async def prune(
        self,
        *,
        older_than: timedelta,
        status: SessionStatus | Collection[SessionStatus] | None,
        tag: str | None,
    ) -> int:
        """Delete the sessions without an event for so long. Return their number."""

    async def vacuum(self) -> int:
        """Give free space back. Return the number of bytes."""


async def carry_out(runtime: Controlled, command: Command) -> object:
    """Carry out a command and return its value. Raises CallboardError for one that cannot work."""
    return await HANDLERS[type(command)](runtime, command)


async def _list(runtime: Controlled, command: ListApprovals) -> list[ShownApproval]:
    found = [one for session in runtime.live_sessions.values() for one in session.open_approvals]
    return [_shown(one) for one in sorted(found, key=lambda one: (one.session_id, one.seq))]


def _shown(one: Approval) -> ShownApproval:
    return ShownApproval(
        one.id,
        one.session_id,
        one.seq,
        one.address,
        one.profile,
        one.tool,
        one.effect,
        Json(one.arguments_json.encode()),
        one.is_repeat,
        one.digest,
        one.expires_at_ms,
        one.forms_json,
        one.is_fork,
        one.same,
    )


async def _answer(runtime: Controlled, command: AnswerApproval) -> bool:
    """Answer a call. Return False if another answer came first."""
    session = runtime.running(command.session)
    if 0 < command.seen < command.seq:
        raise MisuseError(f"call {command.seq} is not on your page yet: look at it before you answer")
    said = (command.is_approved, command.note, command.by)
    changed = (command.arguments, command.is_always, command.values)
    given = ApprovalAnswer(*said, *changed, reuses=command.reuses, labels=command.labels)
    return await session._approval_port.answer(command.seq, given)


async def _cancel(runtime: Controlled, command: CancelAsk) -> str:
    """Cancel the running ask, or one agent. Return the kind of the outcome, or an empty text if none runs.

    The kind of an agent that was cancelled is `cancelled`: its ask goes on.
    """
    await refuse_unseen(runtime.log, command.session, command.seen)
    if command.address:
        session = runtime.running(command.session)
        return "cancelled" if await session.cancel_agent(command.address, command.reason) else ""
    outcome = await runtime.cancel(command.session, command.reason)
    return outcome.kind if outcome else ""


async def _tell(runtime: Controlled, command: TellAgent) -> int:
    """Tell an agent something. Return the turn that hears it, or 0 if it is still on its way."""
    session = runtime.running(command.session)
    await refuse_unseen(runtime.log, command.session, command.seen)
    try:
        async with asyncio.timeout(command.wait_s):
            name, labels = command.request_id or None, command.labels
            return await session.tell(command.address, command.text, request_id=name, labels=labels)
    except TimeoutError:
        return 0


async def _ask(runtime: Controlled, command: AskSession) -> str:
    """Begin an ask. Return its request id once it is durable."""
    return await runtime.running(command.session).submit(
        command.prompt,
        output_schema=command.schema,
        limits=command.limits,
        request_id=command.request_id,
        labels=command.labels,
    )


async def _set_tools(runtime: Controlled, command: SetTools) -> None:
    session = runtime.running(command.session)
    await session.set_tools(command.tools, agent=command.agent, address=command.address)


async def _delete(runtime: Controlled, command: DeleteSession) -> int:
    return await runtime.delete(command.session, forks=command.forks)


async def _prune(runtime: Controlled, command: PruneSessions) -> int:
    older_than = timedelta(seconds=command.older_than_s)
    return await runtime.prune(older_than=older_than, status=command.status, tag=command.tag)


async def _vacuum(runtime: Controlled, command: Vacuum) -> int:
    return await runtime.vacuum()


HANDLERS: Final[Mapping[type, Callable[[Controlled, Any], Awaitable[object]]]] = {
    ListApprovals: _list,
    AnswerApproval: _answer,
    CancelAsk: _cancel,
    TellAgent: _tell,
    AskSession: _ask,
    SetTools: _set_tools,
    ForkSession: fork_session,
    DeleteSession: _delete,
    PruneSessions: _prune,
    Vacuum: _vacuum,
}
"""The function of each command."""


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
