"""What the supervisor knows: the tree of agents, the open delegations, the queue, the running ask.

The tree holds only agents that have not drained, so walking it costs what is alive. An agent that is not
in it has ended: what it still says is refused, or `late`. Every record is a budget scope over its subtree;
the host's is the session's.

    session   new -> open -> asking -> open ... -> closed     (closing: a close waits for the running ask)
    record    running -> ended -> drained, and out of the tree once nothing below it is left
    delegation  checking -> open -> ended, and out of its parent's record
"""

from typing import Literal, TypeAlias, final

import msgspec

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.limits import DEFAULTS, Limits
from callboard.actors.protocol.messages import Delegate, TurnRequested
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import Reason


class Budget(msgspec.Struct, frozen=True, gc=False):
    """What a subtree may spend. closing: what its agent needs for its next turn, so its children leave it."""

    tokens: int | None = None
    cost: int | None = None
    closing: Need = NOTHING


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A report that waits for its judgement."""

    address: str
    turn: int
    call: int
    value: Json


class Delegation(msgspec.Struct, frozen=True, gc=False):
    """A delegation, or an ask, that has not ended. racers: the ordinals of those who work on it.

    running: how many of them have not ended. reports: how many came. pending: those that wait, by their
    number among these, the first being checked. reasons: how racers ended, in that order. used: what racers
    used that are out of the tree already.
    """

    key: int
    turn: int
    call: int
    racers: tuple[int, ...]
    schema: Json = NULL
    request: Delegate | None = None
    running: int = 0
    is_checking: bool = False
    reports: int = 0
    pending: IntMap[Pending] = IntMap()
    reasons: IntMap[Reason] = IntMap()
    text: str = ""
    used: Usage = ZERO


class Record(msgspec.Struct, frozen=True, gc=False):
    """An agent that has not drained, or has something below it that has not.

    budget, spent, reserved: what may be spent, was spent, and is reserved for calls in flight, by the agent
    and all below it.
    is_stopped: whether it was told to drain; one that finished or reported was not.
    wanted: the turn it asked for, if that is not granted yet; wanted_at: the seq of that request;
    ticket: its place in line, parked: the scope
    whose budget it waits for. waiting: who waits for the budget of this one, by ticket.
    granted: (turn, attempt) in flight, and grant what is reserved for it.
    """

    address: str
    ordinal: int
    delegation: int
    profile: Profile
    model: ModelSpec
    limits: Limits
    depth: int
    budget: Budget = Budget()
    spent: Usage = ZERO
    reserved: Need = NOTHING
    is_running: bool = True
    is_stopped: bool = False
    is_drained: bool = False
    wanted: TurnRequested | None = None
    ticket: int = 0
    parked: str = ""
    waiting: IntMap[str] = IntMap()
    granted: tuple[int, int] = (0, 0)
    wanted_at: int = 0
    grant: Need | None = None
    deadline_timer: int = 0
    turn_timer: int = 0
    turn: int = 0
    turn_children: int = 0
    next_ordinal: int = 1
    children: IntMap["Record"] = IntMap()
    delegations: IntMap[Delegation] = IntMap()
    text: str = ""


class AskOutcome(msgspec.Struct, frozen=True, gc=False):
    """How the running ask has ended, while its agents drain."""

    kind: OutcomeKind
    by: int
    value: Json = NULL
    text: str = ""
    detail: str = ""


class AskState(msgspec.Struct, frozen=True, gc=False):
    """The running ask. limits: the narrowest of session, host and ask. before: what was spent before it."""

    request_id: str
    delegation: Delegation
    prompt: Json
    limits: Limits
    own: Limits = Limits()
    before: Usage = ZERO
    outcome: AskOutcome | None = None
    deadline_timer: int = 0
    grace_timer: int = 0


CheckTask: TypeAlias = Literal["accept", "report"]


class Check(msgspec.Struct, frozen=True, gc=False):
    """What a question to the schema port is about: whose delegation, and the key of its schema.

    others: parents and keys of further delegations with the same schema, which wait for the same answer.
    """

    task: CheckTask
    parent: str
    delegation: int
    schema: int = 0
    others: IntMap[tuple[str, int]] = IntMap()


class SchemaVerdict(msgspec.Struct, frozen=True, gc=False):
    """A schema that is known to be good; or one that is being looked at, by this check, within this time."""

    digest: bytes
    check: int = 0
    timeout_ms: int = 0

    @property
    def is_good(self) -> bool:
        """Whether it was accepted."""
        return not self.check


class Timer(msgspec.Struct, frozen=True, gc=False):
    """What happens when a timer fires, and to whom."""

    purpose: Literal["deadline", "turn", "grace"]
    address: str = ""


SessionPhase: TypeAlias = Literal["new", "open", "asking", "closed"]


@final
class SupervisorState(msgspec.Struct, frozen=True, gc=False):
    """The supervisor's memory.

    profiles: by name, with the bytes that go into `Begin`. agents: how many there ever were, the host
    included. live: how many have not drained. in_flight: model calls. queue: addresses by ticket, of those
    whose request is to be looked at as soon as a slot is free. schemas: those that were accepted or are
    being looked at, by a part of their digest.
    """

    phase: SessionPhase = "new"
    is_closing: bool = False
    host_name: str = ""
    profiles: dict[str, tuple[Profile, Json]] = {}
    model: ModelSpec = ModelSpec("")
    limits: Limits = DEFAULTS
    host: Record | None = None
    agents: int = 0
    live: int = 0
    in_flight: int = 0
    queue: IntMap[str] = IntMap()
    next_ticket: int = 1
    checks: IntMap[Check] = IntMap()
    next_check: int = 1
    timers: IntMap[Timer] = IntMap()
    next_timer: int = 1
    schemas: IntMap[SchemaVerdict] = IntMap()
    ask: AskState | None = None
