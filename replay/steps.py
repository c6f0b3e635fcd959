"""A recording, event by event: the decision that an event was part of, its outputs, its recipient's state.

The events of a list that a person has to see, and those that tell nothing by themselves.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CancelTimer,
    ModelReplied,
    SetTimer,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.session.step import ActorState
from callboard.replay.descriptions import DESCRIPTIONS, fails
from callboard.replay.open_requests import ANSWERS
from callboard.replay.states import States


class Step(NamedTuple):
    """One event in its place.

    decision: all events that were posted with it; empty if no actor posted it. outputs: the events that
    answer it. state: its recipient's after it; None if that is not an actor.
    """

    event: Event
    decision: tuple[Event, ...]
    outputs: tuple[Event, ...]
    state: ActorState | None


class Steps:
    """The steps of a session. events: from seq 1, without gaps."""

    def __init__(self, events: Sequence[Event], states: States) -> None:
        self._events = events
        self._states = states

    def __len__(self) -> int:
        return len(self._events)

    def at(self, seq: int) -> Step:
        """Return the step of event `seq`. Raises IndexError if the log has no such event."""
        if not 1 <= seq <= len(self):
            raise IndexError(f"there are events 1 to {len(self)}, not {seq}")
        event = self._events[seq - 1]
        is_output = event.cause and is_decider(event.sender)
        state = self._states.state(seq, event.recipient) if is_decider(event.recipient) else None
        return Step(event, self._decision(event) if is_output else (), tuple(self._outputs(event)), state)

    def _decision(self, event: Event) -> tuple[Event, ...]:
        """Return the outputs of the decision that posted this event: they have consecutive seqs."""
        found = [event]
        while found[0].seq > 1 and _is_together(before := self._events[found[0].seq - 2], event):
            found.insert(0, before)
        while found[-1].seq < len(self) and _is_together(after := self._events[found[-1].seq], event):
            found.append(after)
        return tuple(found)

    def _outputs(self, event: Event) -> Iterator[Event]:
        """Yield the events that answer this one, reading on only as long as one can still come."""
        if not is_decider(event.recipient) and type(event.body) not in _REQUESTS:
            return
        is_decided = False
        for later in map(self._events.__getitem__, range(event.seq, len(self))):
            if later.cause == event.seq:
                yield later
                is_decided = is_decider(later.sender) or type(later.body) is not ToolStarted
            elif is_decided or _passes_over(event, later):
                return


_REQUESTS: Final = frozenset(request for _, requests, _ in ANSWERS.values() for request in requests)


def _is_together(one: Event, other: Event) -> bool:
    return (one.sender, one.cause) == (other.sender, other.cause)


def _passes_over(event: Event, later: Event) -> bool:
    """Return whether no answer to `event` can follow `later`."""
    # An actor handles its inbox in order; a timer that was cancelled does not fire.
    if is_decider(event.recipient):
        return later.sender == event.recipient and later.cause > event.seq
    cancelled = later.body.timer if type(later.body) is CancelTimer else 0
    return type(event.body) is SetTimer and cancelled == event.body.timer


def is_failure(event: Event) -> bool:
    """Return True if an event tells of a failure, or of a refusal."""
    return fails(event.body)


def matters(event: Event) -> bool:
    """Return True if an event stays in every list: failures, retries, other models, inputs from outside."""
    match event.body:
        case TurnRequested(attempt=attempt, model=model):
            return attempt > 1 or bool(model)
        case RunStep(attempt=attempt):
            return attempt > 1
        case ModelReplied(model=model) if model:
            return True
        case ApprovalGiven(arguments=arguments) if arguments != NULL:
            return True
        case body:
            return DESCRIPTIONS[type(body)].weight == "outside" or fails(body)


def is_bookkeeping(event: Event) -> bool:
    """Return True if an event only says that something was asked for, granted, settled or checked."""
    return DESCRIPTIONS[type(event.body)].weight == "bookkeeping" and not matters(event)


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
