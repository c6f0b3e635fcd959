"""Recovery: bring a session from any prefix of its log to the point where ports may act again. No I/O.

A process may end at any moment, so a log is a prefix of the session's events, cut anywhere, even between the
outputs of one decision. Resume and simulation continue it in five steps:

    1  Make every logged decision again. It must post the outputs that the log holds.
    2  If the log ends in the middle of a decision's outputs, post the rest before anything else.
       Then post `Resumed`.
    3  Put back into its mailbox every event that has no outputs in the log, unless a later event of the same
       recipient has some. Run the deciders until all mailboxes are empty. No port acts: starts are held.
    4  Answer the requests that the log holds without an answer, as a crash leaves them:

           no longer wanted     `cancelled`; `interrupted` if its tool may have had an effect
           model call           `lost`: charged as reserved, and made again under a new grant
           `write` tool         `interrupted` if it had started: a `write` tool never runs twice by itself
           other requests       no answer: the port is asked again, in step 5

       A fork in which a person decides about tools with an effect logs each start: other calls have not run.
       Run the deciders on these answers until all mailboxes are empty.
    5  Return the starts that were held and the requests to repeat. Only now may ports act.

Rules
  - A request in the log may have started. A request that steps 2 to 4 posted has not.
  - A timer runs from the event that set it. The time between the two processes counts.
  - A place of the capacity port ends with its process. A call that starts now first takes a new one.
  - A fork begins in the same way, from a prefix of another session. No process of it has crashed: its model
    calls are made again and nothing is charged. A request that has a recorded answer keeps it, also when a
    process of the fork has crashed.
"""

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from callboard.actors.protocol.addresses import CLIENT, PORTS, SUPERVISOR
from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage, Begin
from callboard.actors.protocol.port_messages import CallModel, CallTool, ToolStarted
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.core import SessionCore, recorded_failure
from callboard.actors.session.port_actions import Arm, Refuse, Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import PORT_REQUESTS
from callboard.actors.session.step import ActorState


class Recovered(NamedTuple):
    """A session that can continue.

    core: the states and the gate after all events.
    posted: the events that recovery adds to the log, in order. All of them are handled.
    starts: the requests that ports may act on now, in the order of the log.
    timers: the timers to set.
    """

    core: SessionCore
    posted: tuple[Event, ...]
    starts: tuple[Start, ...]
    timers: tuple[Arm, ...]

    @property
    def states(self) -> Mapping[str, ActorState]:
        """Return the state of every actor, by address."""
        return self.core.states


def recover(
    events: Sequence[Event],
    first: AnyMessage,
    at: int,
    gate: PortGate | None = None,
    recorded: Container[int] | None = None,
    *,
    has_run: bool = True,
) -> Recovered:
    """Continue a session from a prefix of its events, which may be empty.

    first: the client's message to post once the last decision is complete: `Resumed`, or `SessionOpened` if
        there are no events.
    at: the time of the new events, in milliseconds since 1970 UTC.
    gate: a gate without requests.
    recorded: for a fork, the logged requests that have a recorded answer; None for any other session.
    has_run: False if no process has run the session, as when a fork begins: none of its model calls is lost.

    Raises Diverged if the deciders do not post the outputs that the log holds: the code has changed, and a
    continuation would contradict the record. Raises the exception of the supervisor's decider.
    """
    recovery = _Recovery(events, at, gate or PortGate(), recorded, has_run=has_run)
    recovery.repeat()
    recovery.post(CLIENT, 0, (Post(SUPERVISOR, first),))
    recovery.settle()
    recovery.answer()
    recovery.settle()
    return recovery.result()


class _Recovery:
    """One recovery in progress. As a port driver, it holds starts back."""

    def __init__(
        self,
        events: Sequence[Event],
        at: int,
        gate: PortGate,
        recorded: Container[int] | None,
        *,
        has_run: bool,
    ) -> None:
        self.events = events
        # A clock that was set back must not show in the log.
        self.at = max(at, events[-1].at) if events else at
        self.inbox: deque[Event] = deque()
        self.core = SessionCore(lambda address: self.inbox.append, gate)
        self.gate = gate
        self.posted: list[Event] = []
        self.held: dict[int, Start] = {}
        self.refused: dict[int, Post] = {}
        self.announced: set[int] = set()
        self.started: set[int] = set()
        self.answers_aborted = False
        self.recorded: Container[int] = () if recorded is None else recorded
        self.has_run = has_run
        self.asks_after = len(events)  # the calls after this event run once a person lets them, in a fork

    # --- 1 and 2: the logged decisions ----------------------------------------------

    def repeat(self) -> None:
        """Make every logged decision again, put other events back, and complete the last decision."""
        outputs, decided = _decisions(self.events)
        torn: tuple[Event, tuple[Post, ...]] | None = None
        self._note_all()
        for event in self.events:
            recipient = event.recipient
            if recipient in PORTS:
                continue
            if event.seq > decided.get(recipient, 0):
                self.inbox.append(event)
            elif rest := self._repeat(event, outputs.get(event.seq, ())):
                torn = event, rest
        self.core.seq = len(self.events)
        self._open_mailboxes()
        if torn is not None:
            self.post(torn[0].recipient, torn[0].seq, torn[1])

    def _note_all(self) -> None:
        """Pass the logged events through the gate. Keep the refusals and the starts of tools."""
        for action in self.gate.on_events(self.events):
            if isinstance(action, Refuse):
                self.refused[action.request.seq] = action.answer
        for event in self.events:
            if isinstance(event.body, Forked):
                self.asks_after = event.seq if event.body.effects == "ask" else len(self.events)
            if type(event.body) is ToolStarted:
                self.announced.add(event.cause)
                if not event.body.reused:  # else it waits for its recorded answer, and has not started
                    self.started.add(event.cause)

    def _open_mailboxes(self) -> None:
        """Open the mailboxes of the living agents, and of those whose `Begin` is not handled yet."""
        self.core.move_to(lambda address: self.inbox.append, lambda event: None)
        for event in self.inbox:
            if isinstance(event.body, Begin):
                self.core.open(event.recipient)

    def _repeat(self, event: Event, logged: Sequence[Event]) -> tuple[Post, ...]:
        """Make one decision again; return the outputs that the end of the log cut off."""
        posts = self.core.decide(event, recorded_failure(logged) if logged else "")
        for post, then in zip(posts, logged, strict=False):
            if post.recipient != then.recipient or post.body != then.body:
                raise self._diverged(event, f"event {then.seq} would now be a different one")
        if len(posts) == len(logged):
            return ()
        if len(logged) > len(posts):
            raise self._diverged(event, f"event {logged[len(posts)].seq} would no longer be posted")
        rest = posts[len(logged) :]
        # Outputs of one decision stand together, so only the last one of the log can be cut.
        if not logged or logged[-1].seq != len(self.events):
            raise self._diverged(event, f"it posts a {type(rest[0].body).__name__} more now")
        return rest

    def _diverged(self, event: Event, how: str) -> Diverged:
        return Diverged(
            f"the code no longer does what the log says: when {event.recipient} handles event {event.seq}, "
            f"{how}. Going on would contradict what was recorded; see `callboard verify`, or go on with the "
            "code that recorded it"
        )

    # --- 3: continuing without ports --------------------------------------------------

    def settle(self) -> None:
        """Let deciders handle the events in their mailboxes, in the order of the log, until none is left."""
        while self.inbox:
            event = self.inbox.popleft()
            self.post(event.recipient, event.seq, self.core.decide_safely(event))

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post the outputs of one sender together, then perform the gate's actions."""
        events = self.core.post(self.at, ((sender, cause, posts),))
        self.posted += events
        self.core.perform(self.gate.on_events(events), self)

    def start(self, start: Start) -> None:
        """Hold a start back until recovery is complete."""
        self.held[start.request.seq] = start

    def abort(self, request: Event) -> None:
        """Answer a request that recovery posted. A logged request gets its answer in `answer`."""
        # Only step 4 answers logged requests, after the deciders have handled all events of the log.
        if request.seq > len(self.events) or self.answers_aborted:
            self.post(request.recipient, request.seq, (self._given_up(request),))

    def arm(self, arm: Arm) -> None:
        """Do nothing: the gate keeps the timer for `result`."""

    def disarm(self, timer: int) -> None:
        """Do nothing: the gate has dropped the timer."""

    def give_back(self, agent: str, usage: Usage | None) -> None:
        """Do nothing: the place belonged to the earlier process, and went with it."""

    # --- 4: the answers that a crash leaves -----------------------------------------

    def answer(self) -> None:
        """Answer the logged requests that must not be repeated, and hold the others."""
        self.answers_aborted = True
        for _, opened in sorted(self.gate.open.items()):
            request = opened.event
            if request.seq in self.held:
                continue
            if self._is_kept_open(request):
                continue
            if not self.gate.is_wanted(request.seq):
                self.post(request.recipient, request.seq, (self._given_up(request),))
            elif answer := self._left_by_crash(request):
                self.post(request.recipient, request.seq, (answer,))
            else:
                is_fresh = self._is_undecided(request)
                self.held[request.seq] = (self.gate.start_of if is_fresh else self.gate.repeat)(request)

    def _is_undecided(self, request: Event) -> bool:
        """Return True for a call that a person has not let run: the log would have its start."""
        body = request.body
        is_asked = isinstance(body, CallTool) and body.effect == "idempotent"
        return is_asked and request.seq > self.asks_after and request.seq not in self.started

    def _is_kept_open(self, request: Event) -> bool:
        """Return True if the driver of a fork gives this logged request its recorded answer."""
        if request.seq not in self.recorded or request.seq in self.refused:
            return False
        if request.seq in self.announced:
            return True
        # A `write` that is not announced has not started, and the log has no result without a start. Others
        # that are wanted start: the driver finds the recorded answer then, after the announcement.
        is_announced = self.gate.start_of(request).announcement is not None
        return not (is_announced or self.gate.is_wanted(request.seq))

    def _given_up(self, request: Event) -> Post:
        """Return the answer to a request of an agent that is stopped, or that gave it up."""
        if request.seq in self.refused:
            return self.refused[request.seq]
        build = PORT_REQUESTS[type(request.body)].given_up
        if request.seq > len(self.events) or build is None or self._is_undecided(request):  # has not started
            answer = self.gate.cancelled(request)
        else:
            answer = build(request, self.gate.repeated_in(request), request.seq in self.started)
        return self.gate.without_false_claim(request, answer)

    def _left_by_crash(self, request: Event) -> Post | None:
        """Return the answer to a request of a living agent; None if the port is asked again."""
        is_of_model = isinstance(request.body, CallModel | RunStep)
        if is_of_model and (request.seq in self.recorded or not self.has_run):
            return None  # of a fork: no process of it has made this call, so nothing was lost
        repeated, has_started = self.gate.repeated_in(request), request.seq in self.started
        return PORT_REQUESTS[type(request.body)].after_crash(request, repeated, has_started)

    def result(self) -> Recovered:
        """Return the recovered session."""
        self.gate.places.clear()  # they went with their process: a call without one first takes a new one
        starts = tuple(self.held[seq] for seq in sorted(self.held) if self.gate.may_answer(seq))
        return Recovered(self.core, tuple(self.posted), starts, tuple(self.gate.timers.values()))


def _decisions(events: Iterable[Event]) -> tuple[dict[int, list[Event]], dict[str, int]]:
    """Return the outputs of deciders by the seq of their cause, and the latest such seq of each actor."""
    outputs: dict[int, list[Event]] = {}
    decided: dict[str, int] = {}
    for event in events:
        sender, cause = event.sender, event.cause
        if sender not in PORTS:
            outputs.setdefault(cause, []).append(event)
            if cause > decided.get(sender, 0):
                decided[sender] = cause
    return outputs, decided
