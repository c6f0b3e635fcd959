"""The supervisor's state: the tree of agents, the open delegations, the queue, the running ask.

The tree holds the agents that have not drained, so that a walk costs the number of living agents. An agent
outside it has ended: its messages are refused, or judged `late`. Every record is a budget scope over its
subtree; the host's scope is the session's.

    session   new -> open -> asking -> open ... -> closed     (closing: a close waits for the running ask)
    record    running -> ended -> drained, and out of the tree once nothing below it is left
    delegation  checking -> open -> ended, and out of its parent's record
"""

from typing import Final, Literal, TypeAlias, final

import msgspec

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.layers import Layers, own_layers
from callboard.actors.protocol.limits import DEFAULTS, Limits
from callboard.actors.protocol.messages import Delegate, TurnRequested
from callboard.actors.protocol.port_messages import ContextMade
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import Reason
from callboard.actors.supervisor.reserve import NO_RESERVE, Reserve


class Budget(msgspec.Struct, frozen=True, gc=False):
    """The most that a subtree may use, None for no limit; micro_usd: millionths of a US dollar."""

    tokens: int | None = None
    micro_usd: int | None = None


NO_BUDGET: Final = Budget()


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A report that waits for its judgement. labels: of its sender."""

    address: str
    turn: int
    call: int
    value: Json
    labels: Labels = ()


class Delegation(msgspec.Struct, frozen=True, gc=False):
    """A delegation, or an ask, that has not ended.

    racers: the ordinals of the agents that work on it.
    is_checking: True until it has begun. waits: the number of answers it waits for then, of the schema port
        and of the context port. contexts: those that were made, by profile.
    output_type: the name of the Python type that its schema was made of, empty for none.
    running: the number of racers that have not ended.
    reports: the number of reports so far.
    pending: the reports that wait for their judgement, by number. The first is being checked.
    request: of a delegation that has not begun.
    reasons: the endings of racers, in order.
    used: the usage of racers that have left the tree.
    room: the bytes of its result that the parent's model reads, 0 for all of it.
    is_background: True if its parent goes on while it runs.
    kept: the need that its parent keeps for its end, if it runs in the background.
    labels: of the racers that have ended.
    callee: the profile of its first agent; empty for a question to a model.
    """

    key: int
    turn: int
    call: int
    racers: tuple[int, ...]
    schema: Json = NULL
    request: Delegate | None = None
    running: int = 0
    is_checking: bool = False
    waits: int = 0
    contexts: tuple[tuple[str, ContextMade], ...] = ()
    reports: int = 0
    pending: IntMap[Pending] = IntMap()
    reasons: IntMap[Reason] = IntMap()
    text: str = ""
    used: Usage = ZERO
    output_type: str = ""
    room: int = 0
    is_background: bool = False
    labels: Labels = ()
    callee: str = ""
    kept: Need = NOTHING


class Wish(msgspec.Struct, frozen=True, gc=False):
    """A request for a turn that is not granted yet.

    seq: of its event. ticket: its place in the line, 0 outside. scope: at which it has waited last.
    """

    request: TurnRequested
    seq: int
    ticket: int = 0
    scope: str = ""


class ProgramBooks(msgspec.Struct, frozen=True, gc=False):
    """The books that a program needs and no other agent.

    line: the keys of its delegations that wait for a place under max_children, in the order of the asks,
        each with the seq of its `Delegate`.
    wake_timer: the timer of its deadline, 0 for none.
    refusal: the words of a refusal that latches; empty for none. is_refused_above: True if a budget above
        the session refused.
    """

    line: IntMap[int] = IntMap()
    wake_timer: int = 0
    refusal: str = ""
    is_refused_above: bool = False


NO_BOOKS: Final = ProgramBooks()


class Record(msgspec.Struct, frozen=True, gc=False):
    """An agent that has not drained, or has a descendant that has not.

    budget, spent, reserved: the budget of the agent and its descendants, and the amounts they have spent and
        have reserved for calls in flight. kept: the part of the budget that the agents below have to leave.
    is_stopped: True if it got a `Stop`. An agent that finished or reported gets none.
    wanted: the request for a turn that is not granted yet.
    waiting: the addresses of agents whose requests wait for this scope's budget, by ticket.
    held: the amount reserved while the request waits for budgets above the session, or for capacity.
        is_leaving: True if the agent has drained meanwhile.
    is_budgeted: True while the request or the call is reserved in budgets above the session.
    turn, attempt: of the model call in flight, 0 for none. grant: the amount reserved for it.
    turn_children: the copies that its latest turn has delegated to, and those of background delegations that
        were open before; of a program, all that have a place now.
    background: the copies of its open background delegations.
    ends, ended: the number of ends of such delegations, and what is kept for those ends that no request
        holds, by number.
    told, unheard: the number of `Tell`s to this agent, and the request ids of those that no granted request
        holds, by number.
    handed: the rights that it was given from above, without those of its own bundle.
    labels: of what its requests so far hold.
    """

    # The fields that change every turn come first, as in `AgentState`.
    address: str
    ordinal: int
    delegation: int
    profile: Profile
    model: ModelSpec
    limits: Limits
    depth: int
    budget: Budget = NO_BUDGET
    spent: Usage = ZERO
    reserved: Need = NOTHING
    kept: Reserve = NO_RESERVE
    grant: Need | None = None
    turn: int = 0
    attempt: int = 0
    text: str = ""
    wanted: Wish | None = None
    held: Need | None = None
    is_budgeted: bool = False
    children: IntMap["Record"] = IntMap()
    delegations: IntMap[Delegation] = IntMap()
    turn_children: int = 0
    next_ordinal: int = 1
    is_running: bool = True
    is_stopped: bool = False
    is_drained: bool = False
    waiting: IntMap[str] = IntMap()
    is_leaving: bool = False
    deadline_timer: int = 0
    turn_timer: int = 0
    background: int = 0
    ends: int = 0
    ended: IntMap[Need] = IntMap()
    told: int = 0
    unheard: IntMap[str] = IntMap()
    program: ProgramBooks | None = None
    handed: Layers = ()
    labels: Labels = ()

    @property
    def permissions(self) -> Layers:
        """Return the rights of the agent."""
        return own_layers(self.handed, self.profile.name, self.profile.permissions)

    @property
    def granted(self) -> tuple[int, int]:
        """Return the turn and attempt of the model call in flight; (0, 0) for none."""
        return self.turn, self.attempt


class AskOutcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of the running ask, kept while its agents drain."""

    kind: OutcomeKind
    by: int
    value: Json = NULL
    text: str = ""
    detail: str = ""
    labels: Labels = ()


class AskState(msgspec.Struct, frozen=True, gc=False):
    """The running ask.

    limits: the narrowest of the session's, the host's and the ask's own. labels: of its prompt.
    before: the session's usage when the ask began.
    """

    request_id: str
    delegation: Delegation
    prompt: Json
    limits: Limits
    own: Limits = Limits()
    labels: Labels = ()
    before: Usage = ZERO
    outcome: AskOutcome | None = None
    deadline_timer: int = 0
    grace_timer: int = 0


CheckTask: TypeAlias = Literal["accept", "report", "input"]


class Check(msgspec.Struct, frozen=True, gc=False):
    """A running check of the schema port.

    parent, delegation: the delegation that asked for it.
    schema: the key of its schema, for the task `accept`.
    others: parents and keys of other delegations with the same schema, which wait for the same answer.
    """

    task: CheckTask
    parent: str
    delegation: int
    schema: int = 0
    others: IntMap[tuple[str, int]] = IntMap()


class SchemaVerdict(msgspec.Struct, frozen=True, gc=False):
    """An accepted schema, or a schema that is being checked.

    check: the number of the running check, 0 for an accepted schema.
    timeout_ms: the time limit of that check.
    """

    digest: bytes
    check: int = 0
    timeout_ms: int = 0

    @property
    def is_good(self) -> bool:
        """Return True if the schema was accepted."""
        return not self.check


class Timer(msgspec.Struct, frozen=True, gc=False):
    """The purpose of a timer and the agent that it is for. until: of a program's deadline."""

    purpose: Literal["deadline", "turn", "grace", "wake"]
    address: str = ""
    until: int | None = None


class Agents(msgspec.Struct, frozen=True, gc=False):
    """The agents of a session. model: of those that name none, None for no change."""

    host_name: str
    profiles: dict[str, tuple[Profile, Json]]
    model: ModelSpec | None = None


SessionPhase: TypeAlias = Literal["new", "open", "asking", "closed"]


@final
class SupervisorState(msgspec.Struct, frozen=True, gc=False):
    """The supervisor's memory.

    profiles: the profiles by name, with the bytes that go into `Begin`.
    agents: the number of agent slots taken so far, the host included.
    live: the number of agents that have not drained.
    capacity: the names of the models whose calls need a place among those of all sessions.
    scopes: the budgets above the session in which its calls are reserved.
    in_flight: the number of model calls without an answer, and of requests that wait for budgets or capacity.
    queue: the addresses of agents whose requests are served when a slot is free, by ticket.
    schemas: the schemas that were accepted or are being checked, by a part of their digest.
    later: the agents from the next ask on, None for no change.
    host_tools: the tools of the host alone, None for those of its profile.
    permissions: the rights of all agents that begin. rules: of the session, for its whole life.
    """

    # The fields that change every turn come first, as in `AgentState`.
    host: Record | None = None
    in_flight: int = 0
    queue: IntMap[str] = IntMap()
    next_ticket: int = 1
    phase: SessionPhase = "new"
    is_closing: bool = False
    host_name: str = ""
    profiles: dict[str, tuple[Profile, Json]] = {}
    model: ModelSpec = ModelSpec("")
    limits: Limits = DEFAULTS
    capacity: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    agents: int = 0
    live: int = 0
    checks: IntMap[Check] = IntMap()
    next_check: int = 1
    timers: IntMap[Timer] = IntMap()
    next_timer: int = 1
    schemas: IntMap[SchemaVerdict] = IntMap()
    ask: AskState | None = None
    later: Agents | None = None
    host_tools: tuple[ToolSpec, ...] | None = None
    permissions: Layers = ()
    rules: int = 1
