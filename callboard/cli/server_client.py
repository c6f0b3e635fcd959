"""The owner of a session on a server, reached by commands in the tables of its log."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from callboard.actors.protocol.errors import StoreFailed
from callboard.cli.recordings import log_keys
from callboard.runtime import event_loop
from callboard.runtime.cluster.client import Client
from callboard.runtime.control.wire import (
    AnswerApproval,
    CancelAsk,
    Command,
    DeleteSession,
    PruneSessions,
    SetTools,
    TellAgent,
)
from callboard.runtime.log.opening import cut
from callboard.runtime.sessions.outcome import Outcome

_TIMEOUT_S: Final = 60.0


class NoOwner(Exception):
    """The log, or the session, has no owner that listens."""


def ask_server(url: str, command: Command) -> Any:
    """Let the owner of a session carry out a command, or delete sessions. Return its value.

    Raises NoOwner for a session that no process shares, StoreFailed if the owner does not answer in time, and
    the error of the command.
    """
    return event_loop.run(_asked(url, command))


def is_shared(url: str, session: str) -> bool:
    """Return True if an owner runs a session, or if it waits for one."""

    async def work() -> bool:
        key, encryption_key = log_keys()
        async with Client.at(url, key, encryption_key=encryption_key) as client:
            return await client.is_shared(session)

    return event_loop.run(work())


async def _asked(url: str, command: Command) -> Any:
    key, encryption_key = log_keys()
    async with Client.at(url, key, encryption_key=encryption_key) as client:
        match command:
            case TellAgent() | CancelAsk() | AnswerApproval() | SetTools():
                if not await client.is_shared(command.session):
                    raise NoOwner
                return await _carried_out(client, command)
            case DeleteSession():
                count = await client.delete(command.session, forks=command.forks)
            case PruneSessions(status=status, tag=tag):
                older_than = timedelta(seconds=command.older_than_s)
                count = await client.prune(older_than=older_than, status=status, tag=tag)
            case _:
                raise NoOwner
        await cut(client.log)
        return count


async def _carried_out(client: Client, command: TellAgent | CancelAsk | AnswerApproval | SetTools) -> object:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            value = await client.carry_out(command)
    except TimeoutError:
        why = dict((await client.stats()).waiting).get(command.session, "")
        raise StoreFailed(
            f"the command is stored, and not carried out after {_TIMEOUT_S:.0f} s: "
            + (f"the session waits for {why}" if why else "the owner of the session has not come to it yet")
        ) from None
    if isinstance(value, Outcome):
        return value.kind
    return "" if value is None and isinstance(command, CancelAsk) else value
