"""The process that owns a log, reached over its control socket; the owner of a session on a server."""

import os
import socket
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from callboard.actors.protocol.errors import StoreFailed
from callboard.cli.server_client import NoOwner as NoOwner
from callboard.cli.server_client import ask_server
from callboard.runtime.control.wire import HAS_SOCKETS, Command, Reply, is_same_user, refuse_foreign
from callboard.runtime.log.reading import file_of, is_memory, is_server
from callboard.runtime.log.sqlite.owner import read_lock

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
