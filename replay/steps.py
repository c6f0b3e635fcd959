"""A recording, event by event: what each was part of, what it led to, and what its recipient then knew.

States are computed on the way forward and kept: they share all that did not change, so stepping back costs
nothing and a long session little.
"""

from collections.abc import Sequence
from typing import NamedTuple

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.session.step import ActorState
from callboard.replay.verify import Verifier


class Step(NamedTuple):
    """One event in its place.

    decision: the events that were posted together with it, itself included; empty for what ports and
    clients posted. outputs: what was posted in answer to it. state: its recipient's after it, as this code
    computes it; None where the recipient is no actor.
    """

    event: Event
    decision: tuple[Event, ...]
    outputs: tuple[Event, ...]
    state: ActorState | None


class Steps:
    """The steps of a session. events: from seq 1, without gaps. bodies: as they are stored, if at hand."""

    def __init__(self, events: Sequence[Event], bodies: Sequence[bytes] | None = None) -> None:
        self._events = events
        self._verifier = Verifier(events, bodies)
        self._states: list[ActorState | None] = []
        self._answers: dict[int, list[Event]] = {}
        for event in events:
            self._answers.setdefault(event.cause, []).append(event)

    def __len__(self) -> int:
        return len(self._events)

    def at(self, seq: int) -> Step:
        """The step of event `seq`. Raises IndexError for one that is not there."""
        if not 1 <= seq <= len(self._events):
            raise IndexError(f"there are events 1 to {len(self._events)}, not {seq}")
        while len(self._states) < seq:
            event = self._events[len(self._states)]
            self._verifier.advance(event)
            self._states.append(self._verifier.states.get(event.recipient))
        event = self._events[seq - 1]
        decision = self._verifier.outputs(event.cause) if event.cause and is_decider(event.sender) else ()
        answers = tuple(self._answers.get(seq, ()))
        return Step(event, tuple(decision), answers, self._states[seq - 1])
