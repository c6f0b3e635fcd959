"""All kinds of messages, by sender and recipient.

    client     -> supervisor   SessionOpened  Resumed  Ask  Tell  Cancel  RevokePermission  Close
    supervisor -> agent        Begin  Told  Stop  ReportJudged  Delegated  DelegationEnded  Woken
    agent      -> supervisor   TurnRequested  TurnSettled  Delegate  CancelTask  Wake
                               ReportBack  Finished  Stopped
    supervisor <-> model       CallModel                  (the grant; the answer goes to the agent)
    model      -> agent        ModelReplied
    agent     <-> tools        CallTool  ToolStarted  ToolReturned
    agent     <-> approvals    RequestApproval  ApprovalGiven
    agent      -> tools, approvals   CancelCall
    supervisor <-> capacity    RequestCapacity  CapacityGiven  (for models that the runtime limits)
    supervisor <-> schema      CheckSchema  SchemaChecked
    supervisor <-> clock       SetTimer  ExtendTimer  CancelTimer  TimerFired
    supervisor -> client       TellEnded  AskEnded  SessionClosed
    runtime    -> supervisor   DeciderFailed

A message names a call by `turn` and `call`: the number of the turn in its agent's life, from 1, and the index
among that turn's calls, from 0. A model's own identifiers name nothing, since models repeat and invent them.
"""

from typing import Literal, TypeAlias, final

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json, Message, RichMessage, keep_default
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CapacityGiven,
    ModelReplied,
    PortInput,
    SchemaChecked,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import Reason, SchemaProblem, Settled

RULES = 1
"""The rule set of this code's deciders. `SessionOpened` and `Resumed` hold that of their session."""


# --- client -> supervisor ---------------------------------------------------------


@final
class SessionOpened(RichMessage, frozen=True):
    """The first event of a session: its rule set, the profiles of its agents, and its limits.

    tags: words by which a service finds its sessions. metadata: a JSON object of the service, null for none.
    capacity: the names of the models whose calls need a place among those of all sessions.
    """

    rules: int
    host: str
    profiles: tuple[Json, ...]
    model: ModelSpec
    limits: Limits = Limits()
    tags: tuple[str, ...] = ()
    metadata: Json = NULL
    capacity: tuple[str, ...] = ()


@final
class Resumed(RichMessage, frozen=True):
    """A process resumes the session, after the events before this one.

    rules: the rule set of the code that goes on. host, profiles, model: of the agents from now on; empty for
    no change. limits: of the session from now on; None for no change. extend_ms: added to each deadline.
    from_next_ask: True if host, profiles and model hold once the running ask has ended.
    capacity: as in `SessionOpened`, from now on; None for no change.
    reopens: continues a closed session.
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


@final
class Ask(RichMessage, frozen=True):
    """A prompt for the host: text or content blocks. schema: of its answer, null for text.

    output_type: the name of the Python type that the schema was made of, empty for none. deps: the name of
    the type of the object that its tools get, empty for none.
    """

    request_id: str
    prompt: Json
    schema: Json = NULL
    limits: Limits = Limits()
    output_type: str = ""
    deps: str = ""


@final
class Tell(Message, frozen=True):
    """A text for a running agent. It comes into the agent's next new request."""

    request_id: str
    address: str
    text: str


@final
class Cancel(Message, frozen=True):
    """A wish to stop the running ask and all agents below it."""

    reason: str = ""


@final
class RevokePermission(Message, frozen=True):
    """The end of a permission for later calls. permission: the seq of its `ApprovalGiven`. by: the person."""

    permission: int
    by: str = ""


@final
class Close(Message, frozen=True):
    """A wish to end the session."""


# --- supervisor -> agent ----------------------------------------------------------


@final
class Begin(RichMessage, frozen=True):
    """The start of a delegation or of an ask: all that the agent knows. limits: every one is stated."""

    profile: Json
    prompt: Json
    model: ModelSpec
    limits: Limits
    schema: Json = NULL
    depth: int = 0
    roster: tuple[tuple[str, str], ...] = ()


@final
class Stop(RichMessage, frozen=True):
    """An order to end. granted: (turn, attempt) of the agent's model call in flight, (0, 0) for none."""

    reason: OutcomeKind
    granted: tuple[int, int] = (0, 0)


@final
class Told(Message, frozen=True):
    """The text of a `Tell`. number: of the `Tell` in this life of the agent, from 1."""

    number: int
    text: str


@final
class ReportJudged(Message, frozen=True):
    """The judgement of a report. problems: the reasons why an invalid one does not match."""

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


@final
class Woken(Message, frozen=True):
    """The moment of a `Wake` has come."""

    until: int


# --- agent -> supervisor ----------------------------------------------------------


@final
class TurnRequested(RichMessage, frozen=True):
    """A wish for a model call. need: the most it can use. digest: of the whole request, rolling.

    new: the seqs of the events whose content is in this request and was in none before; the content
    itself stands in those events and nowhere twice. after_ms: back-off before a retry.
    told: the number of the last `Told` in this request that was in none before; 0 for none.
    ends: the number of ends of background delegations in it that were in none before.
    otherwise: `answered` if the agent has answered already, and ends so if the budget refuses this turn.
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

    def __post_init__(self) -> None:
        if self.need == NOTHING:
            keep_default(self, "need", NOTHING)


@final
class TurnSettled(RichMessage, frozen=True):
    """The end of a grant, in a decision that posts no other message that can carry it.

    closing: the most that the agent's next turn can use, stated while background delegations run: they must
    leave that.
    """

    settled: Settled
    closing: Need = NOTHING


@final
class Delegate(RichMessage, frozen=True):
    """A `task` call. profiles: one name, or those of the racers, a name n times for n copies.

    closing: the most that the parent's next turn can use, without the results of its delegations. Its
        children must leave that, and a room for each result.
    room: the most bytes of the result that the parent's model reads, 0 for all of it; a report is never cut.
    delegations: the number of delegations in that reply, this one included.
    mode: `await` if the call is answered by the end of the delegation, `background` if by its start.
    implicit: the profile of the agent that a program's question to a model begins, in place of one of the
    session's; null for a `task` call.
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
    implicit: Json = NULL


@final
class Wake(Message, frozen=True):
    """A program's earliest deadline, in place of the one before; None for none any more.

    until: in milliseconds since 1970 UTC, of the session's clock.
    """

    until: int | None = None
    settled: Settled | None = None


@final
class CancelTask(Message, frozen=True):
    """A wish to end one delegation, that of the `Delegate` with this turn and call. Its end answers it."""

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
    """The end of an agent that has nothing outstanding and asks for no further turn.

    value: the value that a program returned, if it is no text; null otherwise.
    """

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


# --- supervisor -> client; runtime ------------------------------------------------


@final
class TellEnded(Message, frozen=True):
    """The one end of a `Tell`. turn: the number of the agent's turn that heard it. detail: why not."""

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


@final
class SessionClosed(RichMessage, frozen=True):
    """The last event. usage: of the whole session."""

    usage: Usage = ZERO


@final
class DeciderFailed(Message, frozen=True):
    """The failure of an actor's decider on an event, in place of its decision (`step.failed`).

    error: the name of the exception's class.
    """

    event: int
    error: str


ClientInput: TypeAlias = SessionOpened | Resumed | Ask | Tell | Cancel | RevokePermission | Close
AgentInput: TypeAlias = (
    Begin
    | Told
    | Stop
    | ReportJudged
    | Delegated
    | DelegationEnded
    | Woken
    | ModelReplied
    | ToolStarted
    | ToolReturned
    | ApprovalGiven
)
FromAgent: TypeAlias = (
    TurnRequested | TurnSettled | Delegate | CancelTask | Wake | ReportBack | Finished | Stopped
)
SupervisorInput: TypeAlias = (
    ClientInput | FromAgent | SchemaChecked | CapacityGiven | TimerFired | DeciderFailed
)
ClientOutput: TypeAlias = TellEnded | AskEnded | SessionClosed
AnyMessage: TypeAlias = AgentInput | SupervisorInput | PortInput | ClientOutput
