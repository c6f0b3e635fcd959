"""The session core: the actor states, mailboxes and port gate of one session. No I/O, clock or task.

Every event goes through three calls, and the posts of the third go back into the first:

    events = core.post(at, ((sender, cause, posts),))     number posts, put them into mailboxes
    core.perform(core.gate.on_events(events), ports)      tell the ports what to do
    posts = core.decide(event)                            let a decider handle the head of its mailbox

The life of a delegation is a series of such rounds. A parent posts `Delegate`. The supervisor decides on it
and posts `Begin`, which opens the mailbox of a new agent. That agent posts `TurnRequested`; the supervisor
grants the turn with `CallModel`, for which the gate starts the model port. The port's answer, `ModelReplied`,
is posted like the outputs of a decision. In the end the agent posts `ReportBack` or `Finished`, and the
supervisor posts `DelegationEnded` to the parent.

Four drivers share this class. The live board adds durability and tasks, recovery adds the cut of a log,
simulation adds a schedule and faults, and verification adds a comparison.

Rules
  - Every event has the next seq of its session and goes into its recipient's mailbox in that order.
  - A mailbox opens with the `Begin` of its agent and closes when that agent is at rest. The supervisor's and
    the client's mailboxes are open from the start. An event without a mailbox is posted, and not delivered.
  - A decider that raises is not called again for the same event. The recorded failure replaces the decision
    of an agent. A supervisor that raises ends the session in this process.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage, Begin, DeciderFailed
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.port_actions import Abort, Action, Arm, Disarm, GiveBack, Refuse, Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.step import ActorState, failed, forgotten, initial, is_at_rest, step, steps

PostGroup: TypeAlias = tuple[str, int, Sequence[Post]]
"""Posts that stand together in the log: their sender, the seq of their cause, and the posts."""

Mailbox: TypeAlias = Callable[[Event], None]
"""Appends an event to the mailbox of one actor."""


class PortDriver(Protocol):
    """The ports of one session, as its driver reaches them."""

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post at once in the name of a port."""
        ...

    def start(self, start: Start) -> None:
        """Let a port act on a request, once `SessionCore.announce` allows it."""
        ...

    def abort(self, request: Event) -> None:
        """Give up the work for a request; its one answer still comes."""
        ...

    def arm(self, arm: Arm) -> None:
        """Set a timer, or move it to a later moment."""
        ...

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        ...

    def give_back(self, agent: str, usage: Usage | None) -> None:
        """Give back an agent's place among the model calls of all sessions. usage: None if not known."""
        ...


class SessionCore:
    """The pure part of one session.

    seq: the seq of the last event.
    states: the state of every actor that has made a decision, by address.
    mailboxes: the open mailboxes, by address.
    gate: the port gate.
    step, initial, event: the functions that decide, make a first state, and make an event.
    """

    def __init__(
        self, open_mailbox: Callable[[str], Mailbox] | None = None, gate: PortGate | None = None
    ) -> None:
        self.seq = 0
        self.states: dict[str, ActorState] = {SUPERVISOR: initial(SUPERVISOR)}
        self.mailboxes: dict[str, Mailbox] = {}
        self.gate = gate or PortGate()
        # Attributes, not calls of the functions: a campaign of simulations puts in ones with a cache.
        self.step = step
        self.initial = initial
        self.event: Callable[[int, int, str, str, int, AnyMessage], Event] = Event
        self._open_mailbox = open_mailbox or _drop_all
        self.mailboxes[SUPERVISOR] = self._open_mailbox(SUPERVISOR)

    # --- posting --------------------------------------------------------------------

    def post(self, at: int, groups: Iterable[PostGroup]) -> list[Event]:
        """Make events of posts and put each into its recipient's mailbox. Return the events.

        at: the time of the events, in milliseconds since 1970 UTC.
        """
        events: list[Event] = []
        seq, make, mailboxes = self.seq, self.event, self.mailboxes
        for sender, cause, posts in groups:
            for post in posts:
                seq += 1
                recipient = post.recipient
                event = make(seq, at, sender, recipient, cause, post.body)
                events.append(event)
                mailbox = mailboxes.get(recipient)
                if mailbox is not None:
                    mailbox(event)
                elif type(post.body) is Begin:
                    self.open(recipient)(event)
                # Ports hear of their requests from the gate, and an agent at rest has no use for events.
        self.seq = seq
        return events

    def open(self, address: str) -> Mailbox:
        """Open a new mailbox for an actor. An older one of the same address is dropped."""
        mailbox = self.mailboxes[address] = self._open_mailbox(address)
        return mailbox

    # --- deciding -------------------------------------------------------------------

    def state_of(self, address: str) -> ActorState:
        """Return the state of an actor, or its initial state before its first decision."""
        return self.states.get(address) or self.initial(address)

    def decide(self, event: Event, failure: str = "") -> tuple[Post, ...]:
        """Make one decision, keep the new state, and return the posts in order.

        failure: the class of the exception that the recorded decision raised. The decider is not called then.

        Raises the decider's exception and leaves the state unchanged.
        """
        address = event.recipient
        before = self.states.get(address) or self.initial(address)
        # A supervisor that raises ends the session, so a log that records a failure of it is wrong: decide.
        if failure and address != SUPERVISOR:
            state, posts = failed(before, event, failure)
        else:
            state, posts = self.step(before, event)
        # `keep` in place: this runs for every event.
        if type(state) is AgentState and state.phase == "idle":
            self.keep(address, state)
        else:
            self.states[address] = state
        return posts

    def decide_safely(self, event: Event) -> tuple[Post, ...]:
        """Make one decision. If an agent's decider raises, let the recorded failure replace the decision.

        Raises the exception of the supervisor's decider.
        """
        try:
            return self.decide(event)
        except Exception as error:
            if event.recipient == SUPERVISOR:
                raise
            return self.decide(event, type(error).__name__)

    def decide_together(self, events: Sequence[Event]) -> list[tuple[Post, ...]]:
        """Make the decisions of one actor on consecutive events. Return the posts of each.

        Raises the decider's exception and leaves the state as it was before the first event.
        """
        address = events[0].recipient
        state, posts = steps(self.state_of(address), events)
        self.keep(address, state)
        return posts

    def keep(self, address: str, state: ActorState) -> None:
        """Keep an actor's state. Close the mailbox of a sub-agent at rest."""
        # The host rests between two asks and keeps its conversation. A sub-agent at rest never works again.
        if address != HOST and is_at_rest(state):
            self.states[address] = forgotten(address)
            self.mailboxes.pop(address, None)
        else:
            self.states[address] = state

    # --- ports ----------------------------------------------------------------------

    def perform(self, actions: Iterable[Action], ports: PortDriver) -> None:
        """Perform the gate's actions with the ports, in order."""
        for action in actions:
            match action:
                case Start():
                    # A stop that was posted together with the request has closed the gate already.
                    if self.gate.may_start(action.request):
                        ports.start(action)
                case Refuse(request, answer):
                    ports.post(request.recipient, request.seq, (answer,))
                case Abort(request):
                    ports.abort(request)
                case Arm():
                    ports.arm(action)
                case Disarm(timer):
                    ports.disarm(timer)
                case GiveBack(agent, usage):
                    ports.give_back(agent, usage)

    def announce(self, start: Start, ports: PortDriver) -> int:
        """Post the announcement of a start that waits, if there is one.

        Return the seq up to which the log must be durable before the port acts.
        """
        request = start.request
        if start.announcement is not None:
            ports.post(request.recipient, request.seq, (start.announcement,))
        return self.seq

    # --- detaching and continuing ---------------------------------------------------

    def stand_still(self) -> None:
        """Detach: deliver no event but the client's, and let no port start. Ports may still answer.

        A resume delivers these events, so that a decision is made by the process that acts on it.
        """
        self.gate.is_closed = True
        self._open_mailbox = _drop_all
        self.mailboxes = {CLIENT: self.mailboxes.get(CLIENT, _drop)}

    def detached_answers(self) -> list[tuple[Event, Post]]:
        """Return each open request that detaching answers, with its answer."""
        found = []
        for seq, opened in sorted(self.gate.open.items()):
            answer = self.gate.detached(opened.event) if self.gate.may_answer(seq) else None
            if answer is not None:
                found.append((opened.event, answer))
        return found

    def move_to(self, open_mailbox: Callable[[str], Mailbox], client: Mailbox) -> None:
        """Replace all mailboxes by empty ones, for the actors that are not at rest.

        open_mailbox: makes the mailbox of an address.
        client: the client's new mailbox.
        """
        self._open_mailbox = open_mailbox
        self.mailboxes = {CLIENT: client}
        for address, state in self.states.items():
            if address in (SUPERVISOR, HOST) or not is_at_rest(state):
                self.open(address)


def recorded_failure(outputs: Sequence[Event]) -> str:
    """Return the class of a decider's exception from the logged outputs of the decision, or ''."""
    first = outputs[0].body if outputs else None
    return first.error if isinstance(first, DeciderFailed) else ""


def _drop_all(address: str) -> Mailbox:
    return _drop


def _drop(event: Event) -> None:
    """Do nothing with an event: verification hands it to its decider itself."""
