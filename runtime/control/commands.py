"""The commands of the control socket, carried out on a live runtime.

To add a command: its message in wire.py, its function here, and its row in `HANDLERS`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, Final, Protocol

from callboard.actors.protocol.immutable import Json
from callboard.runtime.approvals import Approval, ApprovalAnswer
from callboard.runtime.control.wire import (
    AnswerApproval,
    CancelAsk,
    Command,
    DeleteSession,
    ListApprovals,
    PruneSessions,
    ShownApproval,
    TellAgent,
    Vacuum,
)
from callboard.runtime.log.forks import ForksChoice
from callboard.runtime.log.session_rows import SessionStatus
from callboard.runtime.sessions.outcome import Outcome
from callboard.runtime.sessions.session import Session


class Controlled(Protocol):
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
    said = (command.is_approved, command.note, command.by)
    always, values, reuses = command.is_always, command.values, command.reuses
    given = ApprovalAnswer(*said, is_always=always, values=values, reuses=reuses)
    return await session._approval_port.answer(command.seq, given)


async def _cancel(runtime: Controlled, command: CancelAsk) -> str:
    """Cancel the running ask. Return the kind of its outcome, or an empty text if none runs."""
    outcome = await runtime.cancel(command.session, command.reason)
    return outcome.kind if outcome else ""


async def _tell(runtime: Controlled, command: TellAgent) -> int:
    """Tell an agent something. Return the turn that hears it, or 0 if it is still on its way."""
    session = runtime.running(command.session)
    try:
        async with asyncio.timeout(command.wait_s):
            return await session.tell(command.address, command.text)
    except TimeoutError:
        return 0


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
    DeleteSession: _delete,
    PruneSessions: _prune,
    Vacuum: _vacuum,
}
"""The function of each command."""
