"""The gate between the log and the ports: decides when a port may act, without any I/O of its own.

Every posted event passes the gate, in the order of the log. The gate knows which port requests have no
answer and which agents are stopped, and returns actions:

    Start         the port may act on this request (once the log is durable up to it, if `waits`)
    Refuse        no port acts; this answer is posted in the port's name
    Abort         the work for this request is no longer wanted; the port still answers, once
    Arm, Disarm   a timer (armed again, it fires at the later moment only)

Rules
  - Once a `Stop` for an agent is posted, nothing starts for that agent. `Begin` is a new life.
  - Each request is answered exactly once. The gate lets no second answer in.
  - `read` tools and model calls do not wait for the disk. Other tools do, and approvals before they are
    shown. With strict spending model calls wait too, so that after a crash the log knows of every call that
    may have cost something.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import (
    Begin,
    CallModel,
    CallTool,
    CancelTimer,
    ExtendTimer,
    SetTimer,
    Stop,
    Stopped,
    TimerFired,
    ToolReturned,
    TurnRequested,
)
from callboard.actors.session.port_table import PORT_REQUESTS, Repeated, interrupted, owner_of


class Start(msgspec.Struct, frozen=True, gc=False):
    """The port may act. waits: only when everything up to and including the request is durable.

    announcement: is posted in the port's name first; then the log must be durable up to it.
    """

    request: Event
    waits: bool = False
    announcement: Post | None = None


class Refuse(NamedTuple):
    """The answer to a request that no port acts on."""

    request: Event
    sender: str
    answer: Post


class Abort(NamedTuple):
    """The work for this request is no longer wanted."""

    request: Event


class Arm(NamedTuple):
    """A timer is set: fire it `after_ms` after `at`. request: the seq of its `SetTimer`."""

    timer: int
    at: int
    after_ms: int
    request: int


class Disarm(NamedTuple):
    """A timer need not fire."""

    timer: int


Action: TypeAlias = Start | Refuse | Abort | Arm | Disarm


class PortGate:
    """The port requests of one session that have no answer, its timers, and the agents that are stopped.

    open: the requests without an answer, by seq. timers: those that are set, by number.
    is_strict: True if model calls wait for the disk.
    """

    def __init__(self, is_strict: bool = False) -> None:
        self.open: dict[int, Event] = {}
        self.timers: dict[int, Arm] = {}
        self._is_strict = is_strict
        self._of: dict[str, tuple[int, ...]] = {}  # a set takes four times as much, and one is usual
        self._stopped: set[str] = set()
        self._wanted: dict[str, Event] = {}
        self._wishes: dict[int, TurnRequested] = {}
        self._answered: set[int] = set()
        self._repeated: set[int] = set()
        self._interrupted: set[tuple[str, int, int]] = set()

    def repeated_in(self, request: Event) -> Repeated:
        """Return the values that the answer to an open request carries again.

        Raises KeyError for a grant that has its answer.
        """
        row = PORT_REQUESTS[type(request.body)]
        source = self._wishes[request.seq] if row.through else request.body
        return tuple(getattr(source, field) for field in row.repeats)

    def wish_of(self, request: Event) -> TurnRequested:
        """Return what an agent asked for with the turn that an open `CallModel` grants.

        Raises KeyError for a call that has its answer.
        """
        return self._wishes[request.seq]

    def cancelled(self, request: Event) -> Post:
        """Return the answer to an open request that certainly did not start.

        Raises TypeError for a request that the supervisor makes for itself.
        """
        build = PORT_REQUESTS[type(request.body)].cancelled
        if build is None:
            raise TypeError(f"a {request.kind} is never cancelled: the supervisor is not stopped")
        return build(request, self.repeated_in(request))

    def on_events(self, events: Iterable[Event]) -> list[Action]:
        """Take in events that are posted, in their order, and return what is to be done now."""
        actions: list[Action] = []
        for event in events:
            handler = _HANDLERS.get(type(event.body))
            if handler is not None:
                handler(self, event, actions)
        return actions

    def may_answer(self, request: int) -> bool:
        """Return True if a request has no answer yet, so that one may be posted."""
        return request in self.open and request not in self._answered

    def take_answer(self, request: Event, answer: Post) -> Post | None:
        """Return a port's answer as it may be posted, or None if the request has one already.

        An answer that is taken counts from now on, although its event passes the gate later.
        """
        if not self.may_answer(request.seq):
            return None
        self._answered.add(request.seq)
        return self.without_false_claim(request, answer)

    def may_start(self, request: Event) -> bool:
        """Return True if a port may still act: the request has no answer and its agent is not stopped."""
        return self.may_answer(request.seq) and (not self._stopped or owner_of(request) not in self._stopped)

    def is_stopped(self, agent: str) -> bool:
        """Return True if an agent was told to stop and has not drained."""
        return agent in self._stopped

    def repeat(self, request: Event) -> Start:
        """Return how to start a request again that an earlier process may already have started."""
        if isinstance(request.body, CallTool) and request.body.effect == "idempotent":
            self._repeated.add(request.seq)
        return self.start_of(request)

    def without_false_claim(self, request: Event, answer: Post) -> Post:
        """Return a port's answer, as `interrupted` where `cancelled` claims more than the port can know.

        A port sees only its own process. Where an earlier one may have started the call, "it certainly did
        not start" is a guess.
        """
        if request.seq not in self._repeated:
            return answer
        body = answer.body
        is_claim = isinstance(body, ToolReturned) and body.status == "cancelled"
        return interrupted(request, self.repeated_in(request)) if is_claim else answer

    def start_of(self, request: Event) -> Start:
        """Return how to start a request."""
        row = PORT_REQUESTS[type(request.body)]
        announcement = row.announces(request)
        waits = row.waits(request) or (self._is_strict and type(request.body) is CallModel)
        return Start(request, waits, announcement)

    def _request(self, event: Event, actions: list[Action]) -> None:
        body, seq = event.body, event.seq
        owner = owner_of(event)
        self.open[seq] = event
        if PORT_REQUESTS[type(body)].through:
            self._grant(event)
        if self._interrupted and type(body) is CallTool and self._was_interrupted(owner, body):
            self._repeated.add(seq)
        if owner in self._stopped:
            actions.append(
                Refuse(event, event.recipient, self.without_false_claim(event, self.cancelled(event)))
            )
            return
        if owner != SUPERVISOR:
            self._of[owner] = (*self._of.get(owner, ()), seq)
        actions.append(self.start_of(event))

    def _grant(self, request: Event) -> None:
        wanted = self._wanted.pop(owner_of(request), None)
        seq = getattr(request.body, PORT_REQUESTS[type(request.body)].through)
        if wanted is None or wanted.seq != seq or not isinstance(wanted.body, TurnRequested):
            raise Diverged(f"event {request.seq} grants a turn that its agent did not request")
        self._wishes[request.seq] = wanted.body

    def _want(self, event: Event, actions: list[Action]) -> None:
        self._wanted[event.sender] = event

    def _was_interrupted(self, owner: str, call: CallTool) -> bool:
        return (owner, call.turn, call.call) in self._interrupted

    def _answer(self, event: Event, actions: list[Action]) -> None:
        self._answered.discard(event.cause)
        request = self.open.pop(event.cause, None)
        self._wishes.pop(event.cause, None)
        if request is not None and (seqs := self._of.get(owner := owner_of(request))) is not None:
            if len(seqs) == 1:
                del self._of[owner]
            else:
                self._of[owner] = tuple(seq for seq in seqs if seq != request.seq)
        body = event.body
        if type(body) is ToolReturned and body.status == "interrupted":
            self._interrupted.add((event.recipient, body.turn, body.call))

    def _stop(self, event: Event, actions: list[Action]) -> None:
        self._stopped.add(event.recipient)
        actions += [Abort(self.open[seq]) for seq in self._of.get(event.recipient, ())]

    def _begin(self, event: Event, actions: list[Action]) -> None:
        self._stopped.discard(event.recipient)

    def _drained(self, event: Event, actions: list[Action]) -> None:
        self._stopped.discard(event.sender)

    def _arm(self, event: Event, actions: list[Action]) -> None:
        body = event.body
        assert isinstance(body, SetTimer)
        arm = self.timers[body.timer] = Arm(body.timer, event.at, body.after_ms, event.seq)
        actions.append(arm)

    def _extend(self, event: Event, actions: list[Action]) -> None:
        body = event.body
        assert isinstance(body, ExtendTimer)
        arm = self.timers.get(body.timer)
        if arm is not None:
            arm = self.timers[body.timer] = arm._replace(after_ms=arm.after_ms + body.by_ms)
            actions.append(arm)

    def _disarm(self, event: Event, actions: list[Action]) -> None:
        body = event.body
        assert isinstance(body, CancelTimer | TimerFired)
        self.timers.pop(body.timer, None)
        actions.append(Disarm(body.timer))


_HANDLERS = {
    **dict.fromkeys(PORT_REQUESTS, PortGate._request),
    **{row.answer: PortGate._answer for row in PORT_REQUESTS.values()},
    TurnRequested: PortGate._want,
    Stop: PortGate._stop,
    Begin: PortGate._begin,
    Stopped: PortGate._drained,
    SetTimer: PortGate._arm,
    ExtendTimer: PortGate._extend,
    CancelTimer: PortGate._disarm,
    TimerFired: PortGate._disarm,
}
"""The kinds of messages that the gate looks at. All others pass it without an action."""
