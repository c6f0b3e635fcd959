"""All kinds of messages, by sender and recipient.

    client     -> supervisor   SessionOpened  Resumed  Forked  Ask  Tell  Cancel  RevokePermission
                               ToolsChanged  Close
    supervisor -> agent        Begin  Told  Stop  ReportJudged  Delegated  DelegationEnded  ToolsGiven  Woken
                               SummaryRefused
    agent      -> itself       Compacted
    agent      -> supervisor   TurnRequested  TurnSettled  Delegate  CancelTask  ToolsChanged  Wake
                               ReportBack  Finished  Stopped
    supervisor <-> model       CallModel                  (the grant; the answer goes to the agent)
    question   -> model        CallModel                  (the first turn, which its `Begin` has granted)
    program    -> model        RunStep                    (a step, which needs no grant)
    model      -> agent        ModelReplied
    agent     <-> tools        CallTool  ToolStarted  ToolReturned
    agent     <-> approvals    RequestApproval  ApprovalGiven
    agent      -> tools, approvals   CancelCall
    supervisor <-> capacity    RequestCapacity  CapacityGiven  (for models that the runtime limits)
    supervisor <-> budgets     RequestBudget  BudgetGiven  SettleBudget   (where the runtime has budgets)
    supervisor <-> schema      CheckSchema  SchemaChecked
    supervisor <-> context     MakeContext  ContextMade   (for agents that want to know more than a prompt)
    supervisor <-> clock       SetTimer  ExtendTimer  CancelTimer  TimerFired
    supervisor -> client       TellEnded  AskEnded  SessionClosed
    runtime    -> supervisor   DeciderFailed

A message names a call by `turn` and `call`: the number of the turn in its agent's life, from 1, and the index
among that turn's calls, from 0. A model's own identifiers name nothing, since models repeat and invent them.
"""

from typing import Literal, TypeAlias, final

from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Cancel,
    Close,
    Forked,
    Resumed,
    RevokePermission,
    SessionClosed,
    SessionOpened,
    Tell,
    TellEnded,
    ToolsChanged,
)
from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json, Message, RichMessage, keep_default
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.origin import Makers
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CapacityGiven,
    ContextMade,
    ModelReplied,
    PortInput,
    SchemaChecked,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.profiles import ModelSpec, ToolSpec
from callboard.actors.protocol.repair_levels import Repair
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import AskedRequest, CallMetadata, Reason, SchemaProblem, Settled

# --- supervisor -> agent ----------------------------------------------------------


@final
class Begin(RichMessage, frozen=True):
    """The start of a delegation or an ask: everything that the agent knows. limits: all are stated.

    context: a text or content blocks that stand before the prompt, or behind the instructions if the profile
    says so; null for none.
    permissions: the rights of the agent, one layer for each bundle above it and its own.
    labels: of what it is told.
    callees: the agents of the roster that it does not call as any other.
    history, makers: the messages that its conversation begins with, and who made those of models.
    rules: those of the session.
    bounds_questions: True if `max_iterations` bounds the questions of a program, since its own profile or ask
        states it.
    description: a name of the task, for people; no model reads it.
    asked: the request of a question that carries its own, in place of a prompt; None for any other.
    granted: the need of its first turn, which is granted with this message: the agent posts `CallModel`
        itself. None for an agent that requests its first turn.
    """

    profile: Json
    prompt: Json
    model: ModelSpec
    limits: Limits
    schema: Json = NULL
    depth: int = 0
    roster: tuple[tuple[str, str], ...] = ()
    context: Json = NULL
    permissions: Layers = ()
    labels: Labels = ()
    callees: tuple[Callee, ...] = ()
    history: tuple[Json, ...] = ()
    makers: Makers = ()
    rules: int = 1
    bounds_questions: bool = False
    description: str = ""
    asked: AskedRequest | None = None
    granted: Need | None = None


@final
class ToolsGiven(Message, frozen=True):
    """The tools that the agent has from its next new request on: all of them, apart from callboard's own."""

    tools: tuple[ToolSpec, ...]


@final
class Stop(RichMessage, frozen=True):
    """An order to end. granted: (turn, attempt) of the agent's model call in flight, (0, 0) for none."""

    reason: OutcomeKind
    granted: tuple[int, int] = (0, 0)


@final
class Told(Message, frozen=True):
    """The text of a `Tell`, with its labels. number: of the `Tell` in this life of the agent, from 1."""

    number: int
    text: str
    labels: Labels = ()


@final
class ReportJudged(Message, frozen=True):
    """The verdict on a report. problems: the reasons why an invalid one does not match."""

    turn: int
    call: int
    verdict: Literal["accepted", "invalid", "late"]
    problems: tuple[SchemaProblem, ...] = ()


@final
class Delegated(Message, frozen=True):
    """The start of a background delegation, which answers its call. address: of its first agent."""

    turn: int
    call: int
    address: str


@final
class DelegationEnded(RichMessage, frozen=True):
    """The one end of a delegation. value: the report; text: the answer or the partial work.

    address: of its first agent; empty if its sender had ended. by: the seq of the event that ended it.
    reasons: the end of each racer, if none succeeded. unsettled: reservations of model calls without an
    answer. room: the bytes of its result that the parent's model reads, 0 for all of it.
    labels: of the agents whose work it tells of. problems: the reasons why its input does not match.
    metadata: of the call, for programs and people only; None for a question to a model.
    latch: the words of the refusal by which its sender, a program, ends as `budget`; empty for none.
    """

    turn: int
    call: int
    kind: OutcomeKind
    address: str = ""
    value: Json = NULL
    text: str = ""
    detail: str = ""
    usage: Usage = ZERO
    unsettled: Need = Need()
    by: int = 0
    reasons: tuple[Reason, ...] = ()
    room: int = 0
    labels: Labels = ()
    problems: tuple[SchemaProblem, ...] = ()
    metadata: CallMetadata | None = None
    latch: str = ""


@final
class Woken(Message, frozen=True):
    """The moment of a `Wake` has come."""

    until: int


# --- agent -> supervisor ----------------------------------------------------------


@final
class TurnRequested(RichMessage, frozen=True):
    """A request for a model call. need: the maximum it can use. digest: of the whole request, rolling.

    new: the seqs of the events whose content is in this request and was in none before; the content
    itself stands in those events and nowhere twice. after_ms: back-off before a retry.
    told: the number of the last `Told` in this request that was in none before; 0 for none.
    ends: the number of ends of background delegations in it that were in none before.
    otherwise: `answered` if the agent has answered already, and ends so if the budget refuses this turn.
    breaks_cache: the request does not begin with the one before it, since its tools, its schema or the
        origin that reads it have changed.
    model: the name of the model that is asked; empty for the first one of `Begin.model`.
    is_unbounded: need is no upper bound, since nothing is known of the size of an image or a file.
    labels: of the agent, those that are new since its request before.
    repair: how the replies in the request are repaired; None for `repair_levels.START`.
    purpose: `summary` if the answer is to stand in place of the older conversation; max_iterations does not
        count such a turn. summary: the most that one can use after this turn, if it may follow.
    """

    turn: int
    attempt: int = 1
    need: Need = NOTHING
    digest: str = ""
    new: tuple[int, ...] = ()
    after_ms: int = 0
    settled: Settled | None = None
    told: int = 0
    ends: int = 0
    otherwise: Literal["", "answered"] = ""
    breaks_cache: bool = False
    model: str = ""
    is_unbounded: bool = False
    labels: Labels = ()
    repair: Repair | None = None
    purpose: Literal["", "summary"] = ""
    summary: Need = NOTHING

    def __post_init__(self) -> None:
        if self.need is not NOTHING and self.need == NOTHING:
            keep_default(self, "need", NOTHING)
        if self.summary is not NOTHING and self.summary == NOTHING:
            keep_default(self, "summary", NOTHING)


@final
class TurnSettled(RichMessage, frozen=True):
    """The end of a grant, in a decision that posts no other message that can carry it.

    usage, text: those of `Settled`. Not one field of that type: this message is posted every turn.
    closing: the most that the agent's next turn can use, stated while background delegations run: they must
    leave that.
    """

    usage: Usage | None = None
    text: str = ""
    closing: Need = NOTHING

    def __post_init__(self) -> None:
        if self.closing is not NOTHING and self.closing == NOTHING:
            keep_default(self, "closing", NOTHING)

    @property
    def settled(self) -> Settled:
        """Return the settlement, as other messages carry it."""
        return Settled(self.usage, self.text)


@final
class Delegate(RichMessage, frozen=True):
    """A `task` call. profiles: one name, or those of the racers, a name n times for n copies.

    closing: the most that the parent's next turn can use, without the results of its delegations. Its
        children must leave that, and a room for each result.
    room: the most bytes of the result that the parent's model reads, 0 for all of it; a report is never cut.
    delegations: the number of delegations in that reply, this one included.
    mode: `await` if the call is answered by the end of the delegation, `background` if by its start.
    messages: the length of the parent's conversation, up to that reply.
    implicit: the profile of the agent that a program's question to a model begins, in place of one of the
        session's; null for a `task` call.
    labels: of the parent.
    input: the arguments of a call of an agent with a contract, from which the prompt was made; null for none.
    description: a name of the task, for people; empty for none.
    asked: of a question that carries its whole request, None for any other.
    """

    turn: int
    call: int
    profiles: tuple[str, ...]
    prompt: Json
    schema: Json = NULL
    closing: Need = Need()
    room: int = 0
    delegations: int = 1
    limits: Limits = Limits()
    mode: Literal["await", "background"] = "await"
    settled: Settled | None = None
    messages: int = 0
    implicit: Json = NULL
    labels: Labels = ()
    input: Json = NULL
    description: str = ""
    asked: AskedRequest | None = None


@final
class Wake(Message, frozen=True):
    """A program's earliest deadline now, in milliseconds since 1970 UTC; None if it has none."""

    until: int | None = None
    settled: Settled | None = None


@final
class CancelTask(Message, frozen=True):
    """A request to end the delegation of the `Delegate` with this turn and call. Its end answers it."""

    turn: int
    call: int


@final
class ReportBack(Message, frozen=True):
    """A report to the agent or client that delegated."""

    turn: int
    call: int
    value: Json
    settled: Settled | None = None


@final
class Finished(RichMessage, frozen=True):
    """The end of an agent with nothing outstanding. value: what a program returned, null for a text."""

    kind: OutcomeKind
    text: str = ""
    detail: str = ""
    settled: Settled | None = None
    value: Json = NULL

    def __post_init__(self) -> None:
        keep_default(self, "value", NULL)


@final
class Stopped(Message, frozen=True):
    """The end of an agent that was stopped. All its port requests are answered."""

    settled: Settled | None = None


# --- runtime -----------------------------------------------------------------------


@final
class DeciderFailed(Message, frozen=True):
    """The failure of an actor's decider on an event, in place of its decision (`step.failed`).

    error: the name of the exception's class.
    """

    event: int
    error: str


ClientInput: TypeAlias = (
    SessionOpened | Resumed | Forked | Ask | Tell | Cancel | RevokePermission | ToolsChanged | Close
)
AgentInput: TypeAlias = (
    Begin
    | Told
    | Stop
    | ReportJudged
    | Delegated
    | DelegationEnded
    | ToolsGiven
    | Woken
    | Compacted
    | SummaryRefused
    | ModelReplied
    | ToolStarted
    | ToolReturned
    | ApprovalGiven
)
FromAgent: TypeAlias = (
    TurnRequested | TurnSettled | Delegate | CancelTask | Wake | ReportBack | Finished | Stopped
)
SupervisorInput: TypeAlias = (
    ClientInput
    | FromAgent
    | SchemaChecked
    | ContextMade
    | CapacityGiven
    | BudgetGiven
    | TimerFired
    | DeciderFailed
)
ClientOutput: TypeAlias = TellEnded | AskEnded | SessionClosed
AnyMessage: TypeAlias = AgentInput | SupervisorInput | PortInput | ClientOutput
