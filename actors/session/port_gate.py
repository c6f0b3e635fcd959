"""The port gate: it stands between the log and the ports and decides when a port may act. No I/O.

Every posted event passes the gate, in the order of the log. The gate keeps the port requests without an
answer, the timers that are set and the agents that are stopped. For each event it returns actions:

    Start         the port may act on this request (once the log is durable up to it, if `waits`)
    Refuse        no port acts; this answer is posted in the port's name
    Abort         the work for this request is no longer wanted; the port still answers, once
    Arm, Disarm   set a timer or forget it (a timer armed again fires at the later moment only)
    GiveBack      the agent's place among the calls of all sessions is free

A request opens with its event and closes with the event of its answer. Between the two, `take_answer` lets
exactly one answer in: the port's own, or the one that the gate or recovery posts in the port's name.

Rules
  - Once a `Stop` for an agent is posted, nothing starts for that agent, until it has drained or begins again.
    A request that is open at the `Stop` never starts after it.
  - Nothing starts for an agent that drained without a `Stop`, because its decider failed twice.
  - Each request is answered exactly once.
  - A request that its agent gave up is aborted like one of a stopped agent.
  - `cancelled` claims that a request certainly did not start. A call that an earlier process may have started
    is `interrupted` instead.
  - `read` tools and model calls do not wait for the disk. Other tools wait until their request is durable,
    and so do approvals, before a person sees them. With strict spending model calls wait too.
  - A tool is given the shared state as of its request, also when the request is made again.
  - A tool whose results may be given again is not started while `cached_result` has one.
  - A place of the capacity port belongs to this process. It is free when the call has its answer, or when its
    agent is stopped before the call.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import (
    Forked,
    Resumed,
    RevokePermission,
    SessionOpened,
    resumed_in,
)
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import Begin, Stop, Stopped, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    CancelCall,
    CancelTimer,
    CapacityGiven,
    ExtendTimer,
    ModelReplied,
    RequestApproval,
    SetTimer,
    TimerFired,
    ToolReturned,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.wishes import first_turn, turn_of
from callboard.actors.session.cached_results import CachedResult, CachedResults, has_effect
from callboard.actors.session.file_history import FileHistory
from callboard.actors.session.file_labels import FileLabels
from callboard.actors.session.open_request import OpenRequest, may_have_acted
from callboard.actors.session.permissions import Permissions
from callboard.actors.session.port_actions import Abort, Action, Arm, Disarm, GiveBack, Refuse, Start
from callboard.actors.session.port_table import PORT_REQUESTS, PortRequest, Repeated, interrupted
from callboard.actors.session.shared_state import NO_STATE, SharedState

_NOT_RUN: Final = frozenset({"cancelled", "interrupted"})


class PortGate:
    """The open port requests, the timers and the stopped agents of one session.

    open: the requests without an answer, by seq. timers: those that are set, by number.
    is_closed: True once the process detaches: no port may start anything any more.
    places: the agents that this process has given a place among the model calls of all sessions.
    permissions: the permissions for calls that would need an approval.
    shared: the shared state after the events so far. files, history: the labels and the versions of files.
    results: those of tools that may be given again; None before the first call of such a tool.
    left_out_ms: the sum of the times that the timeouts of programs do not count.
    """

    def __init__(self, is_strict: bool = False) -> None:
        """Make a gate without requests.

        is_strict: True if model calls wait for the disk, so that after a crash the log holds every call that
        may have cost money.
        """
        self.open: dict[int, OpenRequest] = {}
        self.timers: dict[int, Arm] = {}
        self.is_closed = False
        self.places: set[str] = set()
        self.permissions = Permissions()
        self.shared = NO_STATE
        self.is_fork = False
        self.files, self.history = FileLabels(), FileHistory()
        self.left_out_ms = 0
        self.results: CachedResults | None = None
        self._is_strict = is_strict
        self._of: dict[str, tuple[int, ...]] = {}  # a set takes four times as much, and one is usual
        self._stopped: set[str] = set()
        self._forgotten: set[str] = set()
        self._wanted: dict[str, Event] = {}
        self._interrupted: set[tuple[str, int, int]] = set()

    def request(self, seq: int) -> Event | None:
        """Return an open request; None if it has its answer."""
        request = self.open.get(seq)
        return None if request is None else request.event

    def repeated_in(self, request: Event) -> Repeated:
        """Return the values that the answer to an open request carries again.

        Raises KeyError for a grant that has its answer.
        """
        row = PORT_REQUESTS[type(request.body)]
        source = self.open[request.seq].wish if row.through else request.body
        return tuple(getattr(source, field) for field in row.repeats)

    def wish_of(self, grant: Event) -> TurnRequested:
        """Return the wish of an open `CallModel` or `RunStep`. Raises KeyError for one with its answer."""
        if (wish := self.open[grant.seq].wish) is None:
            raise KeyError(grant.seq)
        return wish

    def cancelled(self, request: Event) -> Post:
        """Return the answer to an open request that certainly did not start.

        Raises TypeError for a request that the supervisor makes for itself.
        """
        build = PORT_REQUESTS[type(request.body)].cancelled
        if build is None:
            raise TypeError(f"a {request.kind} is never cancelled: the supervisor is not stopped")
        return build(request, self.repeated_in(request))

    def detached(self, request: Event) -> Post | None:
        """Return the answer to an open request when its process ends politely; None to leave it open."""
        build = PORT_REQUESTS[type(request.body)].detached
        return build(request, self.repeated_in(request)) if build else None

    def on_events(self, events: Iterable[Event]) -> list[Action]:
        """Note posted events, in their order. Return the actions that they call for."""
        actions: list[Action] = []
        handler_of = _HANDLERS.get
        for event in events:
            handler = handler_of(type(event.body))
            if handler is not None:
                handler(self, event, actions)
        return actions

    def may_answer(self, seq: int) -> bool:
        """Return True if a request has no answer yet."""
        request = self.open.get(seq)
        return request is not None and not request.is_answered

    def take_answer(self, seq: int, answer: Post) -> Post | None:
        """Return a port's answer in the form to post; None if the request has an answer already."""
        request = self.open.get(seq)
        if request is None or request.is_answered:
            return None
        # The answer's event passes the gate later. A second answer before that must be refused too.
        request.is_answered = True
        if self.is_fork:
            answer = _marked(request.event, answer)
        return self.without_false_claim(request.event, answer) if request.is_repeated else answer

    def may_start(self, request: Event) -> bool:
        """Return True if a port may act: the request has no answer and is wanted."""
        opened = None if self.is_closed else self.open.get(request.seq)
        if opened is None or opened.is_answered:
            return False
        return not (opened.is_given_up or opened.is_unwanted)

    def is_wanted(self, seq: int) -> bool:
        """Return False for an open request that was given up, or whose agent was stopped."""
        opened = self.open.get(seq)
        return opened is None or not (opened.is_given_up or opened.is_unwanted)

    def repeat(self, request: Event) -> Start:
        """Return how to start a request again that an earlier process may already have started."""
        if isinstance(request.body, CallTool) and request.body.effect == "idempotent":
            self.open[request.seq].is_repeated = True
        return self.start_of(request)

    def state_for(self, request: Event) -> SharedState:
        """Return the shared state as of an open tool call. Raises KeyError for a call that has its answer."""
        return self.open[request.seq].shared

    def cached_result(self, request: Event, now_ms: int) -> CachedResult | None:
        """Return the result that answers an open tool call without its tool; None if the tool runs.

        now_ms: the time of the tools port, in milliseconds since 1970 UTC.
        """
        call = request.body
        if self.results is None or not isinstance(call, CallTool):
            return None
        return self.results.find(call, now_ms, self.state_for(request))

    def without_false_claim(self, request: Event, answer: Post) -> Post:
        """Return a port's answer, with `interrupted` in place of a `cancelled` that the port cannot know."""
        # A port sees only its own process. An earlier one may have started a call that is made again.
        if not self.open[request.seq].is_repeated:
            return answer
        body = answer.body
        is_claim = isinstance(body, ToolReturned) and body.status == "cancelled"
        return interrupted(request, self.repeated_in(request)) if is_claim else answer

    def start_of(self, request: Event) -> Start:
        """Return the start of a request, with its announcement."""
        return self._start(request, PORT_REQUESTS[type(request.body)])

    def _start(self, request: Event, row: PortRequest) -> Start:
        body = request.body
        if row.waits is None:
            return Start(request, self._is_strict and type(body) is CallModel)
        return Start(request, row.waits(body), row.announces(request) if row.announces else None)

    def _request(self, event: Event, actions: list[Action]) -> None:
        body, seq = event.body, event.seq
        row = PORT_REQUESTS[type(body)]
        owner = getattr(body, row.owner) if row.owner else event.sender
        wish = turn_of(body) if type(body) is RunStep else None
        if row.through:
            wish = self._granted(event, body)
        opened = self.open[seq] = OpenRequest(event, owner, wish)
        if type(body) is CallTool:
            opened.shared = self.shared
            if body.cache is not None or self.results is not None:
                self._note_call(event, body)
            if self._interrupted:
                opened.is_repeated = (owner, body.turn, body.call) in self._interrupted
        if owner in self._stopped or owner in self._forgotten:
            opened.is_given_up = owner in self._forgotten
            opened.is_unwanted = owner in self._stopped
            actions.append(Refuse(event, self.without_false_claim(event, self.cancelled(event))))
            return
        if owner != SUPERVISOR:
            self._of[owner] = (*self._of.get(owner, ()), seq)
        actions.append(self._start(event, row))

    def _note_call(self, event: Event, call: CallTool) -> None:
        if self.results is None:
            calls = [one.event for one in self.open.values() if isinstance(one.event.body, CallTool)]
            self.results = CachedResults(one.seq for one in calls if has_effect(one))
        elif has_effect(event):
            self.results.on_call(event)

    def _granted(self, grant: Event, call: Any) -> TurnRequested:
        """Return the request that a `CallModel` grants. Raises Diverged if its agent made none."""
        if call.opening is not None and (first := first_turn(call)) is not None:
            return first
        wanted = self._wanted.pop(call.agent, None)
        if wanted is None or wanted.seq != call.request or not isinstance(wanted.body, TurnRequested):
            raise Diverged(f"event {grant.seq} grants a turn that its agent did not request")
        return wanted.body

    def _want(self, event: Event, actions: list[Action]) -> None:
        self._wanted[event.sender] = event

    def _answer(self, event: Event, actions: list[Action]) -> None:
        cause, body = event.cause, event.body
        request = self.open.pop(cause, None)
        if request is not None and (seqs := self._of.get(request.owner)) is not None:
            if len(seqs) == 1:
                del self._of[request.owner]
            else:
                self._of[request.owner] = tuple(seq for seq in seqs if seq != cause)
        if type(body) is ToolReturned:
            self._returned(event, body, request)
        elif self.places and type(body) is ModelReplied and event.recipient in self.places:
            self.places.remove(event.recipient)
            actions.append(GiveBack(event.recipient, body.usage))

    def _returned(self, event: Event, body: ToolReturned, request: OpenRequest | None) -> None:
        if request is not None and self.results is not None:
            self.results.on_answer(event, request.event, request.shared)
        if body.state_update:
            self.shared = self.shared.after(event)
        if (body.uses or body.status == "interrupted") and request is not None:
            self.files.take(request.event.body, body)
        self.history.take(event)
        if body.status != "ok" and may_have_acted(body, request):
            self._interrupted.add((event.recipient, body.turn, body.call))

    def _declare(self, event: Event, actions: list[Action]) -> None:
        self.shared = self.shared.after(event)
        self.is_fork |= isinstance(event.body, Forked)
        self.files.declare(event)
        self.history.declare(event)
        if (resumed := resumed_in(event.body)) is not None:
            self.left_out_ms += resumed.left_out_ms

    def _placed(self, event: Event, actions: list[Action]) -> None:
        body, request = event.body, self.open.get(event.cause)
        assert isinstance(body, CapacityGiven)
        self._answer(event, actions)
        # The port has given a place back already if its agent was stopped while it waited.
        if body.status == "given" and request is not None and not request.is_unwanted:
            self.places.add(body.agent)

    def _approval(self, event: Event, actions: list[Action]) -> None:
        request = self.request(event.cause)
        if request is not None and isinstance(request.body, RequestApproval):
            self.permissions.give(request.body, event)
        self._answer(event, actions)

    def _revoke(self, event: Event, actions: list[Action]) -> None:
        body = event.body
        assert isinstance(body, RevokePermission)
        self.permissions.revoke(body.permission)

    def _stop(self, event: Event, actions: list[Action]) -> None:
        who = event.recipient
        self._stopped.add(who)
        requests = [self.open[seq] for seq in self._of.get(who, ())]
        actions += [Abort(request.event) for request in requests]
        if who in self.places and not requests:  # it has a place and no call: stopped between the two
            self.places.remove(who)
            actions.append(GiveBack(who, ZERO))
        for request in requests:
            request.is_unwanted = True

    def _give_up(self, event: Event, actions: list[Action]) -> None:
        body, who = event.body, event.sender
        assert isinstance(body, CancelCall)
        for seq in self._of.get(who, ()):
            opened = self.open[seq]
            request = opened.event.body
            if not isinstance(request, CallTool | RequestApproval):
                continue
            if (request.turn, request.call) == (body.turn, body.call) and not opened.is_given_up:
                opened.is_given_up = True
                actions.append(Abort(opened.event))

    def _begin(self, event: Event, actions: list[Action]) -> None:
        self._stopped.discard(event.recipient)
        self._forgotten.discard(event.recipient)

    def _drained(self, event: Event, actions: list[Action]) -> None:
        # The supervisor may grant the agent's last request before it reads that the agent has failed.
        if event.sender not in self._stopped:
            self._forgotten.add(event.sender)
        self._stopped.discard(event.sender)

    def _arm(self, event: Event, actions: list[Action]) -> None:
        body = event.body
        assert isinstance(body, SetTimer)
        after_ms = body.after_ms if body.until is None else max(0, body.until - event.at)
        arm = self.timers[body.timer] = Arm(body.timer, event.at, after_ms, event.seq)
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


def _marked(request: Event, answer: Post) -> Post:
    """Return the answer of a `read` tool that has run in a fork with a mark, any other as it is."""
    body, call = answer.body, request.body
    is_live = isinstance(body, ToolReturned) and not body.reused and body.status not in _NOT_RUN
    if is_live and isinstance(call, CallTool) and call.effect == "read":
        return Post(answer.recipient, replace(body, after_origin=True))
    return answer


_HANDLERS = {
    **dict.fromkeys(PORT_REQUESTS, PortGate._request),
    **{row.answer: PortGate._answer for row in PORT_REQUESTS.values()},
    CapacityGiven: PortGate._placed,
    SessionOpened: PortGate._declare,
    Resumed: PortGate._declare,
    Forked: PortGate._declare,
    ApprovalGiven: PortGate._approval,
    RevokePermission: PortGate._revoke,
    TurnRequested: PortGate._want,
    Stop: PortGate._stop,
    CancelCall: PortGate._give_up,
    Begin: PortGate._begin,
    Stopped: PortGate._drained,
    SetTimer: PortGate._arm,
    ExtendTimer: PortGate._extend,
    CancelTimer: PortGate._disarm,
    TimerFired: PortGate._disarm,
}
"""The kinds of messages that the gate looks at. All others pass it without an action."""
