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

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR, is_decider
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage, Begin, ToolStarted
from callboard.actors.session.core import SessionCore, recorded_failure
from callboard.actors.session.port_gate import Arm, PortGate, Refuse, Start
from callboard.actors.session.port_table import PORT_REQUESTS, owner_of
from callboard.actors.session.step import ActorState


class Recovered(NamedTuple):
    """A session that can go on.

    core: its states and gate, after all events. posted: the events that recovery adds to the log, in order;
    all of them are handled. starts: the requests that ports may act on now, in the order of the log.
    timers: the timers to set.
    """

    core: SessionCore
    posted: tuple[Event, ...]
    starts: tuple[Start, ...]
    timers: tuple[Arm, ...]

    @property
    def states(self) -> Mapping[str, ActorState]:
        """The state of every actor."""
        return self.core.states

    @property
    def gate(self) -> PortGate:
        """The port gate, with all events seen."""
        return self.core.gate


def recover(events: Sequence[Event], first: AnyMessage, at: int, gate: PortGate | None = None) -> Recovered:
    """Bring a session to where it can go on, from its events up to some seq, perhaps none.

    first: the client's message once the last decision is complete: `Resumed`, or `SessionOpened` if there are
    no events yet. at: the time of the new events, in milliseconds since 1970 UTC. gate: a new one.

    Raises Diverged if the deciders do not post what the log says they posted: the code has changed, and going
    on would contradict the record. Raises what the supervisor's decider raises.
    """
    recovery = _Recovery(events, at, gate or PortGate())
    recovery.repeat()
    recovery.post(CLIENT, 0, (Post(SUPERVISOR, first),))
    recovery.settle()
    recovery.answer()
    recovery.settle()
    return recovery.result()


class _Recovery:
    """One recovery while it is under way. As a port driver, it holds starts back."""

    def __init__(self, events: Sequence[Event], at: int, gate: PortGate) -> None:
        self.events = events
        self.at = max(at, events[-1].at if events else 0)
        self.inbox: deque[Event] = deque()
        self.core = SessionCore(lambda address: self.inbox.append, gate)
        self.gate = gate
        self.posted: list[Event] = []
        self.held: dict[int, Start] = {}
        self.refused: dict[int, Post] = {}
        self.started: set[int] = set()
        self.answers_aborted = False

    # --- 1 and 2: the logged decisions ----------------------------------------------

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
        self.core.seq = len(self.events)
        self.core.move_to(lambda address: self.inbox.append, lambda event: None)
        for event in self.inbox:
            if isinstance(event.body, Begin):
                self.core.open(event.recipient)
        if torn is not None:
            self.post(torn[0].recipient, torn[0].seq, torn[1])

    def _repeat(self, event: Event, logged: Sequence[Event]) -> tuple[Post, ...]:
        """Make one decision again; return the outputs that the end of the log cut off."""
        posts = self.core.decide(event, recorded_failure(logged))
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

    # --- 3: going on without ports ----------------------------------------------------

    def settle(self) -> None:
        """Let deciders handle what is in their mailboxes, in the order of the log, until nothing is left."""
        while self.inbox:
            event = self.inbox.popleft()
            self.post(event.recipient, event.seq, self.core.decide_safely(event))

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post together, then do what the gate says, which here is mostly to hold it back."""
        events = self.core.post(self.at, ((sender, cause, posts),))
        self.posted += events
        self.core.perform(self.gate.on_events(events), self)

    def start(self, start: Start) -> None:
        """Hold a start back until recovery is complete."""
        self.held[start.request.seq] = start

    def abort(self, request: Event) -> None:
        """Answer a request that was posted here; one of the log is answered in its turn (see `answer`)."""
        if request.seq > len(self.events) or self.answers_aborted:
            self.post(request.recipient, request.seq, (self._given_up(request),))

    def arm(self, arm: Arm) -> None:
        """Leave the timer to the gate, which keeps it for `result`."""

    def disarm(self, timer: int) -> None:
        """Leave the timer to the gate, which has dropped it."""

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
        """Return the answer to a request of an agent that is stopped."""
        if request.seq in self.refused:
            return self.refused[request.seq]
        build = PORT_REQUESTS[type(request.body)].given_up
        if request.seq > len(self.events) or build is None:  # posted here, so it has not started
            answer = self.gate.cancelled(request)
        else:
            answer = build(request, self.gate.repeated_in(request), request.seq in self.started)
        return self.gate.without_false_claim(request, answer)

    def _left_by_crash(self, request: Event) -> Post | None:
        """Return the answer to a request of a living agent; None if the port is to be asked again."""
        repeated, has_started = self.gate.repeated_in(request), request.seq in self.started
        return PORT_REQUESTS[type(request.body)].after_crash(request, repeated, has_started)

    def result(self) -> Recovered:
        """Return the session as recovery leaves it."""
        starts = tuple(self.held[seq] for seq in sorted(self.held) if self.gate.may_answer(seq))
        return Recovered(self.core, tuple(self.posted), starts, tuple(self.gate.timers.values()))


def _decisions(events: Iterable[Event]) -> tuple[dict[int, list[Event]], dict[str, int]]:
    """Return the outputs of deciders by the event they decided on, and each actor's latest such event."""
    outputs: dict[int, list[Event]] = {}
    decided: dict[str, int] = {}
    for event in events:
        if is_decider(event.sender):
            outputs.setdefault(event.cause, []).append(event)
            decided[event.sender] = max(decided.get(event.sender, 0), event.cause)
    return outputs, decided
