"""The owner's side of commands: those that wait for its sessions are carried out, in their order in each.

The event of a command is found as it is staged, so that the log marks the command in the statement that
stores the event. A command without an event, as a refused one, is answered while the owner has its lease.
A command that was cut off by the end of a session in this process stays for the next owner.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from callboard.actors.protocol.addresses import APPROVALS
from callboard.actors.protocol.client_messages import Ask, Cancel, Tell, ToolsChanged
from callboard.actors.protocol.errors import (
    CallboardError,
    MisuseError,
    SessionDetached,
    SessionFailed,
    StoreError,
    UnknownName,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.runtime.control.server import Controlled, carry_out
from callboard.runtime.control.wire import (
    COMMANDS,
    AnswerApproval,
    Answered,
    AskSession,
    CancelAsk,
    Command,
    SetTools,
    TellAgent,
)
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.postgres.commands import CommandRow
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.protocol import Carried
from callboard.runtime.log.writer import GroupWriter

T = TypeVar("T")
_STAYS: Final = (SessionDetached, SessionFailed, StoreError)  # the next owner carries it out

logger: Final = logging.getLogger("callboard.worker")


def is_event_of(command: Command, event: Event) -> bool:
    """Return whether an event carries out a command."""
    match command, event.body:
        case AskSession(request_id=wanted), Ask(request_id=name):
            return name == wanted
        case TellAgent(request_id=wanted), Tell(request_id=name):
            return name == wanted
        case CancelAsk(), Cancel(address=address):
            return address == command.address
        case AnswerApproval(is_approved=is_approved), ApprovalGiven(verdict=verdict):
            is_about = event.sender == APPROVALS and event.cause == command.seq
            return is_about and verdict == ("approved" if is_approved else "denied")
        case SetTools(), ToolsChanged(change=change):
            names = tuple(spec.name for spec in change.tools)
            return (change.address, change.profile, names) == (command.address, command.agent, command.tools)
        case _:
            return False


class Change(Protocol):
    """A function that works on the leases."""

    def __call__(self, work: Callable[[LeaseTables], T]) -> Awaitable[T]:
        """Run the work in one transaction, and return its result. Raises StoreError."""


class SessionCommands:
    """Carries out the commands that wait for the sessions of one owner. change: runs work on the leases."""

    def __init__(
        self,
        runtime: Controlled,
        writer: GroupWriter,
        change: Change,
    ) -> None:
        self._runtime, self._writer, self._change = runtime, writer, change
        self._lines: dict[str, deque[CommandRow]] = {}
        self._taken: set[int] = set()
        self._tasks: set[asyncio.Task[object]] = set()

    def is_busy(self, session: str) -> bool:
        """Return True while a command of a session is being carried out here."""
        return session in self._lines

    async def turn(self, owner: int, beside: Callable[[LeaseTables], T]) -> T:
        """Begin to carry out the commands that wait now. Raises StoreError.

        beside: reads something in the same transaction; its answer is returned.
        """
        before = frozenset(self._taken)  # one that is carried out meanwhile may still be in the answer
        waiting, found = await self._change(lambda one: (one.commands.waiting(owner), beside(one)))
        for row in waiting:
            is_new = row.number not in before and row.number not in self._taken
            if is_new and row.session in self._runtime.live_sessions:
                self._taken.add(row.number)
                if row.session in self._lines:
                    self._lines[row.session].append(row)
                else:
                    self._lines[row.session] = deque((row,))
                    self._spawn(self._serve(owner, row.session))
        return found

    def leave(self) -> None:
        """Carry out nothing more: the sessions are another owner's from now on."""
        for task in list(self._tasks):
            task.cancel()

    async def refuse_all(self, owner: int, session: str, error: CallboardError) -> None:
        """Answer the commands that wait for a session with an error."""
        said = _refusal(error)
        await self._change(lambda one: one.commands.refuse_all(owner, session, said))

    async def _serve(self, owner: int, session: str) -> None:
        """Carry out the commands of a session, each once the one before is marked or answered."""
        line = self._lines[session]
        try:
            while line:
                await self._carry_out(owner, line[0])
                self._taken.discard(line.popleft().number)
        finally:
            del self._lines[session]
            self._taken.difference_update(row.number for row in line)

    async def _carry_out(self, owner: int, row: CommandRow) -> None:
        try:
            command = COMMANDS.decode(row.body)
        except msgspec.MsgspecError as error:
            unknown = MisuseError(f"the worker does not know this command; update it: {str(error)[:200]}")
            await self._answer(owner, row, _refusal(unknown))
            return
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_staged(events: Sequence[Event]) -> Sequence[Carried]:
            for event in events:
                if not found.done() and is_event_of(command, event):
                    found.set_result(event.seq)
                    return (Carried(row.number, event.seq),)
            return ()

        self._writer.on_staged[row.session] = on_staged
        task = self._spawn(carry_out(self._runtime, command))
        try:
            await asyncio.wait((task, found), return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._writer.on_staged[row.session]
        if found.done():
            await self._writer.wait(row.session, found.result())  # until then it waits in the tables
        elif said := _answer_of(task, runs=self._runs(row.session)):
            await self._answer(owner, row, said)

    def _runs(self, session: str) -> bool:
        found = self._runtime.live_sessions.get(session)
        return found is not None and not found._has_failed

    async def _answer(self, owner: int, row: CommandRow, said: str) -> None:
        await self._change(lambda one: one.commands.answer(owner, row, said))

    def _spawn(self, work: Coroutine[object, None, object]) -> "asyncio.Task[object]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("a command of a client ended early: %s", failure_text(error))


def _answer_of(task: "asyncio.Task[object]", *, runs: bool) -> str:
    """Return the answer to a command that needed no event; empty if it stays for the next owner.

    runs: True if its session still runs here.
    """
    error = task.exception()
    if error is None:
        return msgspec.json.encode(Answered(task.result())).decode()
    if isinstance(error, _STAYS) or (isinstance(error, UnknownName) and not runs):
        return ""
    if isinstance(error, CallboardError):
        return _refusal(error)
    logger.error("a command of a client failed", exc_info=error)
    return _refusal(CallboardError(f"the command failed with {type(error).__name__}"))


def _refusal(error: CallboardError) -> str:
    return msgspec.json.encode(Answered(error=str(error), kind=type(error).__name__)).decode()
