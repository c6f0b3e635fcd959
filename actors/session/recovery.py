"""Going on from a log: what any prefix of it leaves to be done. Resume and simulation use it; no I/O.

A log is a prefix of what happened, cut anywhere, also between the outputs of one decision. To go on:

    1  Every decision whose outputs are in the log is made again, and must post what it posted then.
    2  If the last one was cut in the middle, the rest of its outputs is posted before anything else.
       Then stands `Resumed`.
    3  An event returns to its inbox unless it, or a later one of its recipient, has outputs in the log.
       The deciders run until nothing moves. No port acts meanwhile: what they ask for is held.
    4  Requests that the log holds without an answer get the answer that a crash leaves:

           of a stopped agent   `cancelled`; `interrupted` if its tool may have had an effect
           model call           `lost`: charged as reserved, and asked again under a new grant
           `write` tool         `interrupted` if it had started, for it never runs twice by itself
           anything else        none: it is asked again, in 5

       The deciders take those answers in, again until nothing moves.
    5  Only then may ports act: on what was held, and again on what may be repeated.

A request that stands in the log may have started; one that was posted in 2 to 4 has not. Timers run from
when they were set, the time in between included.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR, is_decider
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import (
    AnyMessage,
    CallModel,
    CallTool,
    DeciderFailed,
    ModelReplied,
    ToolStarted,
)
from callboard.actors.session.port_gate import (
    Abort,
    Action,
    Arm,
    PortGate,
    Refuse,
    Start,
    cancelled,
    interrupted,
    owner_of,
)
from callboard.actors.session.step import ActorState, failed, forgotten, initial, is_at_rest, step


class Recovered(NamedTuple):
    """How a session goes on.

    states: of every actor, after all there is. posted: the events that recovery adds to the log, in order;
    all of them are handled. gate: the gate, with all of them seen. starts: what ports may act on now, in the
    order of the log. timers: what the clock is to be set for.
    """

    states: Mapping[str, ActorState]
    posted: tuple[Event, ...]
    gate: PortGate
    starts: tuple[Start, ...]
    timers: tuple[Arm, ...]


def recover(events: Sequence[Event], first: AnyMessage, at: int, gate: PortGate | None = None) -> Recovered:
    """What is left to be done after these events: all of a session's up to some seq, maybe none.

    first: what the client says once the last decision is complete (`Resumed`; `SessionOpened` where there is
    nothing yet). at: the time of the new events, in milliseconds since 1970 UTC. gate: a new one.

    Raises Diverged if the deciders do not post what the log says they posted: the code has changed, and going
    on would contradict what was seen. An exception of the supervisor's decider is not caught.
    """
    recovery = _Recovery(events, at, gate or PortGate())
    recovery.repeat()
    recovery.post(CLIENT, 0, (Post(SUPERVISOR, first),))
    recovery.settle()
    recovery.answer()
    recovery.settle()
    return recovery.result()


class _Recovery:
    """One recovery while it is under way."""

    def __init__(self, events: Sequence[Event], at: int, gate: PortGate) -> None:
        self.events = events
        self.at = max(at, events[-1].at if events else 0)
        self.gate = gate
        self.states: dict[str, ActorState] = {SUPERVISOR: initial(SUPERVISOR)}
        self.inbox: deque[Event] = deque()
        self.posted: list[Event] = []
        self.held: dict[int, Start] = {}
        self.refused: dict[int, Post] = {}
        self.started: set[int] = set()
        self.answers_aborted = False

    # --- 1 and 2: what was decided --------------------------------------------------

    def repeat(self) -> None:
        """Make every logged decision again, put the other events back, and complete the last decision."""
        outputs, decided = _decisions(self.events)
        torn: tuple[Event, tuple[Post, ...]] | None = None
        for event in self.events:
            for action in self.gate.on_events((event,)):
                if isinstance(action, Refuse):
                    self.refused[event.seq] = action.answer
            if isinstance(event.body, ToolStarted):
                self.started.add(event.cause)
            if not is_decider(event.recipient):
                continue
            if event.seq > decided.get(event.recipient, 0):
                self.inbox.append(event)
            elif rest := self._repeat(event, outputs.get(event.seq, ())):
                torn = event, rest
        if torn is not None:
            self.post(torn[0].recipient, torn[0].seq, torn[1])

    def _repeat(self, event: Event, logged: Sequence[Event]) -> tuple[Post, ...]:
        """Make one decision again; returns the outputs that the end of the log cut off."""
        first = logged[0].body if logged else None
        posts = self._decide(event, first.error if isinstance(first, DeciderFailed) else "")
        for post, then in zip(posts, logged, strict=False):
            if post.recipient != then.recipient or post.body != then.body:
                raise self._diverged(event, f"event {then.seq} is another one now")
        if len(logged) > len(posts):
            raise self._diverged(event, f"event {logged[len(posts)].seq} is not posted any more")
        rest = posts[len(logged) :]
        if rest and not (logged and logged[-1].seq == len(self.events)):
            raise self._diverged(event, f"it posts a {type(rest[0].body).__name__} more now")
        return rest

    def _diverged(self, event: Event, how: str) -> Diverged:
        return Diverged(
            f"the code no longer does what the log says: when {event.recipient} handles event {event.seq}, "
            f"{how}. Going on would contradict what was recorded; see `callboard verify`, or go on with the "
            "code that recorded it"
        )

    # --- deciding -------------------------------------------------------------------

    def _decide(self, event: Event, error: str = "") -> tuple[Post, ...]:
        """Make one decision and keep its state. error: the class of what it raised when it was recorded."""
        address = event.recipient
        before = self.states.get(address) or initial(address)
        if error and address != SUPERVISOR:
            state, posts = failed(before, event, error)
        else:
            state, posts = step(before, event)
        self.states[address] = forgotten(address) if address != HOST and is_at_rest(state) else state
        return posts

    def settle(self) -> None:
        """Let deciders handle what is in their inboxes, in the order of the log, until nothing is left."""
        while self.inbox:
            event = self.inbox.popleft()
            try:
                posts = self._decide(event)
            except Exception as error:
                if event.recipient == SUPERVISOR:
                    raise
                posts = self._decide(event, type(error).__name__)
            self.post(event.recipient, event.seq, posts)

    def post(self, sender: str, cause: int, posts: Iterable[Post]) -> None:
        """Post together; then do what the gate says, which here is mostly to hold it back."""
        events = []
        for post in posts:
            seq = len(self.events) + len(self.posted) + 1
            event = Event(seq, self.at, sender, post.recipient, cause, post.body)
            self.posted.append(event)
            events.append(event)
        self.inbox.extend(event for event in events if is_decider(event.recipient))
        for action in self.gate.on_events(events):
            self._act(action)

    def _act(self, action: Action) -> None:
        match action:
            case Start(request):
                self.held[request.seq] = action
            case Refuse(request, sender, answer):
                self.post(sender, request.seq, (answer,))
            case Abort(request) if request.seq in self.held or self.answers_aborted:
                self.post(request.recipient, request.seq, (self._given_up(request),))
            case _:  # a request of the log is answered in its turn; the gate keeps the timers
                pass

    # --- 4: what a crash leaves -----------------------------------------------------

    def answer(self) -> None:
        """Answer the requests of the log that are not to be repeated, and hold the others."""
        self.answers_aborted = True
        for request in [self.gate.open[seq] for seq in sorted(self.gate.open)]:
            if request.seq in self.held:
                continue
            if self.gate.is_stopped(owner_of(request)):
                self.post(request.recipient, request.seq, (self._given_up(request),))
            elif answer := self._left_by_crash(request):
                self.post(request.recipient, request.seq, (answer,))
            else:
                self.held[request.seq] = self.gate.repeat(request)

    def _given_up(self, request: Event) -> Post:
        """The answer to a request of an agent that is stopped."""
        if request.seq > len(self.events):
            return self.gate.without_false_claim(request, cancelled(request))
        if request.seq in self.refused:
            return self.refused[request.seq]
        body = request.body
        if isinstance(body, CallModel):  # it may have started, so what it used is not known
            return Post(body.agent, ModelReplied(body.turn, body.attempt, "cancelled"))
        may_have_acted = isinstance(body, CallTool) and (
            body.effect == "idempotent" or request.seq in self.started
        )
        answer = interrupted(request) if may_have_acted else cancelled(request)
        return self.gate.without_false_claim(request, answer)

    def _left_by_crash(self, request: Event) -> Post | None:
        """The answer to a request of a living agent; None if the port is to be asked again."""
        body = request.body
        if isinstance(body, CallModel):
            return Post(body.agent, ModelReplied(body.turn, body.attempt, "lost"))
        return interrupted(request) if request.seq in self.started else None

    def result(self) -> Recovered:
        """What recovery has come to."""
        starts = tuple(self.held[seq] for seq in sorted(self.held) if self.gate.may_answer(seq))
        return Recovered(self.states, tuple(self.posted), self.gate, starts, tuple(self.gate.timers.values()))


def _decisions(events: Iterable[Event]) -> tuple[dict[int, list[Event]], dict[str, int]]:
    """What deciders posted, by the event they decided on; and by actor, the latest event with outputs."""
    outputs: dict[int, list[Event]] = {}
    decided: dict[str, int] = {}
    for event in events:
        if is_decider(event.sender):
            outputs.setdefault(event.cause, []).append(event)
            decided[event.sender] = max(decided.get(event.sender, 0), event.cause)
    return outputs, decided
