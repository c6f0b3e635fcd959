"""Stopping is complete: no port starts a request for a stopped agent, and its descendants stop too."""

from callboard.actors.protocol.addresses import is_agent, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    ApprovalGiven,
    Begin,
    CallModel,
    DeciderFailed,
    DelegationEnded,
    Finished,
    ModelReplied,
    ReportJudged,
    Stop,
    Stopped,
    ToolReturned,
)
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.ledger import Ledger


class NothingAfterStop(Invariant):
    """What ports do for the stopped."""

    name = "nothing-after-stop"
    rule = "Once the Stop of an agent is posted, no port starts a request for it."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._stopped: dict[str, int] = {}
        self._refused: set[int] = set()
        self._interrupted: set[tuple[str, int, int]] = set()

    def on_Stop(self, event: Event) -> None:
        """Record a Stop."""
        self._stopped[event.recipient] = event.seq

    def on_Begin(self, event: Event) -> None:
        """Forget the Stop of an earlier life."""
        self._stopped.pop(event.recipient, None)

    def on_CallModel(self, event: Event) -> None:
        """Report a grant for a stopped agent; record its other requests, which must be refused."""
        who = owner_of(event)
        if who in self._stopped:
            self._refused.add(event.seq)
            if isinstance(event.body, CallModel):
                self.broken(event.seq, f"{who} was stopped by event {self._stopped[who]} and gets a turn")

    on_CallTool = on_RequestApproval = on_CallModel

    def on_ToolStarted(self, event: Event) -> None:
        """Report a tool that starts for a stopped agent."""
        if event.recipient in self._stopped:
            stop = self._stopped[event.recipient]
            self.broken(event.seq, f"a tool starts for {event.recipient}, stopped by event {stop}")

    def on_ModelReplied(self, event: Event) -> None:
        """Check that a request made after the Stop is answered as not started."""
        assert isinstance(event.body, ModelReplied)
        self._answered(event, event.body.status)

    def on_ToolReturned(self, event: Event) -> None:
        """Check the same of a tool call, unless an earlier attempt was interrupted and may have acted."""
        body = event.body
        assert isinstance(body, ToolReturned)
        call = (event.recipient, body.turn, body.call)
        if body.status != "interrupted":
            self._answered(event, body.status)
        elif call not in self._interrupted:
            self._answered(event, body.status)
            self._interrupted.add(call)

    def on_ApprovalGiven(self, event: Event) -> None:
        """Check that no person was asked."""
        assert isinstance(event.body, ApprovalGiven)
        self._answered(event, event.body.verdict)

    def _answered(self, event: Event, status: str) -> None:
        if event.cause in self._refused and status != "cancelled":
            self.broken(event.seq, f"event {event.cause} came after the Stop and was acted on")


class OnlyDrains(Invariant):
    """What the stopped do."""

    name = "only-drains"
    rule = "An agent that was stopped posts nothing but `Stopped` or a failure of its decider."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._stops: dict[str, int] = {}

    def on_Stop(self, event: Event) -> None:
        """Record a Stop: it counts once the agent has handled it."""
        self._stops[event.recipient] = event.seq

    def on_Begin(self, event: Event) -> None:
        """Forget the Stop of an earlier life."""
        self._stops.pop(event.recipient, None)

    def on_any(self, event: Event) -> None:
        """Check an event that the agent posts on its Stop or on anything later."""
        stop = self._stops.get(event.sender)
        if stop is not None and event.cause >= stop and not isinstance(event.body, Stopped | DeciderFailed):
            self.broken(event.seq, f"{event.sender} posts {event.kind} after its Stop, event {stop}")


class Running:
    """Who runs, as the supervisor's decisions tell: from Begin until it finished, won or was stopped."""

    def __init__(self) -> None:
        self.addresses: set[str] = set()
        self._below: dict[str, int] = {}

    def begin(self, who: str) -> None:
        """Add an agent that begins."""
        if who not in self.addresses:
            self.addresses.add(who)
            self._count(who, 1)

    def end(self, who: str) -> None:
        """Remove an agent that ends, if it is running."""
        if who in self.addresses:
            self.addresses.remove(who)
            self._count(who, -1)

    def below(self, who: str) -> list[str]:
        """Return the running agents below an agent."""
        if not self._below.get(who):
            return []
        return sorted(one for one in self.addresses if one.startswith(who + "."))

    def _count(self, who: str, by: int) -> None:
        above = parent_of(who)
        while is_agent(above):
            self._below[above] = self._below.get(above, 0) + by
            above = parent_of(above)


class TransitiveStop(Invariant):
    """Trees end as trees, and races as races."""

    name = "transitive-stop"
    rule = "An agent that ends stops its descendants, deepest first; a delegation that ends stops its agents."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._running = Running()

    def handled(self, handled: Handled) -> None:
        """Update the running agents by one decision, and check that no descendant of an ended one is left."""
        event, outputs = handled
        ended = [event.sender] if isinstance(event.body, Finished) else []
        worked_on: list[str] = []
        for output in outputs:
            who, body = output.recipient, output.body
            if isinstance(body, Begin):
                self._running.begin(who)
            elif isinstance(body, Stop):
                if left := self._running.below(who):
                    self.broken(output.seq, f"{who} is stopped before {', '.join(left)}")
                ended.append(who)
                self._running.end(who)
            elif isinstance(body, ReportJudged) and body.verdict == "accepted":
                ended.append(who)
            elif isinstance(body, DelegationEnded):
                worked_on += self.facts.copies.get((who, body.turn, body.call), ())
        self._check(event, ended, worked_on)

    def _check(self, event: Event, ended: list[str], worked_on: list[str]) -> None:
        for who in ended:
            self._running.end(who)
        for who in ended:
            if left := self._running.below(who):
                self.broken(event.seq, f"{who} has ended and {', '.join(left)} below it still runs")
        for who in worked_on:
            if who in self._running.addresses:
                self.broken(event.seq, f"{who} still runs, but its delegation has ended")
