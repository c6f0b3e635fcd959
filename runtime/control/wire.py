"""The messages on the control socket: one line of JSON each way, then the end of the connection.

{"command":"approvals"}
{"command":"answer","session":"...","seq":7,"is_approved":true,"note":"","by":"ann","is_always":false}
{"command":"delete","session":"..."}
{"command":"prune","older_than_s":2592000,"status":"closed","tag":null}
{"command":"vacuum"}
{"command":"cancel","session":"...","reason":""}
{"command":"tell","session":"...","address":"host.1","text":"..."}

{"value":...}
{"error":"...","kind":"UnknownName"}
"""

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from callboard.actors.protocol.immutable import NULL
from callboard.runtime.log.forks import ForksChoice
from callboard.runtime.log.session_rows import SessionStatus

LINE_BYTES_MAX: Final = 64 * 1024
"""The longest request. Answers have no such limit: they come from our own process."""


class Base(msgspec.Struct, frozen=True, tag_field="command", forbid_unknown_fields=True):
    """A command."""


class ListApprovals(Base, frozen=True, tag="approvals"):
    """A request for the calls that wait for a person."""


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


class CancelAsk(Base, frozen=True, tag="cancel"):
    """A wish to cancel the running ask of a session."""

    session: str
    reason: str = ""


class TellAgent(Base, frozen=True, tag="tell"):
    """Words for a running agent of a session. wait_s: the most seconds to wait until it hears them."""

    session: str
    address: str
    text: str
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=50)] = 50.0


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
    ListApprovals | AnswerApproval | CancelAsk | TellAgent | DeleteSession | PruneSessions | Vacuum
)


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


COMMANDS: Final[msgspec.json.Decoder[Command]] = msgspec.json.Decoder(Command)
