"""What ports may do: the gate between the log and the world, without any I/O of its own.

Every posted event passes here, in the order of the log. The gate knows which port requests have no answer
and which agents are stopped, and says what is to be done now:

    Start    the port may act on this request (once the log is durable up to it, if `waits`)
    Refuse   nobody acts; this is the answer, to be posted in the port's name
    Abort    give up what is under way for this request; the port still answers, once
    Arm, Disarm   a timer (armed again, it fires at the later moment only)

Rules
  - Once a `Stop` for an agent is posted, nothing starts for it: looking and starting are one step with
    posting. `Begin` is a new life.
  - Each request is answered exactly once. A second answer is not let in.
  - `cancelled` claims that a call certainly did not start. Where an earlier process may have started one that
    is to be made again, its port cannot know that: such an answer becomes `interrupted`.
  - `read` tools and model calls do not wait for the disk; every other tool does, and so does what a person
    is shown. With strict spending
    model calls wait too, so that after a crash the log knows of every call that may have cost something.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import (
    ApprovalGiven,
    Begin,
    CallModel,
    CallTool,
    CancelTimer,
    CheckSchema,
    ExtendTimer,
    ModelReplied,
    RequestApproval,
    SchemaChecked,
    SetTimer,
    Stop,
    Stopped,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.usage import ZERO

NEVER_STARTED = text_json("Cancelled before it started.")
INTERRUPTED = text_json(
    "Interrupted: the program ended while this ran. Whether it took effect is not known; "
    "check before you repeat it."
)


class Start(msgspec.Struct, frozen=True, gc=False):
    """The port may act. waits: only when everything up to and including the request is durable.

    announcement: to be posted in the port's name first; then it is that which must be durable.
    """

    request: Event
    waits: bool = False
    announcement: Post | None = None


class Refuse(NamedTuple):
    """The answer to a request that nobody acts on."""

    request: Event
    sender: str
    answer: Post


class Abort(NamedTuple):
    """What is under way for this request is no longer wanted."""

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


def owner_of(event: Event) -> str:
    """For whom a port request is made."""
    body = event.body
    return body.agent if type(body) is CallModel else event.sender


def cancelled(request: Event) -> Post:
    """The answer to a request that certainly did not start."""
    body = request.body
    if isinstance(body, CallModel):
        return Post(body.agent, ModelReplied(body.turn, body.attempt, "cancelled", usage=ZERO))
    if isinstance(body, RequestApproval):
        given = ApprovalGiven(body.turn, body.call, "cancelled", is_repeat=body.is_repeat)
        return Post(request.sender, given)
    assert isinstance(body, CallTool)
    return Post(request.sender, ToolReturned(body.turn, body.call, "cancelled", NEVER_STARTED))


def interrupted(request: Event) -> Post:
    """The answer to a tool call that a crash cut off."""
    body = request.body
    assert isinstance(body, CallTool)
    return Post(request.sender, ToolReturned(body.turn, body.call, "interrupted", INTERRUPTED))


class PortGate:
    """The port requests of one session that have no answer, its timers, and the agents that are stopped.

    is_strict: whether model calls wait for the disk.
    """

    def __init__(self, is_strict: bool = False) -> None:
        self.open: dict[int, Event] = {}
        self.timers: dict[int, Arm] = {}
        self._is_strict = is_strict
        self._of: dict[str, set[int]] = {}
        self._stopped: set[str] = set()
        self._repeated: set[int] = set()
        self._interrupted: set[tuple[str, int, int]] = set()

    def on_events(self, events: Iterable[Event]) -> list[Action]:
        """What is to be done now that these events are posted, in their order."""
        actions: list[Action] = []
        for event in events:
            handler = _HANDLERS.get(type(event.body))
            if handler is not None:
                handler(self, event, actions)
        return actions

    def may_answer(self, request: int) -> bool:
        """Whether a request has no answer yet, so that one may be posted."""
        return request in self.open

    def may_start(self, request: Event) -> bool:
        """Whether a port may still act on a request: it has no answer, and its agent is not stopped."""
        return request.seq in self.open and (not self._stopped or owner_of(request) not in self._stopped)

    def is_stopped(self, agent: str) -> bool:
        """Whether an agent was told to stop and has not drained."""
        return agent in self._stopped

    def repeat(self, request: Event) -> Start:
        """How a request is to be started that an earlier process may have started before."""
        if isinstance(request.body, CallTool) and request.body.effect == "idempotent":
            self._repeated.add(request.seq)
        return self.start_of(request)

    def without_false_claim(self, request: Event, answer: Post) -> Post:
        """A port's answer, without the claim that a call did not start where nobody can know that."""
        if request.seq not in self._repeated:
            return answer
        body = answer.body
        is_claim = isinstance(body, ToolReturned) and body.status == "cancelled"
        return interrupted(request) if is_claim else answer

    def start_of(self, event: Event) -> Start:
        """How a request is to be started."""
        body = event.body
        if type(body) is CallModel:
            return Start(event, self._is_strict)
        if type(body) is RequestApproval:
            return Start(event, waits=True)
        if type(body) is not CallTool or body.effect == "read":
            return Start(event)
        if body.effect == "idempotent":
            return Start(event, waits=True)
        return Start(event, waits=True, announcement=Post(event.sender, ToolStarted(body.turn, body.call)))

    def _request(self, event: Event, actions: list[Action]) -> None:
        body, seq = event.body, event.seq
        owner = body.agent if type(body) is CallModel else event.sender
        self.open[seq] = event
        if self._interrupted and type(body) is CallTool and self._was_interrupted(owner, body):
            self._repeated.add(seq)
        if owner in self._stopped:
            actions.append(Refuse(event, event.recipient, self.without_false_claim(event, cancelled(event))))
            return
        if owner != SUPERVISOR:
            seqs = self._of.get(owner)
            if seqs is None:
                self._of[owner] = {seq}
            else:
                seqs.add(seq)
        actions.append(self.start_of(event))

    def _was_interrupted(self, owner: str, call: CallTool) -> bool:
        return (owner, call.turn, call.call) in self._interrupted

    def _answer(self, event: Event, actions: list[Action]) -> None:
        request = self.open.pop(event.cause, None)
        if request is not None and (seqs := self._of.get(owner := owner_of(request))) is not None:
            seqs.discard(request.seq)
            if not seqs:
                del self._of[owner]
        body = event.body
        if type(body) is ToolReturned and body.status == "interrupted":
            self._interrupted.add((event.recipient, body.turn, body.call))

    def _stop(self, event: Event, actions: list[Action]) -> None:
        self._stopped.add(event.recipient)
        actions += [Abort(self.open[seq]) for seq in sorted(self._of.get(event.recipient, ()))]

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
    CallModel: PortGate._request,
    CallTool: PortGate._request,
    CheckSchema: PortGate._request,
    RequestApproval: PortGate._request,
    ModelReplied: PortGate._answer,
    ToolReturned: PortGate._answer,
    SchemaChecked: PortGate._answer,
    ApprovalGiven: PortGate._answer,
    Stop: PortGate._stop,
    Begin: PortGate._begin,
    Stopped: PortGate._drained,
    SetTimer: PortGate._arm,
    ExtendTimer: PortGate._extend,
    CancelTimer: PortGate._disarm,
    TimerFired: PortGate._disarm,
}
