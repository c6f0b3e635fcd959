"""Every message there is, grouped by who speaks to whom.

    client     -> supervisor   SessionOpened  Resumed  Ask  Cancel  Close
    supervisor -> agent        Begin  Stop  ReportJudged  DelegationEnded
    agent      -> supervisor   TurnRequested  TurnSettled  Delegate  ReportBack  Finished  Stopped
    supervisor <-> model       CallModel                  (the grant; the answer goes to the agent)
    model      -> agent        ModelReplied
    agent     <-> tools        CallTool  ToolStarted  ToolReturned
    agent     <-> approvals    RequestApproval  ApprovalGiven
    supervisor <-> schema      CheckSchema  SchemaChecked
    supervisor <-> clock       SetTimer  ExtendTimer  CancelTimer  TimerFired
    supervisor -> client       AskEnded  SessionClosed
    runtime    -> supervisor   DeciderFailed

Which turn and which call a message is about is said by `turn` (counted from 1 over an agent's life) and
`call` (the index of the call among that turn's tool calls), never by identifiers that a model made up:
models repeat and invent those.
"""

from typing import Literal, TypeAlias, final

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json, Message, RichMessage
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Effect, ModelSpec
from callboard.actors.protocol.usage import ZERO, Need, Usage
from callboard.actors.protocol.value_types import ModelFailure, Reason, SchemaProblem, Settled

ToolStatus: TypeAlias = Literal["ok", "error", "cancelled", "interrupted"]
"""How a tool call came out."""

RULES = 1
"""The rule set of this code's deciders; `SessionOpened` carries the one that a session lives by."""


# --- client -> supervisor ---------------------------------------------------------


@final
class SessionOpened(RichMessage, frozen=True):
    """The first event of a session: by which rules it lives, who may appear, what bounds it."""

    rules: int
    host: str
    profiles: tuple[Json, ...]
    model: ModelSpec
    limits: Limits = Limits()


@final
class Resumed(RichMessage, frozen=True):
    """A process has taken the session up again; what was left undone by then is in the events before.

    rules: the rule set of the code that goes on. host, profiles, model: who may appear from now on, if that
    has changed (no profiles: as before). limits: what bounds the session from now on, None for as before.
    extend_ms: so much more time for every deadline that runs.
    """

    rules: int
    host: str = ""
    profiles: tuple[Json, ...] = ()
    model: ModelSpec | None = None
    limits: Limits | None = None
    extend_ms: int = 0


@final
class Ask(RichMessage, frozen=True):
    """A prompt for the host: text or content blocks. schema: what its answer must match, null for text."""

    request_id: str
    prompt: Json
    schema: Json = NULL
    limits: Limits = Limits()


@final
class Cancel(Message, frozen=True):
    """Stop the running ask, everything under it included."""

    reason: str = ""


@final
class Close(Message, frozen=True):
    """End the session."""


# --- supervisor -> agent ----------------------------------------------------------


@final
class Begin(RichMessage, frozen=True):
    """The start of a delegation, or of an ask: all that the agent knows. limits are complete."""

    profile: Json
    prompt: Json
    model: ModelSpec
    limits: Limits
    schema: Json = NULL
    depth: int = 0
    roster: tuple[tuple[str, str], ...] = ()


@final
class Stop(RichMessage, frozen=True):
    """End what you do. granted: (turn, attempt) of your model call that is in flight, (0, 0) for none."""

    reason: OutcomeKind
    granted: tuple[int, int] = (0, 0)


@final
class ReportJudged(Message, frozen=True):
    """What became of a report. problems: why it does not match, if it is invalid."""

    turn: int
    call: int
    verdict: Literal["accepted", "invalid", "late"]
    problems: tuple[SchemaProblem, ...] = ()


@final
class DelegationEnded(RichMessage, frozen=True):
    """The one end of a delegation. value: the report; text: the answer or the partial work.

    address: of the first who works on it; empty if its sender had ended. by: the seq of the event that
    ended it. reasons: each agent's own ending, if several raced and none succeeded. unsettled:
    reservations of model calls that had no answer yet.
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


# --- agent -> supervisor ----------------------------------------------------------


@final
class TurnRequested(RichMessage, frozen=True):
    """A wish for a model call. need: the most it can use. digest: of the whole request, rolling.

    new: the seqs of the events whose content is in this request and was in none before; the content
    itself stands in those events and nowhere twice. after_ms: back-off before a retry.
    """

    turn: int
    attempt: int = 1
    need: Need = Need()
    digest: str = ""
    new: tuple[int, ...] = ()
    after_ms: int = 0
    settled: Settled | None = None


@final
class TurnSettled(Message, frozen=True):
    """The end of a grant whose decision had nothing else to say to the supervisor."""

    settled: Settled


@final
class Delegate(RichMessage, frozen=True):
    """A `task` call. profiles: one name, or several that race (a name n times for n copies).

    closing: the most that the parent's own next turn can use, which its children must leave.
    """

    turn: int
    call: int
    profiles: tuple[str, ...]
    prompt: Json
    schema: Json = NULL
    closing: Need = Need()
    limits: Limits = Limits()
    mode: Literal["await"] = "await"
    settled: Settled | None = None


@final
class ReportBack(Message, frozen=True):
    """A report for whoever delegated."""

    turn: int
    call: int
    value: Json
    settled: Settled | None = None


@final
class Finished(Message, frozen=True):
    """The agent's own end: it has nothing outstanding and asks for no further turn."""

    kind: OutcomeKind
    text: str = ""
    detail: str = ""
    settled: Settled | None = None


@final
class Stopped(Message, frozen=True):
    """The agent was stopped and has drained: every port request of its is answered."""

    settled: Settled | None = None


# --- model, tools, schema, clock --------------------------------------------------


@final
class CallModel(Message, frozen=True):
    """The grant: the only way to a model call. What is needed is reserved until the answer is settled.

    request: the seq of the `TurnRequested` that is granted; it says turn, attempt, need and digest.
    """

    agent: str
    request: int


@final
class ModelReplied(RichMessage, frozen=True):
    """The one answer to a grant. content: the model's blocks, verbatim.

    usage: None where it is not known. status `lost`: the answer, if there was one, did not survive a
    crash.
    """

    turn: int
    attempt: int = 1
    status: Literal["ok", "error", "cancelled", "lost"] = "ok"
    content: Json = NULL
    stop_reason: str = ""
    usage: Usage | None = None
    failure: ModelFailure | None = None
    model: str = ""


@final
class CallTool(Message, frozen=True):
    """A tool call. arguments: as the model wrote them; the port checks them."""

    turn: int
    call: int
    tool: str
    effect: Effect
    arguments: Json
    id: str = ""


@final
class ToolStarted(Message, frozen=True):
    """A tool with effect `write` is about to run: from now on its effect is unknown until it returns."""

    turn: int
    call: int


@final
class ToolReturned(RichMessage, frozen=True):
    """The one answer to a tool call. output: a JSON string or a list of content blocks.

    `cancelled` claims that it certainly did not start; `interrupted` that its effect is unknown.
    """

    turn: int
    call: int
    status: ToolStatus = "ok"
    output: Json = NULL


@final
class RequestApproval(Message, frozen=True):
    """May this call run? is_repeat: it was interrupted, its effect is unknown, and it would run again."""

    turn: int
    call: int
    tool: str
    effect: Effect
    arguments: Json
    is_repeat: bool = False


@final
class ApprovalGiven(Message, frozen=True):
    """The one answer to that question, as a rule by a person.

    note: what is said of it; the model reads it if the call may not run. digest: that of the request in the
    log, as it was shown; empty where nobody was shown anything.
    """

    turn: int
    call: int
    verdict: Literal["approved", "denied", "cancelled"]
    note: str = ""
    digest: str = ""
    is_repeat: bool = False


@final
class CheckSchema(RichMessage, frozen=True):
    """Is this a schema we accept (`accept`), or does the value match it (`report`)?"""

    check: int
    task: Literal["accept", "report"]
    schema: Json
    value: Json = NULL
    timeout_ms: int = 5_000


@final
class SchemaChecked(Message, frozen=True):
    """The one answer to a check. No problems: accepted. A check that could not answer is `failed`."""

    check: int
    status: Literal["ok", "invalid", "failed"]
    problems: tuple[SchemaProblem, ...] = ()


@final
class SetTimer(Message, frozen=True):
    """Fire once after this many milliseconds, counted from when this was posted."""

    timer: int
    after_ms: int


@final
class ExtendTimer(Message, frozen=True):
    """The timer fires that much later than it would have."""

    timer: int
    by_ms: int


@final
class CancelTimer(Message, frozen=True):
    """The timer need not fire any more."""

    timer: int


@final
class TimerFired(Message, frozen=True):
    """The time is over."""

    timer: int


# --- supervisor -> client; runtime ------------------------------------------------


@final
class AskEnded(RichMessage, frozen=True):
    """The outcome of an ask; the fields are those of `DelegationEnded`.

    usage: of this ask. in_doubt: addresses of agents that had not drained when the grace was over.
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
    """An actor's decider raised on this event, and this stands in place of its decision (`step.failed`).

    error: the name of the exception's class.
    """

    event: int
    error: str


ClientInput: TypeAlias = SessionOpened | Resumed | Ask | Cancel | Close
AgentInput: TypeAlias = (
    Begin | Stop | ReportJudged | DelegationEnded | ModelReplied | ToolStarted | ToolReturned | ApprovalGiven
)
FromAgent: TypeAlias = TurnRequested | TurnSettled | Delegate | ReportBack | Finished | Stopped
SupervisorInput: TypeAlias = ClientInput | FromAgent | SchemaChecked | TimerFired | DeciderFailed
PortInput: TypeAlias = (
    CallModel | CallTool | RequestApproval | CheckSchema | SetTimer | ExtendTimer | CancelTimer
)
ClientOutput: TypeAlias = AskEnded | SessionClosed
AnyMessage: TypeAlias = AgentInput | SupervisorInput | PortInput | ClientOutput
