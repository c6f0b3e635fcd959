"""What ports may do: the gate between the log and the world, without any I/O of its own.

Every posted event passes here, in the order of the log. The desk knows which port requests have no answer
and which agents are stopped, and says what is to be done now:

    Start    the port may act on this request (once the log is durable up to it, if `waits`)
    Refuse   nobody acts; this is the answer, to be posted in the port's name
    Abort    give up what is under way for this request; the port still answers, once
    Arm, Disarm   a timer

Rules
  - Once a `Stop` for an agent is posted, nothing starts for it: looking and starting are one step with
    posting. `Begin` is a new life.
  - Each request is answered exactly once. A second answer is not let in.
  - `read` tools and model calls do not wait for the disk; every other tool does.
"""

from typing import NamedTuple, TypeAlias

from callboard.actors.addresses import SUPERVISOR
from callboard.actors.conversation import text_json
from callboard.actors.events import Event, Post
from callboard.actors.messages import (
    Begin,
    CallModel,
    CallTool,
    CancelTimer,
    CheckSchema,
    ModelReplied,
    SchemaChecked,
    SetTimer,
    Stop,
    Stopped,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.usage import ZERO

NEVER_STARTED = text_json("Cancelled before it started.")


class Start(NamedTuple):
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
    return event.body.agent if isinstance(event.body, CallModel) else event.sender


def cancelled(request: Event) -> Post:
    """The answer to a request that certainly did not start."""
    body = request.body
    if isinstance(body, CallModel):
        return Post(body.agent, ModelReplied(body.turn, body.attempt, "cancelled", usage=ZERO))
    assert isinstance(body, CallTool)
    return Post(request.sender, ToolReturned(body.turn, body.call, "cancelled", NEVER_STARTED))


def _start_of(event: Event) -> Start:
    body = event.body
    if not isinstance(body, CallTool) or body.effect == "read":
        return Start(event)
    if body.effect == "idempotent":
        return Start(event, waits=True)
    return Start(event, waits=True, announcement=Post(event.sender, ToolStarted(body.turn, body.call)))


class Desk:
    """The port requests of one session that have no answer, and the agents that are stopped."""

    def __init__(self) -> None:
        self.open: dict[int, Event] = {}
        self._of: dict[str, set[int]] = {}
        self._stopped: set[str] = set()

    def posted(self, event: Event) -> tuple[Action, ...]:
        """What is to be done now that this event is posted."""
        handler = _HANDLERS.get(type(event.body))
        return handler(self, event) if handler else ()

    def may_answer(self, request: int) -> bool:
        """Whether a request has no answer yet, so that one may be posted."""
        return request in self.open

    def _request(self, event: Event) -> tuple[Action, ...]:
        owner = owner_of(event)
        self.open[event.seq] = event
        if owner in self._stopped:
            sender = event.recipient
            return (Refuse(event, sender, cancelled(event)),)
        if owner != SUPERVISOR:
            self._of.setdefault(owner, set()).add(event.seq)
        return (_start_of(event),)

    def _answer(self, event: Event) -> tuple[Action, ...]:
        request = self.open.pop(event.cause, None)
        if request is not None and (seqs := self._of.get(owner_of(request))) is not None:
            seqs.discard(request.seq)
            if not seqs:
                del self._of[owner_of(request)]
        return ()

    def _stop(self, event: Event) -> tuple[Action, ...]:
        self._stopped.add(event.recipient)
        return tuple(Abort(self.open[seq]) for seq in sorted(self._of.get(event.recipient, ())))

    def _begin(self, event: Event) -> tuple[Action, ...]:
        self._stopped.discard(event.recipient)
        return ()

    def _drained(self, event: Event) -> tuple[Action, ...]:
        self._stopped.discard(event.sender)
        return ()

    def _arm(self, event: Event) -> tuple[Action, ...]:
        body = event.body
        assert isinstance(body, SetTimer)
        return (Arm(body.timer, event.at, body.after_ms, event.seq),)

    def _disarm(self, event: Event) -> tuple[Action, ...]:
        body = event.body
        assert isinstance(body, CancelTimer | TimerFired)
        return (Disarm(body.timer),)


_HANDLERS = {
    CallModel: Desk._request,
    CallTool: Desk._request,
    CheckSchema: Desk._request,
    ModelReplied: Desk._answer,
    ToolReturned: Desk._answer,
    SchemaChecked: Desk._answer,
    Stop: Desk._stop,
    Begin: Desk._begin,
    Stopped: Desk._drained,
    SetTimer: Desk._arm,
    CancelTimer: Desk._disarm,
    TimerFired: Desk._disarm,
}
