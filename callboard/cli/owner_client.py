"""The owner of a log or a session, reached from another process.

The owner of a log is reached over its control socket, and the owner of a session on a server by commands in
the tables of the log.
"""

import asyncio
import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from callboard.actors.protocol.errors import StoreFailed
from callboard.cli.recordings import log_keys
from callboard.runtime import event_loop
from callboard.runtime.cluster.client import Client
from callboard.runtime.control.wire import (
    HAS_SOCKETS,
    AnswerApproval,
    CancelAsk,
    Command,
    DeleteSession,
    PruneSessions,
    Reply,
    SetTools,
    TellAgent,
    is_same_user,
    refuse_foreign,
)
from callboard.runtime.log.opening import cut
from callboard.runtime.log.reading import file_of, is_memory, is_server
from callboard.runtime.log.sqlite.owner import read_lock
from callboard.runtime.sessions.outcomes import Outcome

T = TypeVar("T")

_TIMEOUT_S: Final = 60.0
"""A cancel waits for its outcome, which `cancel_grace_s` bounds."""

_AGAIN_S: Final = 5
_CHUNK: Final = 1 << 16


def ask_owner(log: str, command: Command, kind: type[T]) -> T:
    """Let the owner of a log carry out a command; return its value, which is of this kind.

    Raises NoOwner, StoreFailed for a socket that is not ours or an owner that does not answer in time, and
    the error of the command.
    """
    if is_server(log):
        return msgspec.convert(ask_server(log, command), type=kind)
    if is_memory(log):
        raise NoOwner
    _, place = read_lock(file_of(log).resolve())
    if not place:
        raise NoOwner
    return _talk(log, place, msgspec.json.encode(command) + b"\n").as_type(kind)


def _talk(log: str, place: str, line: bytes) -> Reply:
    """Send a line to the owner. Raises NoOwner if none is there, StoreFailed if it does not answer."""
    if not HAS_SOCKETS:
        raise StoreFailed(f"this system has no Unix sockets; ask the program that runs {log} itself")
    try:
        refuse_foreign(Path(place))
        return _asked(place, line)
    except BlockingIOError:  # more wait already than its socket takes
        raise StoreFailed(f"the owner of {log} is busy; try again in {_AGAIN_S} s") from None
    except (FileNotFoundError, ConnectionRefusedError):  # it is dead, or has just left
        raise NoOwner from None
    except OSError as error:
        raise StoreFailed(f"the owner of {log} does not answer on {place}: {error}") from error


def _asked(place: str, line: bytes) -> Reply:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        connection.connect(os.fspath(place))
        if not is_same_user(connection):
            raise StoreFailed(f"{place} is served by another user; nothing was sent")
        connection.sendall(line)
        parts = []
        while part := connection.recv(_CHUNK):
            parts.append(part)
    if not parts:
        raise StoreFailed(f"the owner has closed {place} without an answer; try again")
    return msgspec.json.decode(b"".join(parts), type=Reply)


class NoOwner(Exception):
    """The log, or the session, has no owner that listens."""


def ask_server(url: str, command: Command) -> Any:
    """Let the owner of a session carry out a command, or delete sessions. Return its value.

    Raises NoOwner for a session that no process shares, StoreFailed if the owner does not answer in time, and
    the error of the command.
    """
    return event_loop.run(_asked_in_tables(url, command))


def is_shared(url: str, session: str) -> bool:
    """Return True if an owner runs a session, or if it waits for one."""

    async def work() -> bool:
        key, encryption_key = log_keys()
        async with Client.at(url, key, encryption_key=encryption_key) as client:
            return await client.is_shared(session)

    return event_loop.run(work())


async def _asked_in_tables(url: str, command: Command) -> Any:
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
