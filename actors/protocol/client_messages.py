"""The messages between the client and the supervisor; `ToolsChanged` comes from agents, too."""

from typing import Literal, final

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.immutable import NULL, Json, Message, RichMessage
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec, ToolsChange
from callboard.actors.protocol.shared_state import StateKey
from callboard.actors.protocol.usage import ZERO, Need, Usage
from callboard.actors.protocol.value_types import Effects, ForkChange

RECORDED = "recorded"
"""The kind of traffic that `callboard record` sees: whole requests, as they were sent."""

RULES = 2
"""The newest rule set of this code's deciders, by which new sessions live. A session keeps that of its first
event: `Resumed` repeats it, and each `Begin` tells its agent. So a log replays by the rules it was made by.

    1   the first
    2   from 2026-11 on
"""


# --- to the supervisor ------------------------------------------------------------


@final
class SessionOpened(RichMessage, frozen=True):
    """The first event of a session: its rule set, the profiles of its agents, and its limits.

    tags: words by which a service finds its sessions. metadata: a JSON object of the service, null for none.
    capacity: the names of the models whose calls need a place among those of all sessions.
    scopes: the budgets above the session in which its calls are reserved (`budgets.scope_name`).
    state: the keys of the shared state. files: those that its tools may reach, None for none. format: of the
    messages that follow. permissions: the rights of all agents.
    imported: the kind of traffic that it was made of, such as `claude-code`; empty if it ran here.
    """

    rules: int
    host: str
    profiles: tuple[Json, ...]
    model: ModelSpec
    limits: Limits = Limits()
    tags: tuple[str, ...] = ()
    metadata: Json = NULL
    capacity: tuple[str, ...] = ()
    state: tuple[StateKey, ...] = ()
    files: FileArea | None = None
    format: str = "1.0"
    permissions: Layers = ()
    scopes: tuple[str, ...] = ()
    imported: str = ""


@final
class Resumed(RichMessage, frozen=True):
    """A process resumes the session, after the events before this one.

    rules: those of the session. host, profiles, model: of the agents from now on; empty for
    no change. limits: of the session from now on; None for no change. extend_ms: added to each deadline.
    left_out_ms: the time before this resume that the timeouts and sleeps of programs do not count.
    from_next_ask: True if host, profiles and model hold once the running ask has ended.
    capacity, scopes: as in `SessionOpened`, from now on; None for no change.
    reopens: continues a closed session. state: further keys of the shared state.
    files: as in `SessionOpened`, from now on; None for no change. format: as in `SessionOpened`.
    permissions: further bounds of the rights of all agents that begin from now on.
    """

    rules: int
    host: str = ""
    profiles: tuple[Json, ...] = ()
    model: ModelSpec | None = None
    limits: Limits | None = None
    extend_ms: int = 0
    from_next_ask: bool = False
    capacity: tuple[str, ...] | None = None
    reopens: bool = False
    state: tuple[StateKey, ...] = ()
    files: FileArea | None = None
    format: str = "1.0"
    permissions: Layers = ()
    left_out_ms: int = 0
    scopes: tuple[str, ...] | None = None


@final
class Forked(RichMessage, frozen=True):
    """A session begins as a fork of another one, after the events before this one, which both share.

    origin, at, digest: the session that was forked, the seq of the last shared event, and its digest in hex.
    resumed: the agents and limits from now on, as of a process that resumes the session.
    effects: the choice for tools with an effect that have no recorded result: a `recorded` fork runs none.
    changes: the inputs that differ from the recorded ones. until: the seq of the last input of the client
    that is posted again. A process that goes on with the fork reads all of this.
    host: of the shared events, empty if not noted. is_running: True if they end in the middle of an ask.
    has_copy: True if its tools work in a copy of the files, as of the last shared event. skips_lost: files
    whose bytes the log does not have are left as they are in that copy; else the fork needs them. copy: a
    digest by which a later process knows the folder of the copy; empty for one that nobody checks.
    imported: as in `SessionOpened`, of a fork that was made of traffic too.
    """

    origin: str
    at: int
    digest: str
    resumed: Resumed
    effects: Effects = "recorded"
    changes: tuple[ForkChange, ...] = ()
    until: int = 0
    host: str = ""
    is_running: bool = False
    has_copy: bool = False
    skips_lost: bool = False
    copy: str = ""
    imported: str = ""


def resumed_in(body: object) -> Resumed | None:
    """Return the changes with which a process continues a session; None for any other message."""
    return body.resumed if isinstance(body, Forked) else body if isinstance(body, Resumed) else None


@final
class Ask(RichMessage, frozen=True):
    """A prompt for the host: text or content blocks. schema: of its answer, null for text.

    output_type: the name of the Python type that the schema was made of, empty for none. deps: the name of
    the type of the object that its tools get, empty for none.
    labels: of the prompt.
    """

    request_id: str
    prompt: Json
    schema: Json = NULL
    limits: Limits = Limits()
    output_type: str = ""
    deps: str = ""
    labels: Labels = ()


@final
class Tell(Message, frozen=True):
    """A text for a running agent, with its labels. It becomes part of the agent's next new request."""

    request_id: str
    address: str
    text: str
    labels: Labels = ()


@final
class Cancel(Message, frozen=True):
    """A request to stop the running ask and all agents below it.

    address: of one running agent, which is stopped with all below it in place of the ask; its delegation ends
    as `cancelled`, unless another racer goes on. Empty, or `host`, for the ask.
    """

    reason: str = ""
    address: str = ""


@final
class RevokePermission(Message, frozen=True):
    """The end of a permission for later calls. permission: the seq of its `ApprovalGiven`. by: the person."""

    permission: int
    by: str = ""


@final
class Close(Message, frozen=True):
    """A request to end the session."""


@final
class ToolsChanged(Message, frozen=True):
    """New tools for an agent or a profile, from the client, or from an agent whose tool has set them."""

    change: ToolsChange


# --- from the supervisor ----------------------------------------------------------


@final
class TellEnded(Message, frozen=True):
    """The one end of a `Tell`. turn: the number of the turn that read it. detail: why none did."""

    request_id: str
    status: Literal["heard", "refused"]
    turn: int = 0
    detail: str = ""


@final
class AskEnded(RichMessage, frozen=True):
    """The outcome of an ask; the fields are those of `DelegationEnded`.

    usage: of this ask. in_doubt: addresses of agents that had not drained by the end of the grace.
    """

    request_id: str
    kind: OutcomeKind
    value: Json = NULL
    text: str = ""
    detail: str = ""
    usage: Usage = ZERO
    unsettled: Need = Need()
    by: int = 0
    in_doubt: tuple[str, ...] = ()
    labels: Labels = ()


@final
class SessionClosed(RichMessage, frozen=True):
    """The last event. usage: of the whole session."""

    usage: Usage = ZERO
