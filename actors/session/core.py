"""One session without a disk, a clock or a task: its states, its mailboxes and its port gate.

    events = core.post(at, ((sender, cause, posts),))     number posts, put them into mailboxes
    core.perform(core.gate.on_events(events), ports)      tell the ports what to do
    posts = core.decide(event)                            let a decider handle the head of its mailbox

A live session, recovery, simulation and verification all drive this class; each keeps only its own part:
durability and tasks, the cut of a log, a schedule and faults, a comparison.

Rules
  - Every event has the next seq of its session and goes into its recipient's mailbox in that order.
  - A mailbox opens with the `Begin` of its agent and is gone when that agent is at rest. The mailboxes of the
    supervisor and the client are there from the start. An event without a mailbox is posted all the same.
  - A decider that raises is not asked again about the same event. `decide_safely` puts the recorded failure
    in the place of an agent's decision; a supervisor that raises ends the session in this process.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage, Begin, DeciderFailed
from callboard.actors.session.port_gate import Abort, Action, Arm, Disarm, PortGate, Refuse, Start
from callboard.actors.session.step import ActorState, failed, forgotten, initial, is_at_rest, step, steps

Said: TypeAlias = tuple[str, int, Sequence[Post]]
"""Posts that stand together in the log: their sender, the seq of their cause, and the posts."""

Mailbox: TypeAlias = Callable[[Event], None]
"""Takes an event in, behind those that it has."""


class PortDriver(Protocol):
    """The ports of one session, as the interpreter that drives it has them."""

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post in a port's name, at once."""
        ...

    def start(self, start: Start) -> None:
        """Let a port act on a request; `SessionCore.announce` says from when on."""
        ...

    def abort(self, request: Event) -> None:
        """Give up the work for a request; its one answer still comes."""
        ...

    def arm(self, arm: Arm) -> None:
        """Set a timer, or put it off."""
        ...

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        ...


class SessionCore:
    """The pure part of one session.

    seq: of the last event. states: by address, of every actor that has decided anything.
    mailboxes: by address. gate: the requests to ports. open_mailbox: makes a mailbox for an address.
    step, initial, event: the functions that decide, and that make a first state and an event. A campaign of
    simulations replaces them by ones that remember.
    """

    def __init__(
        self, open_mailbox: Callable[[str], Mailbox] | None = None, gate: PortGate | None = None
    ) -> None:
        self.seq = 0
        self.states: dict[str, ActorState] = {SUPERVISOR: initial(SUPERVISOR)}
        self.mailboxes: dict[str, Mailbox] = {}
        self.gate = gate or PortGate()
        self.step = step
        self.initial = initial
        self.event: Callable[[int, int, str, str, int, AnyMessage], Event] = Event
        self._open_mailbox = open_mailbox or _drop_all
        self.mailboxes[SUPERVISOR] = self._open_mailbox(SUPERVISOR)

    # --- posting --------------------------------------------------------------------

    def post(self, at: int, said: Iterable[Said]) -> list[Event]:
        """Number posts and put each into its recipient's mailbox. at: milliseconds since 1970 UTC."""
        events = self.number(at, said)
        self.route(events)
        return events

    def number(self, at: int, said: Iterable[Said]) -> list[Event]:
        """Give posts the next seqs of the session, in order."""
        events: list[Event] = []
        seq, make = self.seq, self.event
        for sender, cause, posts in said:
            for post in posts:
                seq += 1
                events.append(make(seq, at, sender, post.recipient, cause, post.body))
        self.seq = seq
        return events

    def route(self, events: Iterable[Event]) -> None:
        """Put each event into its recipient's mailbox, in order."""
        mailboxes = self.mailboxes
        for event in events:
            mailbox = mailboxes.get(event.recipient)
            if mailbox is not None:
                mailbox(event)
            elif type(event.body) is Begin:
                self.open(event.recipient)(event)
            # Ports hear of their requests from the gate, and an agent at rest has no use for events.

    def open(self, address: str) -> Mailbox:
        """Open a mailbox for an actor, in place of the one that it may have."""
        mailbox = self.mailboxes[address] = self._open_mailbox(address)
        return mailbox

    # --- deciding -------------------------------------------------------------------

    def state_of(self, address: str) -> ActorState:
        """Return the state of an actor, the initial one if it has decided nothing yet."""
        return self.states.get(address) or self.initial(address)

    def decide(self, event: Event, failure: str = "") -> tuple[Post, ...]:
        """Make one decision, keep the new state, and return the posts in order.

        failure: the class of what the decider raised when this was recorded; it is not called then.
        Raises what the decider raises; the state is unchanged then.
        """
        address = event.recipient
        before = self.states.get(address) or self.initial(address)
        if failure and address != SUPERVISOR:  # a log that says so of the supervisor is wrong: ask it
            state, posts = failed(before, event, failure)
        else:
            state, posts = self.step(before, event)
        self.keep(address, state)
        return posts

    def decide_safely(
        self, event: Event, on_failure: Callable[[Event, Exception], None] = lambda event, error: None
    ) -> tuple[Post, ...]:
        """Make one decision; if an agent's decider raises, record that in the decision's place.

        on_failure: told of what an agent's decider raised. Raises what the supervisor's decider raises.
        """
        try:
            return self.decide(event)
        except Exception as error:
            if event.recipient == SUPERVISOR:
                raise
            on_failure(event, error)
            return self.decide(event, type(error).__name__)

    def decide_together(self, events: Sequence[Event]) -> list[tuple[Post, ...]]:
        """Make the decisions of one actor on events that follow each other; return the posts of each.

        Raises what the decider raises; the state is as before the first of them then.
        """
        address = events[0].recipient
        state, posts = steps(self.state_of(address), events)
        self.keep(address, state)
        return posts

    def keep(self, address: str, state: ActorState) -> None:
        """Keep an actor's state. A sub-agent at rest posts nothing any more, so its mailbox goes."""
        if address != HOST and is_at_rest(state):
            self.states[address] = forgotten(address)
            self.mailboxes.pop(address, None)
        else:
            self.states[address] = state

    # --- ports ----------------------------------------------------------------------

    def perform(self, actions: Iterable[Action], ports: PortDriver) -> None:
        """Tell the ports what the gate wants done, in order."""
        for action in actions:
            match action:
                case Start():
                    # A stop that was posted together with the request has closed the gate already.
                    if self.gate.may_start(action.request):
                        ports.start(action)
                case Refuse(request, sender, answer):
                    ports.post(sender, request.seq, (answer,))
                case Abort(request):
                    ports.abort(request)
                case Arm():
                    ports.arm(action)
                case Disarm(timer):
                    ports.disarm(timer)

    def announce(self, start: Start, ports: PortDriver) -> int:
        """Post that a port starts, if its request wants that.

        Returns the seq up to which the log must be durable before the port acts; 0 if it need not wait.
        """
        request = start.request
        if start.announcement is not None:
            ports.post(request.recipient, request.seq, (start.announcement,))
        return self.seq if start.waits else 0

    # --- going on -------------------------------------------------------------------

    def move_to(self, open_mailbox: Callable[[str], Mailbox], client: Mailbox) -> None:
        """Give every actor that is not at rest a new, empty mailbox, and the client this one."""
        self._open_mailbox = open_mailbox
        self.mailboxes = {CLIENT: client}
        for address, state in self.states.items():
            if address in (SUPERVISOR, HOST) or not is_at_rest(state):
                self.open(address)


def recorded_failure(outputs: Sequence[Event]) -> str:
    """Return the class of what a decider raised, if its logged outputs say so, else nothing."""
    first = outputs[0].body if outputs else None
    return first.error if isinstance(first, DeciderFailed) else ""


def _drop_all(address: str) -> Mailbox:
    return _drop


def _drop(event: Event) -> None:
    """Take no notice: verification hands events to deciders itself."""
