"""Messages to and from the eight ports, in `port_table.py` a row for each kind; others are in messages.py."""

from typing import Final, Literal, TypeAlias, final

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.immutable import NULL, Json, Message, RichMessage, keep_default
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.origin import Makers, Origin
from callboard.actors.protocol.profiles import ToolsChange
from callboard.actors.protocol.shared_state import StateUpdate
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.telemetry import Telemetry
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.protocol.uses import Use
from callboard.actors.protocol.value_types import (
    CacheRequest,
    FirstTurn,
    InputAsked,
    InputGiven,
    ModelFailure,
    SchemaProblem,
    Sent,
    Spans,
)

CUT_OFF: Final = frozenset({"lost", "detached"})
"""The statuses of a model call that the end of a process cut off. Its agent asks again."""

ToolStatus: TypeAlias = Literal["ok", "error", "cancelled", "interrupted", "input_required", "needs_effect"]
"""The result of a tool call, in a word."""


@final
class CallModel(Message, frozen=True):
    """The grant: the only way to a model call. Its need is reserved until the answer is settled.

    request: the seq of the `TurnRequested` that is granted; it says turn, attempt, need and digest.
    opening: the turn that a `Begin` has granted, whose agent posts this itself: `request` is that `Begin`.
    """

    agent: str
    request: int
    opening: FirstTurn | None = None


@final
class ModelReplied(RichMessage, frozen=True):
    """The one answer to a grant or a step. content: the model's blocks, verbatim.

    usage: None if it is unknown. status `lost`: a crash came before an answer was in the log. `detached`: the
    process was ended politely before; `usage` is what the model had reported by then.
    model: the name of the model that answered; empty if it is the one that was asked, or not known.
    sent: the request as it was sent, if the model tells. body: the part of its body between `sent.head` and
    `sent.tail`, as JSON texts, if bodies are kept (`kept_bodies.py`).
    origin: of the content; None for the origin of the model that was asked (`ModelSpec.made_by`).
    reused: in a fork, the seq of the recorded answer in whose place this one stands, at no cost; 0 for none.
    edits: what the service has taken out of the conversation by itself, a JSON list in its own words.
    differs: of an imported session, the ways in which the traffic differs from the events, in words.
    """

    turn: int
    attempt: int = 1
    status: Literal["ok", "error", "cancelled", "lost", "detached"] = "ok"
    content: Json = NULL
    stop_reason: str = ""
    usage: Usage | None = None
    failure: ModelFailure | None = None
    model: str = ""
    origin: Origin | None = None
    sent: Sent | None = None
    body: tuple[Json, ...] = ()
    reused: int = 0
    edits: Json = NULL
    differs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.content == NULL or self.edits is not NULL:
            keep_default(self, "content", NULL)
            keep_default(self, "edits", NULL)


@final
class CallTool(Message, frozen=True):
    """A tool call. arguments: the model's own bytes, which the port checks.

    given: in a later round of the call, the input that it had asked for; None in the first.
    labels: of the agent that calls. cache: for a tool whose results may be given again; None for any other.
    """

    turn: int
    call: int
    tool: str
    effect: Effect
    arguments: Json
    id: str = ""
    given: InputGiven | None = None
    labels: Labels = ()
    cache: CacheRequest | None = None


@final
class ToolStarted(Message, frozen=True):
    """A `write` tool is about to run. Until it returns, its effect is unknown.

    reused: in a fork, the seq of the recorded answer for which the call waits instead; 0 if it runs."""

    turn: int
    call: int
    reused: int = 0


@final
class ToolReturned(RichMessage, frozen=True):
    """The one answer to a tool call. output: a JSON string or a list of content blocks.

    `cancelled` means that it certainly did not start, `interrupted` that its effect is unknown. trace: of a
    tool that raised, for people. state_update: its updates of the shared state, in order, which count if the
    status is `ok`. state_read: the keys of that state which it has read. tools: those that it sets, None for
    no change. asked: the input that it wants, of status `input_required`; the call goes on with another
    `CallTool`, and `output` says so. reused: as in `ModelReplied`. `needs_effect` means that a fork does not
    run this tool, which has an effect and no recorded result. same: the seq of a recorded result of the same
    call in another turn, for a person to choose. checkpoints: the names that it gave to this place of the
    log. labels: of this result, beside those of its tool. after_origin: a `read` tool has run in a fork, in
    the world as it was then. cached_from: the answer that this one repeats, as SESSION#SEQ. telemetry: for
    people. uses, files: of rights, and the versions of files that it found and wrote, under any status.
    contents: the bytes that the log lacked. files_gap: changes that are not known, in words.
    """

    turn: int
    call: int
    status: ToolStatus = "ok"
    output: Json = NULL
    trace: str = ""
    state_update: tuple[StateUpdate, ...] = ()
    state_read: tuple[str, ...] = ()
    tools: ToolsChange | None = None
    asked: InputAsked | None = None
    reused: int = 0
    same: int = 0
    checkpoints: tuple[str, ...] = ()
    labels: Labels = ()
    after_origin: bool = False
    uses: tuple[Use, ...] = ()
    telemetry: Telemetry | None = None
    cached_from: str = ""
    files: tuple[FileVersion, ...] = ()
    contents: tuple[Json, ...] = ()
    files_gap: str = ""

    def __post_init__(self) -> None:
        if self.output == NULL:
            keep_default(self, "output", NULL)


@final
class RequestApproval(RichMessage, frozen=True):
    """A question: may this call run? is_repeat: it was interrupted, and its effect is unknown.

    round: from 1 up, of a call that asks for input; 0 for any other. form: its forms, null for none.
    profile: of the agent that makes the call. timeout_ms: the question expires this many milliseconds after
    this event; 0 for never.
    """

    turn: int
    call: int
    tool: str
    effect: Effect
    arguments: Json
    is_repeat: bool = False
    profile: str = ""
    timeout_ms: int = 0
    round: int = 0
    form: Json = NULL


@final
class ApprovalGiven(RichMessage, frozen=True):
    """The one answer to a `RequestApproval`, usually by a person.

    note: a reason, which the model reads if the call may not run. digest: of the request in the log, as the
    person saw it; empty if no person saw it. by: the person. arguments: to run the call with instead of the
    requested ones; null for those. is_always: a permission for later calls of this tool by agents of this
    profile. permission: the seq of the answer whose permission covers this call; 0 if it was asked about.
    round: of the question. values: for each of its forms, by name; null without any.
    labels: of what the person gives.
    """

    turn: int
    call: int
    verdict: Literal["approved", "denied", "cancelled"]
    note: str = ""
    digest: str = ""
    is_repeat: bool = False
    by: str = ""
    arguments: Json = NULL
    is_always: bool = False
    permission: int = 0
    round: int = 0
    values: Json = NULL
    labels: Labels = ()

    @property
    def goes_on(self) -> bool:
        """Return whether the call continues: it runs, or its tool learns that a form was declined."""
        return self.verdict == "approved" or (self.verdict == "denied" and self.round > 0)


@final
class CancelCall(Message, frozen=True):
    """An order to end one call, to the port that has it. Its one answer still comes.

    A question to a person is withdrawn. A cancel that crosses the answer changes nothing."""

    turn: int
    call: int


@final
class RequestCapacity(RichMessage, frozen=True):
    """A request for a place among the model calls of all sessions, for a model that the runtime limits.

    need: what the call can use at most; its tokens are taken from the model's bucket.
    """

    agent: str
    turn: int
    attempt: int
    model: str
    need: Need = NOTHING

    def __post_init__(self) -> None:
        keep_default(self, "need", NOTHING)


@final
class CapacityGiven(RichMessage, frozen=True):
    """The one answer to a `RequestCapacity`. `cancelled`: its agent was stopped while it waited.

    A place belongs to the process that gave it: it is given back when the call has its answer.
    """

    agent: str
    turn: int
    attempt: int
    status: Literal["given", "cancelled"] = "given"


@final
class RequestBudget(Message, frozen=True):
    """A request to reserve a call in the budgets above the session. need: the most that the call can use."""

    agent: str
    turn: int
    attempt: int
    need: Need


@final
class BudgetGiven(Message, frozen=True):
    """The one answer to a `RequestBudget`. `cancelled`: its agent was stopped while it waited.

    spans: of a call that is `given`, the scopes in which it is reserved, each with its period; none where a
    fork reuses the answer of the model.
    scope, period, unit, limit, spent: of a call that is `refused`, the first scope that is too small. Its
    limit and the amount spent are in `unit`. elsewhere: the amount reserved there by sessions that no
    process runs, which counts as spent. sessions: the ids of those, up to twelve.
    """

    agent: str
    turn: int
    attempt: int
    status: Literal["given", "refused", "cancelled"]
    spans: Spans = ()
    scope: str = ""
    period: str = ""
    unit: Literal["", "tokens", "micro_usd"] = ""
    limit: int = 0
    spent: int = 0
    elsewhere: int = 0
    sessions: tuple[str, ...] = ()


@final
class SettleBudget(Message, frozen=True):
    """The charge of a reserved call that no message of its agent settles; 0 if not made. It has no answer."""

    agent: str
    turn: int
    attempt: int
    tokens: int = 0
    micro_usd: int = 0


@final
class CheckSchema(RichMessage, frozen=True):
    """A question: is this schema accepted (`accept`), or does the value match it?

    task: `report` for the value of a report, `input` for that of a call.
    output_type: the name of the Python type whose validators the value has to pass too, empty for none.
    """

    check: int
    task: Literal["accept", "report", "input"]
    schema: Json
    value: Json = NULL
    timeout_ms: int = 5_000
    output_type: str = ""


@final
class SchemaChecked(Message, frozen=True):
    """The one answer to a check. `failed`: the check could not be made."""

    check: int
    status: Literal["ok", "invalid", "failed"]
    problems: tuple[SchemaProblem, ...] = ()


@final
class MakeContext(RichMessage, frozen=True):
    """A question: what context do agents of this profile get before the prompt of this delegation?

    parent, delegation: the agent that delegates, and the ordinal of its delegation's first agent. request:
    the seq of the `Delegate`; the parent's state as of that event is the material.
    """

    parent: str
    delegation: int
    profile: str
    request: int
    timeout_ms: int = 5_000


@final
class ContextMade(RichMessage, frozen=True):
    """The one answer to a `MakeContext`.

    content: a text or a list of content blocks, null for none. detail: the reason why it is `failed`.
    history, makers: the messages that stand before the content, and who made those of models.
    repairs: the changes that made them whole, in words; no agent reads them.
    """

    parent: str
    delegation: int
    profile: str
    status: Literal["ok", "failed"] = "ok"
    content: Json = NULL
    detail: str = ""
    history: tuple[Json, ...] = ()
    makers: Makers = ()
    repairs: tuple[str, ...] = ()


@final
class SetTimer(Message, frozen=True):
    """An order to fire once: `after_ms` after this event, or at `until`, in milliseconds since 1970 UTC."""

    timer: int
    after_ms: int = 0
    until: int | None = None


@final
class ExtendTimer(Message, frozen=True):
    """An order to fire a timer this much later."""

    timer: int
    by_ms: int


@final
class CancelTimer(Message, frozen=True):
    """An order not to fire a timer."""

    timer: int


@final
class TimerFired(Message, frozen=True):
    """The time of a timer is over."""

    timer: int


PortInput: TypeAlias = (
    CallModel
    | RunStep
    | CallTool
    | RequestApproval
    | CancelCall
    | RequestCapacity
    | RequestBudget
    | SettleBudget
    | CheckSchema
    | MakeContext
    | SetTimer
    | ExtendTimer
    | CancelTimer
)
