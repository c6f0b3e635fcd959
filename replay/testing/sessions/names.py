"""Names of moves and messages of a session, which are the same in every schedule.

Sequence numbers of events and the numbers of checks and timers depend on the order of everything; turns,
calls and addresses depend on what one actor did. So only those are in a name.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from callboard.actors.protocol.addresses import SUPERVISOR, is_agent
from callboard.actors.protocol.client_messages import Ask, Tell, TellEnded
from callboard.actors.protocol.compaction_messages import SummaryRefused
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    CancelTask,
    Delegate,
    Delegated,
    DelegationEnded,
    ReportBack,
    ReportJudged,
    Told,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CallModel,
    CallTool,
    CancelCall,
    CapacityGiven,
    CheckSchema,
    ContextMade,
    MakeContext,
    ModelReplied,
    RequestApproval,
    RequestBudget,
    RequestCapacity,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import owner_of
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.world import Move, MoveKind

_TURNS: Final = (TurnRequested, RunStep, ModelReplied)
_PLACES: Final = (RequestCapacity, CapacityGiven, RequestBudget, BudgetGiven)
_CALLS: Final = (
    CallTool, ToolStarted, ToolReturned, RequestApproval, ApprovalGiven, CancelCall,
    Delegate, Delegated, CancelTask, DelegationEnded, ReportBack, ReportJudged,
)  # fmt: skip
_NUMBERS: Final[Mapping[type, Callable[[Any], tuple[object, ...]]]] = {
    **dict.fromkeys(_CALLS, attrgetter("turn", "call")),
    **dict.fromkeys(_TURNS, attrgetter("turn", "attempt")),
    **dict.fromkeys((MakeContext, ContextMade), attrgetter("parent", "delegation", "profile")),
    **dict.fromkeys(_PLACES, attrgetter("agent", "turn", "attempt")),
    Ask: lambda ask: (ask.request_id,),
    **dict.fromkeys((Tell, TellEnded), lambda one: (one.request_id,)),
    Told: lambda told: (told.number,),
    SummaryRefused: lambda refused: (refused.turn,),
}
"""Returns the part that distinguishes messages of one kind between two actors; other kinds have none."""


def _number(body: AnyMessage) -> tuple[Any, ...]:
    number = _NUMBERS.get(type(body))
    return number(body) if number else ()


def turn_name(turn: int, attempt: int) -> str:
    """Name a model call of an agent: its turn, and the attempt unless it is the first."""
    return str(turn) if attempt == 1 else f"{turn} attempt {attempt}"


class Names:
    """Moves by name."""

    # Kept, because making a move takes longer than finding it.

    def __init__(self) -> None:
        self._deliveries: dict[tuple[object, ...], Move] = {}
        self._others: dict[str, Move] = {}

    def delivery(self, event: Event) -> Move:
        """Return the move by which an event is handled."""
        body = event.body
        key = (type(body), event.sender, event.recipient, _number(body))
        move = self._deliveries.get(key)
        if move is None:
            move = self._deliveries[key] = Move(
                f"inbox {event.recipient}", event.recipient, f"{event.recipient} handles {title(event)}"
            )
        return move

    def other(self, strand: str, actor: str, kind: MoveKind, label: str = "") -> Move:
        """Return any other move. Its actor, kind and label are those of the first call for its strand."""
        move = self._others.get(strand)
        if move is None:
            move = self._others[strand] = Move(strand, actor, label or strand, kind)
        return move


def _number_words(body: AnyMessage) -> Sequence[str]:
    """Return the numbers of a message as words, none if it has no number."""
    number = _number(body)
    if type(body) in _TURNS:
        return [turn_name(*number)]
    if type(body) in _PLACES:
        return [f"{number[0]}/{turn_name(*number[1:])}"]
    return [".".join(map(str, number))] if number else []


def title(event: Event) -> str:
    """Describe a message in a few words: `Delegate 1.0 of host`."""
    words = [event.kind, *_number_words(event.body)]
    if event.recipient == SUPERVISOR and is_agent(event.sender):
        words += ["of", event.sender]
    return " ".join(words)


def answer_name(
    request: Event, gate: PortGate, state: SupervisorState, log: Sequence[Event]
) -> tuple[str, str]:
    """Name the answer to a port request: its strand, such as `tool host.1/3.0`, and what the port does."""
    sender = request.sender
    match request.body:
        case CallModel() | RunStep():
            wish = gate.wish_of(request)
            return f"model {owner_of(request)}/{turn_name(wish.turn, wish.attempt)}", "answers"
        case CallTool(turn=turn, call=call):
            return f"tool {sender}/{turn}.{call}", "returns"
        case RequestApproval(turn=turn, call=call) as asked:
            again = " again" if asked.is_repeat else ""  # for a call that was interrupted
            again += f" round {asked.round}" if asked.round else ""  # for one that asks for input
            return f"approval {sender}/{turn}.{call}{again}", f"is given for {asked.tool}"
        case RequestCapacity(agent=agent, turn=turn, attempt=attempt):
            return f"capacity {agent}/{turn_name(turn, attempt)}", "gives a place"
        case RequestBudget(agent=agent, turn=turn, attempt=attempt):
            return f"budget {agent}/{turn_name(turn, attempt)}", "reserves the call"
        case MakeContext(parent=parent, delegation=number, profile=name):
            return f"context {parent}.{number}/{name}", "is made"
        case CheckSchema(check=number):
            return _check_strand(state, number, log), "answers"
        case _:
            return f"{request.recipient} {owner_of(request)}", "answers"


def timer_strand(state: SupervisorState, number: int) -> str:
    """Name a timer by its purpose."""
    timer = state.timers.get(number)
    if timer is None:
        return f"timer {number}"
    return f"timer {timer.purpose} {timer.address}".rstrip()


def _check_strand(state: SupervisorState, number: int, log: Sequence[Event]) -> str:
    # By its delegation: the checks of one delegation are asked one by one.
    check = state.checks.get(number)
    if check is None:
        return f"schema {number}"
    if is_agent(check.parent):
        return f"schema {check.parent}.{check.delegation}"
    asked = log[check.delegation - 1].body  # the client's delegations are named by the seq of their ask
    return f"schema {asked.request_id if isinstance(asked, Ask) else check.delegation}"
