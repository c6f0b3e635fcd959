"""The table of port requests: one row for each kind, with its port, its answer and its answer after a crash.

The port gate, recovery, simulation and verification read this table. A new kind of request needs a message
and a row here.

Rules
  - A request is answered exactly once, by its port, with one kind of message.
  - `cancelled` claims that a call certainly did not start. A call that may have had an effect is
    `interrupted` instead.
  - A request of a stopped agent is answered without its port. Requests that the supervisor makes for itself
    (`CheckSchema`, `MakeContext`) have no such answer: the supervisor is never stopped.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from callboard.actors.protocol.addresses import (
    APPROVALS,
    BUDGETS,
    CAPACITY,
    CONTEXT,
    MODEL,
    SCHEMA,
    SUPERVISOR,
    TOOLS,
)
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CallModel,
    CallTool,
    CapacityGiven,
    CheckSchema,
    ContextMade,
    MakeContext,
    ModelReplied,
    RequestApproval,
    RequestBudget,
    RequestCapacity,
    SchemaChecked,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import ZERO

NEVER_STARTED: Final = text_json("Cancelled before it started.")
INTERRUPTED: Final = text_json(
    "Interrupted: the program ended while this ran. Whether it took effect is not known; "
    "check before you repeat it."
)

Repeated: TypeAlias = tuple[Any, ...]
"""The values that the answer to a request carries again (see `PortRequest.repeats`)."""

Answer: TypeAlias = Callable[[Event, Repeated], Post]
"""Builds the answer to a request, from the values that the answer carries again."""


class PortRequest(NamedTuple):
    """One kind of request to a port.

    port: the address that answers. answer: the message it answers with.
    repeats: the fields of the request that its answer carries again.
    through: the field with the seq of an earlier event that has those fields; empty if the request has them.
    owner: the field that names the agent the request is for; empty if that is the sender.
    answers_sender: True if the answer goes to the sender, although the request is for another.
    waits: tells of a request if the port may act only once the log is durable up to it; None: never.
    announces: builds a post that says that the port starts, or None. It must be durable before the port acts,
        so only a request that waits has one.
    cancelled: builds the answer to a request that certainly did not start.
    given_up: builds the answer to a request of a stopped agent that an earlier process may have started.
        The last argument is True if that process announced its start.
    after_crash: builds the answer to a request of a living agent that an earlier process left unanswered,
        or returns None if the port is asked again.
    detached: builds the answer to a request without one when a process ends politely; None if the request
        stays open, as after a crash.
    """

    port: str
    answer: type
    repeats: tuple[str, ...]
    owner: str = ""
    answers_sender: bool = False
    through: str = ""
    waits: Callable[[AnyMessage], bool] | None = None
    announces: Callable[[Event], Post | None] | None = None
    cancelled: Answer | None = None
    given_up: Callable[[Event, Repeated, bool], Post] | None = None
    after_crash: Callable[[Event, Repeated, bool], Post | None] = lambda request, repeated, has_started: None
    detached: Answer | None = None


def interrupted(request: Event, repeated: Repeated) -> Post:
    """Return the answer to a tool call that a crash cut off."""
    turn, call = repeated
    return Post(request.sender, ToolReturned(turn=turn, call=call, status="interrupted", output=INTERRUPTED))


# --- model calls ------------------------------------------------------------------


def _model_cancelled(request: Event, repeated: Repeated) -> Post:
    turn, attempt = repeated
    return Post(owner_of(request), ModelReplied(turn, attempt, "cancelled", usage=ZERO))


def _model_given_up(request: Event, repeated: Repeated, has_started: bool) -> Post:
    turn, attempt = repeated
    # Without `usage`: the call may have started, its use is unknown, and the reservation is charged.
    return Post(owner_of(request), ModelReplied(turn, attempt, "cancelled"))


def _model_lost(request: Event, repeated: Repeated, has_started: bool) -> Post:
    turn, attempt = repeated
    return Post(owner_of(request), ModelReplied(turn, attempt, "lost"))


def _model_detached(request: Event, repeated: Repeated) -> Post:
    turn, attempt = repeated
    return Post(owner_of(request), ModelReplied(turn, attempt, "detached", usage=ZERO))


# --- tools ------------------------------------------------------------------------


def _tool_waits(call: AnyMessage) -> bool:
    return isinstance(call, CallTool) and call.effect != "read"


def _tool_announces(request: Event) -> Post | None:
    body = request.body
    assert isinstance(body, CallTool)
    return Post(request.sender, ToolStarted(body.turn, body.call)) if body.effect == "write" else None


def _tool_cancelled(request: Event, repeated: Repeated) -> Post:
    turn, call = repeated
    return Post(request.sender, ToolReturned(turn=turn, call=call, status="cancelled", output=NEVER_STARTED))


def _tool_given_up(request: Event, repeated: Repeated, has_started: bool) -> Post:
    # An idempotent tool announces no start, so it may have acted wherever its request is in the log.
    is_idempotent = isinstance(request.body, CallTool) and request.body.effect == "idempotent"
    answer = interrupted if is_idempotent or has_started else _tool_cancelled
    return answer(request, repeated)


def _tool_after_crash(request: Event, repeated: Repeated, has_started: bool) -> Post | None:
    is_write = isinstance(request.body, CallTool) and request.body.effect == "write"
    return interrupted(request, repeated) if has_started and is_write else None


# --- approvals --------------------------------------------------------------------


def _approval_cancelled(request: Event, repeated: Repeated) -> Post:
    turn, call, is_repeat, number = repeated
    given = ApprovalGiven(turn, call, "cancelled", is_repeat=is_repeat, round=number)
    return Post(request.sender, given)


def _approval_given_up(request: Event, repeated: Repeated, has_started: bool) -> Post:
    return _approval_cancelled(request, repeated)


# --- capacity ---------------------------------------------------------------------


def _capacity_cancelled(request: Event, repeated: Repeated) -> Post:
    agent, turn, attempt = repeated
    return Post(SUPERVISOR, CapacityGiven(agent=agent, turn=turn, attempt=attempt, status="cancelled"))


def _capacity_given_up(request: Event, repeated: Repeated, has_started: bool) -> Post:
    return _capacity_cancelled(request, repeated)


# --- budgets above the session ------------------------------------------------------


def _budget_cancelled(request: Event, repeated: Repeated) -> Post:
    agent, turn, attempt = repeated
    return Post(SUPERVISOR, BudgetGiven(agent, turn, attempt, "cancelled"))


def _budget_given_up(request: Event, repeated: Repeated, has_started: bool) -> Post:
    return _budget_cancelled(request, repeated)


_CALL_MODEL: Final = PortRequest(
    MODEL,
    ModelReplied,
    repeats=("turn", "attempt"),
    owner="agent",
    through="request",
    cancelled=_model_cancelled,
    given_up=_model_given_up,
    after_crash=_model_lost,
    detached=_model_detached,
)

PORT_REQUESTS: Final[Mapping[type, PortRequest]] = {
    CallModel: _CALL_MODEL,
    RunStep: _CALL_MODEL._replace(owner="", through=""),
    CallTool: PortRequest(
        TOOLS,
        ToolReturned,
        repeats=("turn", "call"),
        waits=_tool_waits,
        announces=_tool_announces,
        cancelled=_tool_cancelled,
        given_up=_tool_given_up,
        after_crash=_tool_after_crash,
    ),
    RequestApproval: PortRequest(
        APPROVALS,
        ApprovalGiven,
        repeats=("turn", "call", "is_repeat", "round"),
        waits=lambda body: True,
        cancelled=_approval_cancelled,
        given_up=_approval_given_up,
    ),
    RequestCapacity: PortRequest(
        CAPACITY,
        CapacityGiven,
        repeats=("agent", "turn", "attempt"),
        owner="agent",
        answers_sender=True,
        cancelled=_capacity_cancelled,
        given_up=_capacity_given_up,
    ),
    RequestBudget: PortRequest(
        BUDGETS,
        BudgetGiven,
        repeats=("agent", "turn", "attempt"),
        owner="agent",
        answers_sender=True,
        cancelled=_budget_cancelled,
        given_up=_budget_given_up,
    ),
    CheckSchema: PortRequest(SCHEMA, SchemaChecked, repeats=("check",)),
    MakeContext: PortRequest(CONTEXT, ContextMade, repeats=("parent", "delegation", "profile")),
}
"""The kind of each request -> its row. Timers are not among them: the gate arms the clock by itself."""


def requests_for(answer: type) -> frozenset[type]:
    """Return the kinds of requests that this kind of message answers."""
    return frozenset(kind for kind, row in PORT_REQUESTS.items() if row.answer is answer)


def owner_of(request: Event) -> str:
    """Return the address of the agent that a port request is made for."""
    row = PORT_REQUESTS.get(type(request.body))
    return getattr(request.body, row.owner) if row is not None and row.owner else request.sender


def recipient_of_answer(request: Event) -> str:
    """Return the address to which the answer to a port request goes."""
    row = PORT_REQUESTS.get(type(request.body))
    if row is None or row.answers_sender or not row.owner:
        return request.sender
    owner: str = getattr(request.body, row.owner)
    return owner
