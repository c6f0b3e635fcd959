"""The port requests of a session that have no answer, and the rules that recorded inputs must keep.

What ports and clients posted is not computed, so it cannot be compared. It is held to the protocol instead:
an answer needs a request that has none, repeats the request's numbers, and goes to the actor that asked.
"""

from typing import Final

from callboard.actors.protocol.addresses import CLIENT, CLOCK, SUPERVISOR, TOOLS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    CallTool,
    CancelTimer,
    Finished,
    SetTimer,
    Stopped,
    TimerFired,
    ToolStarted,
    TurnRequested,
)
from callboard.actors.session.port_table import PORT_REQUESTS, owner_of

ANSWERS: Final[dict[type, tuple[str, type, tuple[str, ...]]]] = {
    **{row.answer: (row.port, request, row.repeats) for request, row in PORT_REQUESTS.items()},
    ToolStarted: (TOOLS, CallTool, ("turn", "call")),
    TimerFired: (CLOCK, SetTimer, ("timer",)),
}
"""Kind of an answer -> the port that posts it, the kind of its request, the fields that it repeats."""

_REQUESTS: Final = frozenset({*PORT_REQUESTS, SetTimer})


class OpenRequests:
    """The requests without an answer at one point of the log. Holds no more than is in flight there."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Event, tuple[object, ...]]] = {}
        self._timers: dict[int, int] = {}
        self._turns: dict[str, Event] = {}

    def take(self, event: Event) -> None:
        """Take the next event in."""
        body = event.body
        kind = type(body)
        if kind in _REQUESTS:
            self._open[event.seq] = event, self._repeated_by(event)
            if type(body) is SetTimer:
                self._timers[body.timer] = event.seq
        elif kind in ANSWERS and kind is not ToolStarted:
            self._open.pop(event.cause, None)
            if type(body) is TimerFired:
                self._timers.pop(body.timer, None)
        elif type(body) is CancelTimer:
            self._open.pop(self._timers.pop(body.timer, 0), None)
        elif kind is TurnRequested:
            self._turns[event.sender] = event
        elif kind is Finished or kind is Stopped:  # a turn that was still waiting is never granted
            self._turns.pop(event.sender, None)

    def broken_rule(self, event: Event) -> str:
        """Return the rule that an event of a port or a client breaks, or nothing."""
        if event.sender == CLIENT:
            is_good = event.cause == 0 and event.recipient == SUPERVISOR
            return "" if is_good else "the client speaks to the supervisor"
        answer = ANSWERS.get(type(event.body))
        if answer is None or answer[0] != event.sender:
            return f"{event.sender} does not post {event.kind}"
        request, repeated = self._open.get(event.cause, (None, ()))
        if request is None or type(request.body) is not answer[1]:
            return "an answer needs a request that has no answer yet"
        if tuple(getattr(event.body, name) for name in answer[2]) != repeated:
            return f"an answer repeats {' and '.join(answer[2])} of its request"
        return "" if event.recipient == owner_of(request) else f"this answer is for {owner_of(request)}"

    def _repeated_by(self, request: Event) -> tuple[object, ...]:
        """Return the values that the answer to a request carries again.

        They are the request's own, or those of the agent's last `TurnRequested`, which the request points to.
        """
        if type(request.body) is SetTimer:
            return (request.body.timer,)
        row = PORT_REQUESTS[type(request.body)]
        source: object = request.body
        if row.through:
            turn = self._turns.pop(owner_of(request), None)
            if turn is None or turn.seq != getattr(request.body, row.through):
                return ()
            source = turn.body
        return tuple(getattr(source, name) for name in row.repeats)
