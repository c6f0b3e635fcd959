"""The events of a list that a person has to see, and those that tell nothing by themselves."""

from collections.abc import Sequence
from typing import Final

from callboard.actors.protocol.client_messages import (
    Cancel,
    Forked,
    Resumed,
    RevokePermission,
    Tell,
    TellEnded,
    ToolsChanged,
)
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    CancelTask,
    DeciderFailed,
    DelegationEnded,
    Finished,
    ReportJudged,
    Stop,
    Told,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CallModel,
    CancelTimer,
    CapacityGiven,
    CheckSchema,
    ContextMade,
    ExtendTimer,
    MakeContext,
    ModelReplied,
    RequestBudget,
    RequestCapacity,
    SchemaChecked,
    SetTimer,
    SettleBudget,
    TimerFired,
    ToolReturned,
    ToolStarted,
)

_BOOKKEEPING: Final = (
    *(RequestBudget, BudgetGiven, SettleBudget),
    *(CallModel, RequestCapacity, CapacityGiven, TurnRequested, TurnSettled, CheckSchema, SchemaChecked),
    *(SetTimer, ExtendTimer, CancelTimer, ToolStarted, MakeContext),
)
_OUTSIDE: Final = (
    *(Tell, Told, TellEnded, Cancel, CancelTask, ToolsChanged, RevokePermission, Resumed, Forked),
    *(TimerFired, DeciderFailed),
)


def is_failure(event: Event) -> bool:
    """Return whether an event tells of a failure, or of a refusal."""
    match event.body:
        case ModelReplied(status=status) | ToolReturned(status=status):
            return status not in ("ok", "detached")
        case DelegationEnded(kind=kind) | Finished(kind=kind) | Stop(reason=kind):
            return STATUS[kind] == "failed"
        case ReportJudged(verdict=verdict) | ApprovalGiven(verdict=verdict):
            return verdict not in ("accepted", "approved")
        case SchemaChecked(status=status) | ContextMade(status=status):
            return status != "ok"
        case _:
            return False


def matters(event: Event) -> bool:
    """Return whether an event stays in every list: failures, retries, other models, inputs from outside."""
    match event.body:
        case TurnRequested(attempt=attempt, model=model):
            return attempt > 1 or bool(model)
        case ModelReplied(model=model) if model:
            return True
        case ApprovalGiven(arguments=arguments) if arguments != NULL:
            return True
        case _:
            return isinstance(event.body, _OUTSIDE) or is_failure(event)


def is_bookkeeping(event: Event) -> bool:
    """Return whether an event only says that something was asked for, granted, settled or checked."""
    return isinstance(event.body, _BOOKKEEPING) and not matters(event)


def essential(events: Sequence[Event], most: int) -> list[Event]:
    """Return the events to show of a list that is longer than `most`: bookkeeping is left out first.

    The first and the last event stay, and so does each event that matters, also beyond `most`.
    """
    if len(events) <= most:
        return list(events)
    kept = [one for one in events if one in (events[0], events[-1]) or not is_bookkeeping(one)]
    if len(kept) <= most:
        return kept
    room = max(0, most - sum(map(matters, kept)))
    plain = [one.seq for one in kept if not matters(one)]
    ends = {*plain[: -(-room // 2)], *plain[len(plain) - room // 2 :], events[0].seq, events[-1].seq}
    return [one for one in kept if matters(one) or one.seq in ends]
