"""The port requests of a session that have no answer, and the rules that recorded inputs must keep.

The events of ports and clients are not computed, so they are held to the protocol instead of compared.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Final, TypeAlias

from callboard.actors.protocol.addresses import CLIENT, CLOCK, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Forked, Resumed, RevokePermission, SessionOpened
from callboard.actors.protocol.events import Event, Takers
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    DeciderFailed,
    Finished,
    Stop,
    Stopped,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    CancelTimer,
    RequestApproval,
    SetTimer,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.uses import refusal_among
from callboard.actors.protocol.wishes import first_turn
from callboard.actors.session.permissions import Permissions
from callboard.actors.session.port_table import PORT_REQUESTS, owner_of, recipient_of_answer, requests_for
from callboard.actors.session.shared_state import NO_STATE

ANSWERS: Final[dict[type, tuple[str, frozenset[type], tuple[str, ...]]]] = {
    **{row.answer: (row.port, requests_for(row.answer), row.repeats) for row in PORT_REQUESTS.values()},
    ToolStarted: (TOOLS, frozenset({CallTool}), ("turn", "call")),
    TimerFired: (CLOCK, frozenset({SetTimer}), ("timer",)),
}
"""Kind of an answer -> the port that posts it, the kinds of its requests, the fields that it repeats."""

_Getter: TypeAlias = Callable[[object], object]

_REPEATED: Final[dict[type, _Getter]] = {
    **{kind: attrgetter(*names) for kind, (_, _, names) in ANSWERS.items()},
    **{kind: attrgetter(*row.repeats) for kind, row in PORT_REQUESTS.items()},
}
"""Kind of a request or an answer -> a function that gives the values that both carry."""


class OpenRequests:
    """The requests without an answer at one point of the log. Holds no more than is in flight there."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Event, object]] = {}
        self._timers: dict[int, int] = {}
        self._turns: dict[str, Event] = {}
        self._failed = ("", 0)
        self._permissions = Permissions()
        self._shared = NO_STATE
        self._rights: dict[str, Layers] = {}  # of the agents that are bounded

    def take(self, event: Event) -> None:
        """Add the next event."""
        body = event.body
        if take := _TAKES.get(type(body)):
            take(self, event, body)

    def broken_rule(self, event: Event) -> str:
        """Return the rule that an event of a port or a client breaks, or nothing."""
        if event.sender == CLIENT:
            is_good = event.cause == 0 and event.recipient == SUPERVISOR
            return "" if is_good else "the client speaks to the supervisor"
        row = ANSWERS.get(type(event.body))
        if row is None or row[0] != event.sender:
            return f"{event.sender} does not post {event.kind}"
        return self._broken_by_answer(event, row[1], row[2])

    def _broken_by_answer(self, answer: Event, kinds: frozenset[type], names: tuple[str, ...]) -> str:
        request, repeated = self._open.get(answer.cause, (None, ()))
        if request is None or type(request.body) not in kinds:
            return "an answer needs a request that has no answer yet"
        body = answer.body
        if _REPEATED[type(body)](body) != repeated:
            return f"an answer repeats {' and '.join(names)} of its request"
        if type(body) is ToolReturned:
            if rule := self._broken_by_result(request, body):
                return rule
        elif type(body) is ApprovalGiven and not self._is_permitted(request, body):
            return "an approval by permission names one that holds for this call"
        wanted = recipient_of_answer(request)
        return "" if answer.recipient == wanted else f"this answer is for {wanted}"

    def _broken_by_result(self, request: Event, returned: ToolReturned) -> str:
        """Return the rule that the result of a tool breaks, or nothing. request: its call."""
        if returned.state_update and self._shared.why_refused(returned.state_update):
            return "a tool updates keys that the session declares, with values of their types"
        call = request.body
        if not returned.uses or returned.reused or not isinstance(call, CallTool):
            return ""  # a fork does not use again what the tools of its origin have used
        refusal = refusal_among(self._rights.get(request.sender, ()), returned.uses, call.labels)
        return f"a tool uses what its agent may use: {refusal}" if refusal else ""

    def _is_permitted(self, request: Event, given: ApprovalGiven) -> bool:
        """Return whether a permission that an approval names covers its call."""
        asked = request.body
        if not isinstance(asked, RequestApproval):
            return True
        held = self._permissions.covering(asked)
        return not given.permission or (held is not None and held.seq == given.permission)

    def _request(self, event: Event, body: AnyMessage) -> None:
        """Keep a request with the values that its answer carries again."""
        row, source = PORT_REQUESTS[type(body)], event
        if type(body) is CallModel and (first := first_turn(body)) is not None:
            self._open[event.seq] = event, _REPEATED[type(body)](first)
            return
        if row.through:  # they are those of the agent's last `TurnRequested`, which the request points to
            source = self._turns.pop(owner_of(event), event)
            if source.seq != getattr(body, row.through):
                self._open[event.seq] = event, ()
                return
        self._open[event.seq] = event, _REPEATED[type(body)](source.body)

    def _timer(self, event: Event, body: SetTimer) -> None:
        self._open[event.seq] = event, body.timer
        self._timers[body.timer] = event.seq

    def _timer_ended(self, event: Event, body: TimerFired | CancelTimer) -> None:
        self._open.pop(self._timers.pop(body.timer, 0), None)

    def _answered(self, event: Event, body: AnyMessage) -> None:
        self._open.pop(event.cause, None)

    def _returned(self, event: Event, body: ToolReturned) -> None:
        self._open.pop(event.cause, None)
        if body.state_update:
            self._shared = self._shared.after(event)

    def _begun(self, event: Event, body: Begin) -> None:
        if body.permissions:
            self._rights[event.recipient] = body.permissions
        else:
            self._rights.pop(event.recipient, None)

    def _declare(self, event: Event, body: AnyMessage) -> None:
        self._shared = self._shared.after(event)

    def _approved(self, event: Event, body: ApprovalGiven) -> None:
        request, _ = self._open.pop(event.cause, (None, ()))
        if request is not None and isinstance(request.body, RequestApproval):
            self._permissions.give(request.body, event)

    def _decider_failed(self, event: Event, body: DeciderFailed) -> None:
        self._failed = event.sender, event.cause

    def _stop(self, event: Event, body: Stop) -> None:
        self._turns.pop(event.recipient, None)  # one that was still waiting is never granted

    def _turn_ended(self, event: Event, body: Finished | Stopped) -> None:
        # An agent that drains because its decider failed may still be granted a turn, before its `Stop`.
        if self._failed != (event.sender, event.cause):
            self._turns.pop(event.sender, None)


_TAKES: Final[Takers[OpenRequests, object]] = {
    **dict.fromkeys(PORT_REQUESTS, OpenRequests._request),
    **dict.fromkeys((row.answer for row in PORT_REQUESTS.values()), OpenRequests._answered),
    ToolReturned: OpenRequests._returned,
    **dict.fromkeys((SessionOpened, Resumed, Forked), OpenRequests._declare),
    ApprovalGiven: OpenRequests._approved,
    RevokePermission: lambda requests, event, body: requests._permissions.revoke(body.permission),
    **dict.fromkeys((TimerFired, CancelTimer), OpenRequests._timer_ended),
    Stop: OpenRequests._stop,
    DeciderFailed: OpenRequests._decider_failed,
    **dict.fromkeys((Finished, Stopped), OpenRequests._turn_ended),
    SetTimer: OpenRequests._timer,
    Begin: OpenRequests._begun,
    TurnRequested: lambda requests, event, body: requests._turns.update({event.sender: event}),
}
