"""The control socket of a log: its place, its check, and the messages on it."""

import hashlib
import os
import socket
import stat
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from callboard.actors.protocol import errors
from callboard.actors.protocol.errors import CallboardError, StoreFailed
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.value_types import Effects
from callboard.runtime.log.session_rows import ForksChoice, SessionStatus

T = TypeVar("T")

LINE_BYTES_MAX: Final = 1024 * 1024
"""The longest request: a fork carries the results that it changes. Answers have no such limit."""
PATH_BYTES_MAX: Final = 107 if sys.platform == "linux" else 103
"""The bytes of `sun_path` without its NUL: unix(7) of Linux, and that of macOS and the BSDs."""
HAS_SOCKETS: Final = hasattr(socket, "AF_UNIX") and hasattr(os, "geteuid")
"""True where Python has sockets that stand in a folder and belong to a user: not on Windows."""


class Base(msgspec.Struct, frozen=True, tag_field="command", forbid_unknown_fields=True):
    """A command."""


class ListApprovals(Base, frozen=True, tag="approvals"):
    """A request for the calls that wait for a person."""


# A command that a person gives on a page names, as `seen`, the last event that the page had: one about
# something that began behind it is refused. 0 for commands that were typed.


class AnswerApproval(Base, frozen=True, tag="answer"):
    """A person's answer to the call with this seq. session: its id."""

    session: str
    seq: int
    is_approved: bool
    note: str = ""
    by: str = ""
    is_always: bool = False
    values: dict[str, Any] | None = None
    reuses: bool = False
    seen: int = 0
    arguments: dict[str, Any] | None = None
    labels: tuple[str, ...] = ()


class CancelAsk(Base, frozen=True, tag="cancel"):
    """A wish to cancel the running ask of a session. address: of one agent to cancel in its place."""

    session: str
    reason: str = ""
    address: str = ""
    seen: int = 0


class TellAgent(Base, frozen=True, tag="tell"):
    """Words for a running agent of a session. wait_s: the most seconds to wait until it hears them.

    request_id: a name for these words: the same name again says nothing.
    """

    session: str
    address: str
    text: str
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=50)] = 50.0
    request_id: str = ""
    seen: int = 0
    labels: tuple[str, ...] = ()


class AskSession(Base, frozen=True, tag="ask"):
    """A prompt for the host of a session. request_id: a name for this ask: the same name again asks nothing.

    prompt: a text, content blocks, or the fields of the host's contract. schema: of the report, None for the
    host's own. host: the agent that opens a new session; empty for one that exists.
    """

    session: str
    prompt: str | list[dict[str, Any]] | dict[str, Any]
    request_id: str
    schema: dict[str, Any] | None = None
    limits: Limits | None = None
    labels: tuple[str, ...] = ()
    host: str = ""


class SetTools(Base, frozen=True, tag="set_tools"):
    """The names of the tools that an agent, or every agent of a profile, has from its next request on."""

    session: str
    tools: tuple[str, ...]
    agent: str = ""
    address: str = ""


class ForkSession(Base, frozen=True, tag="fork"):
    """A wish for a fork that runs with the agents of the log's owner.

    at: the last shared event; None for the one before the first change. changes: the new value of an answer
    or prompt, by the seq of the recorded one. instructions: by the name of an agent. limits: those to change;
    one on tokens or cost is required, since nothing else bounds the cost. fork_id: of the new session.
    """

    session: str
    at: int | None = None
    changes: dict[str, Any] = {}
    instructions: dict[str, str] = {}
    limits: dict[str, float] = {}
    effects: Effects = "ask"
    fork_id: str = ""
    seen: int = 0


class DeleteSession(Base, frozen=True, tag="delete"):
    """An order to delete a session that does not run. forks: the choice for its forks."""

    session: str
    forks: ForksChoice = "refuse"


class PruneSessions(Base, frozen=True, tag="prune"):
    """An order to delete the sessions without an event for so long, as `Runtime.prune` does."""

    older_than_s: Annotated[float, msgspec.Meta(ge=0, le=1e10)]
    status: tuple[SessionStatus, ...] | None = ("closed",)
    tag: str | None = None


class Vacuum(Base, frozen=True, tag="vacuum"):
    """An order to give the space of deleted sessions back."""


Command: TypeAlias = (
    ListApprovals
    | AnswerApproval
    | CancelAsk
    | TellAgent
    | AskSession
    | SetTools
    | ForkSession
    | DeleteSession
    | PruneSessions
    | Vacuum
)


class StartedFork(msgspec.Struct, frozen=True):
    """A fork that has begun. at: the last event that it shares with its origin."""

    session: str
    at: int


class ShownApproval(msgspec.Struct, frozen=True):
    """A call that waits for a person, as commands show it. expires_at_ms: None for never.

    forms: of the input that it asks for, null for none. is_fork, same: as of an `Approval`.
    """

    id: str
    session: str
    seq: int
    address: str
    profile: str
    tool: str
    effect: str
    arguments: msgspec.Raw
    is_repeat: bool
    digest: str
    expires_at_ms: int | None = None
    forms: msgspec.Raw = NULL
    is_fork: bool = False
    same: int = 0


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a command. error: the text and kind of an exception; empty if there is a value."""

    value: Any = None
    error: str = ""
    kind: str = ""


class Reply(msgspec.Struct, frozen=True):
    """An `Answered` as the sender of the command reads it."""

    value: msgspec.Raw = NULL
    error: str = ""
    kind: str = ""

    def as_type(self, kind: type[T]) -> T:
        """Return the value. Raises the error of the command, as an exception of its kind."""
        if self.error:
            raise self._error()
        return msgspec.json.decode(self.value, type=kind)

    def _error(self) -> CallboardError:
        kind = getattr(errors, self.kind, None)
        is_plain = isinstance(kind, type) and issubclass(kind, CallboardError)
        try:
            return kind(self.error) if is_plain and kind is not None else CallboardError(self.error)
        except TypeError:  # one with further fields
            return CallboardError(self.error)


COMMANDS: Final[msgspec.json.Decoder[Command]] = msgspec.json.Decoder(Command)


def places_of(log: Path) -> list[Path]:
    """Return the places where the socket of a log may stand, the best first. log: its resolved path."""
    beside = log.with_name(log.name + ".sock")
    name = hashlib.blake2b(os.fsencode(log), digest_size=12).hexdigest()
    places = (beside, _user_folder() / f"{name}.sock")
    return [place for place in places if len(os.fsencode(place)) <= PATH_BYTES_MAX]


def _user_folder() -> Path:
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and runtime.is_dir():
        return runtime / "callboard"
    return Path(tempfile.gettempdir()) / f"callboard-{os.geteuid()}"


def bound_socket(log: Path) -> tuple[socket.socket, Path]:
    """Return a socket that only this user can connect to, and its place. The caller owns the log.

    Raises StoreFailed where no socket can stand, and leaves files alone that are not ours.
    """
    refusals: list[str] = []
    for place in places_of(log):
        try:
            _make_room(log, place)
            return _bound(place), place
        except OSError as error:
            refusals.append(f"{place}: {error.strerror or error}")
        except StoreFailed as error:
            refusals.append(str(error))
    raise StoreFailed(f"{log}: no control socket can be created beside it ({'; '.join(refusals)})")


def _make_room(log: Path, place: Path) -> None:
    """Make the user's own folder, and remove the socket that a dead owner left there."""
    if place.parent != log.parent:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        refuse_foreign_folder(place.parent)
    if os.path.lexists(place):
        refuse_foreign(place)
        place.unlink()  # its owner is dead, or has lost the log to us: we hold the lock


def _bound(place: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.bind(os.fspath(place))
        place.chmod(0o600)  # before it listens: until then every connection is refused
    except BaseException:
        made.close()
        raise
    return made


def refuse_foreign(place: Path) -> None:
    """Refuse a file that is not a socket of this user. Raises StoreFailed, and OSError for a missing file."""
    found = place.lstat()
    if not stat.S_ISSOCK(found.st_mode):
        raise StoreFailed(f"{place} is not a socket; it is left alone: move it away")
    if found.st_uid != os.geteuid():
        raise StoreFailed(f"{place} belongs to user {found.st_uid}; it is left alone: have it removed")


def refuse_foreign_folder(folder: Path) -> None:
    """Refuse a folder that others could write to. Raises StoreFailed."""
    found = folder.lstat()
    is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if not is_private or found.st_uid != os.geteuid():
        raise StoreFailed(f"{folder} is not a private folder of this user; it is left alone")


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the other end belongs to this user, where the system tells; else True."""
    # Without SO_PEERCRED (macOS) the permissions of the socket file are the only guard.
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder) == os.geteuid()
