"""Acts of a person on a page: each is a command of the process that owns the log.

    the log has an owner                  the act goes to it, as `callboard approvals`, `tell`, `cancel` do
    this server owns it (`ui --with`)     the act is carried out here; a session that was left unfinished is
                                          resumed first
    neither                               an approval is appended to the log; all else is refused in words

An act has a request id. The same id again gets the answer of the first time, so that a lost
answer can be asked for again.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.cli.approving import user_name
from callboard.cli.owner_client import NoOwner, ask_owner
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.clock import new_session_id
from callboard.runtime.control.offline import append_answer
from callboard.runtime.control.server import carry_out
from callboard.runtime.control.wire import (
    AnswerApproval,
    CancelAsk,
    ForkSession,
    ListApprovals,
    ShownApproval,
    StartedFork,
    TellAgent,
)
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.runtime import Runtime
from callboard.runtime.sanitize import clean_json

ACT_BYTES_MAX: Final = 900 * 1024
"""The longest act: it fits into a request to the owner."""

_KEPT_MAX: Final = 1_000
TELL_WAIT_S: Final = 5.0
"""The seconds that a page waits until an agent has read a message. One that takes longer is read later."""

Done: TypeAlias = AnswerApproval | CancelAsk | TellAgent | ForkSession
_KINDS: Final[Mapping[type, type]] = {
    AnswerApproval: bool,
    CancelAsk: str,
    TellAgent: int,
    ForkSession: StartedFork,
}
"""The kind of the value of each command."""


class Act(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An act. id: of the request. log: its number. does: the command."""

    id: Annotated[str, msgspec.Meta(min_length=8, max_length=64)]
    does: Done
    log: Annotated[int, msgspec.Meta(ge=0, lt=1_000)] = 0


_ACTS: Final = msgspec.json.Decoder(Act)


class Result(NamedTuple):
    """The answer to an act: a status of HTTP, and JSON."""

    status: int
    body: bytes


class Owned(NamedTuple):
    """The log that this server owns. number: of that log. host: for its forks."""

    runtime: Runtime
    host: Agent
    number: int = 0


class Acts:
    """Carries acts out.

    logs: their addresses. open_log: opens one for an answer that no process takes. owned: the one of this
    server; None for a server that owns none.
    """

    def __init__(
        self, logs: Sequence[str], open_log: Callable[[str], EventLog], owned: Owned | None = None
    ) -> None:
        self._logs = logs
        self._open_log = open_log
        self._owned = owned
        self._resuming = asyncio.Lock()
        self._known: OrderedDict[str, tuple[bytes, asyncio.Future[Result]]] = OrderedDict()

    async def answer(self, body: bytes) -> Result:
        """Carry out the act of a request's body, once for each request id."""
        try:
            act = _ACTS.decode(clean_json(body))
            if act.log >= len(self._logs):
                raise ValueError("there is no log of this number")
            if act.does.seen < 1:
                raise ValueError("an act names the last event that its person saw, as `seen`")
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            return _refused(400, f"this is not an act: {str(error)[:200]}", "MisuseError")
        digest = sha256(body).digest()
        if (known := self._known.get(act.id)) is not None:
            if known[0] != digest:
                return _refused(409, "this request id names another act; reload the page", "MisuseError")
            return await asyncio.shield(known[1])
        # A task of its own: a browser that goes away does not stop half of an act.
        task = asyncio.ensure_future(self._result(act))
        self._known[act.id] = digest, task
        self._forget()
        return await asyncio.shield(task)

    def _forget(self) -> None:
        """Forget the oldest answers; those under way stay."""
        for name in list(self._known)[: max(0, len(self._known) - _KEPT_MAX)]:
            if self._known[name][1].done():
                del self._known[name]

    async def _result(self, act: Act) -> Result:
        try:
            return Result(200, msgspec.json.encode({"value": await self._carried(act)}))
        except CallboardError as error:
            return _refused(409, str(error), type(error).__name__)

    async def _carried(self, act: Act) -> object:
        command = _completed(act)
        if self._owned is not None and self._owned.number == act.log:
            return await self._carried_here(self._owned, command)
        try:
            return await asyncio.to_thread(ask_owner, self._logs[act.log], command, _KINDS[type(command)])
        except NoOwner:
            return await self._without_owner(act.log, command)

    async def _carried_here(self, owned: Owned, command: Done) -> object:
        runtime = owned.runtime
        if not isinstance(command, ForkSession):
            async with self._resuming:  # a second act waits, and finds it running
                await self._resume(owned, command.session)
        return await carry_out(runtime, command)

    async def _resume(self, owned: Owned, session_id: str) -> None:
        """Go on with a session that an earlier process has left in the middle of an ask."""
        if session_id in owned.runtime.live_sessions:
            return
        rows = [row async for row in owned.runtime.sessions(status="unfinished")]
        if any(row.session_id == session_id for row in rows):
            session = await owned.runtime.resume(session_id, owned.host)
            owned.runtime._attended.attend(session)

    async def _without_owner(self, number: int, command: Done) -> object:
        if not isinstance(command, AnswerApproval):
            raise MisuseError(
                "no process owns this log, so nothing runs that could do this; serve the page with the "
                "agents of the session: `callboard ui --act --with MODULE:AGENT`"
            )
        if command.seq > command.seen:
            raise MisuseError(f"call {command.seq} is not on your page yet: look at it before you answer")
        said = (command.is_approved, command.note, command.by)
        changed = (command.arguments, command.is_always, command.values)
        given = ApprovalAnswer(*said, *changed, reuses=command.reuses, labels=command.labels)
        log = self._open_log(self._logs[number])
        await log.open()
        try:
            return await append_answer(log, command.session, command.seq, given)
        finally:
            await log.close()

    async def questions(
        self, number: int, session_id: str, recorded: Callable[[], Awaitable[list[ShownApproval]]]
    ) -> bytes:
        """Return the open questions of a session as JSON. recorded: reads those that no process asks."""
        found = await self._asked(number)
        mine = None if found is None else [one for one in found if one.session == session_id]
        if not mine and not await self._runs(number, session_id, has_owner=found is not None):
            mine = await recorded()
        return msgspec.json.encode(mine or [])

    async def _asked(self, number: int) -> list[ShownApproval] | None:
        """Return the questions of the owner of a log; None without one."""
        if self._owned is not None and self._owned.number == number:
            listed = await carry_out(self._owned.runtime, ListApprovals())
            return msgspec.convert(listed, list[ShownApproval])
        with contextlib.suppress(NoOwner):
            return await asyncio.to_thread(
                ask_owner, self._logs[number], ListApprovals(), list[ShownApproval]
            )
        return None

    async def _runs(self, number: int, session_id: str, *, has_owner: bool) -> bool:
        """Return whether a process asks the questions of a session itself."""
        if self._owned is not None and self._owned.number == number:
            return session_id in self._owned.runtime.live_sessions
        return has_owner


def _completed(act: Act) -> Done:
    """Return the command of an act, with what the server knows: the person, the ids."""
    command = act.does
    if isinstance(command, AnswerApproval):
        return msgspec.structs.replace(command, by=command.by or user_name())
    if isinstance(command, TellAgent):
        return msgspec.structs.replace(command, request_id=f"page-{act.id}", wait_s=TELL_WAIT_S)
    if isinstance(command, ForkSession):
        return msgspec.structs.replace(command, fork_id=new_session_id())
    return command


def _refused(status: int, why: str, kind: str) -> Result:
    return Result(status, msgspec.json.encode({"error": why, "kind": kind}))
