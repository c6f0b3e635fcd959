"""Starts, stops and time: what a stop ends, what an answer claims, and agents whose time is over."""

from collections import Counter
from collections.abc import Sequence

from msgspec import field

from callboard.actors.protocol.addresses import SUPERVISOR, is_agent, parent_of
from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    DeciderFailed,
    DelegationEnded,
    Finished,
    ReportJudged,
    Stop,
    Stopped,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CallTool,
    CapacityGiven,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.lives import Call


class OneStop(Invariant):
    """Stop."""

    name = "one-stop"
    rule = "An agent gets at most one Stop in a life."

    def on_Stop(self, event: Event, body: Stop) -> None:
        """Check that this is the first Stop of the life."""
        before = self.facts.stops[event.recipient]
        if before != event.seq:
            self.broken(event.seq, f"{event.recipient} was told to stop by event {before} already")


class NothingAfterStop(Invariant):
    """The work of ports for stopped agents."""

    name = "nothing-after-stop"
    rule = "Once the Stop of an agent is posted, no port starts a request for it."
    _refused: set[int] = set()
    _interrupted: set[Call] = set()

    def on_CallModel(self, event: Event, body: AnyMessage) -> None:
        """Report a grant for a stopped agent; record its own requests, which must be refused."""
        who = owner_of(event)
        if stop := self.facts.stops.get(who):
            self._refused.add(event.seq)
            if event.sender == SUPERVISOR:
                self.broken(event.seq, f"{who} was stopped by event {stop} and gets a turn")

    on_RunStep = on_CallTool = on_RequestApproval = on_RequestCapacity = on_RequestBudget = on_CallModel

    def on_ToolStarted(self, event: Event, body: ToolStarted) -> None:
        """Report a tool that starts for a stopped agent."""
        if stop := self.facts.stops.get(event.recipient):
            self.broken(event.seq, f"a tool starts for {event.recipient}, stopped by event {stop}")

    def on_ModelReplied(
        self, event: Event, body: ModelReplied | ToolReturned | ApprovalGiven | CapacityGiven | BudgetGiven
    ) -> None:
        """Check that a request made after the Stop is answered as not started."""
        status = body.verdict if isinstance(body, ApprovalGiven) else body.status
        if event.cause in self._refused and status != "cancelled":
            self.broken(event.seq, f"event {event.cause} came after the Stop and was acted on")

    on_ApprovalGiven = on_CapacityGiven = on_BudgetGiven = on_ModelReplied

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Check the same of a tool call, unless an earlier run or round of it may have acted."""
        call = (event.recipient, body.turn, body.call)
        if body.status != "interrupted" or call not in self._interrupted:
            self.on_ModelReplied(event, body)
        if body.status in ("interrupted", "input_required"):
            self._interrupted.add(call)


class OnlyDrains(Invariant):
    """The posts of stopped agents."""

    name = "only-drains"
    rule = "An agent that was stopped posts nothing but `Stopped` or a failure of its decider."

    def on_any(self, event: Event, body: AnyMessage) -> None:
        """Check an event that the agent posts on its Stop or on anything later."""
        stop = self.facts.stops.get(event.sender)
        if stop is not None and event.cause >= stop and not isinstance(body, (Stopped, DeciderFailed)):
            self.broken(event.seq, f"{event.sender} posts {event.kind} after its Stop, event {stop}")


class TransitiveStop(Invariant):
    """Trees end as trees, and races as races."""

    name = "transitive-stop"
    rule = "An agent that ends stops its descendants, deepest first; a delegation that ends stops its agents."
    _running: set[str] = set()  # from their Begin until they finished, won or were stopped
    _below: Counter[str] = field(default_factory=Counter)  # so that few agents are searched for descendants

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Update the running agents by one decision, and check that no descendant of an ended one is left."""
        ended = [event.sender] if isinstance(body, Finished) else []
        worked_on: list[str] = []
        for who in ended:
            self._end(who)
        for output in outputs:
            who = output.recipient
            match output.body:
                case Begin() if who not in self._running:
                    self._running.add(who)
                    self._count(who, 1)
                case Stop():
                    if left := self._left_below(who):
                        self.broken(output.seq, f"{who} is stopped before {left}")
                    ended.append(who)
                    self._end(who)
                case ReportJudged(verdict="accepted"):
                    ended.append(who)
                case DelegationEnded(turn=turn, call=call):
                    worked_on += self.facts.copies.get((who, turn, call), ())
                case _:
                    pass
        self._check(event, ended, worked_on)

    def _check(self, event: Event, ended: list[str], worked_on: list[str]) -> None:
        for who in ended:
            self._end(who)
        for who in ended:
            if left := self._left_below(who):
                self.broken(event.seq, f"{who} has ended and {left} below it still runs")
        for who in sorted(self._running.intersection(worked_on)):
            self.broken(event.seq, f"{who} still runs, but its delegation has ended")

    def _end(self, who: str) -> None:
        if who in self._running:
            self._running.remove(who)
            self._count(who, -1)

    def _left_below(self, who: str) -> str:
        """Return the running agents below an agent, as text."""
        if not self._below[who]:
            return ""
        return ", ".join(sorted(one for one in self._running if one.startswith(who + ".")))

    def _count(self, who: str, by: int) -> None:
        above = parent_of(who)
        while is_agent(above):
            self._below[above] += by
            above = parent_of(above)


class Started(Invariant):
    """Statuses of calls of write tools."""

    name = "started"
    rule = "A write tool has no result before its start, and no interrupted call is `cancelled` later."
    _waiting: set[int] = set()
    _held: set[int] = set()  # until their recorded answers, in a fork
    _reads: set[int] = set()
    _interrupted: set[Call] = set()
    _asks: bool = False

    def on_Forked(self, event: Event, body: Forked) -> None:
        """Record whether a person decides about calls of a fork, which may get a result without a start."""
        self._asks = body.effects == "ask"

    def on_CallTool(self, event: Event, body: CallTool) -> None:
        """Record a call."""
        if body.effect == "write":
            self._waiting.add(event.seq)
        elif body.effect == "read":
            self._reads.add(event.seq)

    def on_ToolStarted(self, event: Event, body: ToolStarted) -> None:
        """Record the start of a write tool, or that it waits for its recorded answer."""
        if body.reused:
            self._held.add(event.cause)
        else:
            self._waiting.discard(event.cause)

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Compare the status of an answer with what may have happened."""
        call = (event.recipient, body.turn, body.call)
        if body.status == "needs_effect" or (self._asks and (body.status == "error" or body.reused)):
            self._waiting.discard(event.cause)
        if body.reused and event.cause in self._held:
            self._waiting.discard(event.cause)
        if why := self._why_false(event.cause, body.status, call in self._interrupted):
            self.broken(event.seq, f"call {body.turn}.{body.call} of {event.recipient} {why}")
        asks_on = body.status == "input_required" and event.cause not in self._reads
        if asks_on or body.status == "interrupted":
            self._interrupted.add(call)
        self._waiting.discard(event.cause)

    def _why_false(self, request: int, status: str, was_interrupted: bool) -> str:
        """Return why this status is false; empty if it may be true."""
        # The first attempt of an interrupted call may have acted, so a second one is never `cancelled`. Any
        # other call may be, also one that has started: it may have waited for the disk only.
        why, always = (
            ("was interrupted before", "interrupted") if was_interrupted else ("had not started", "cancelled")
        )
        is_false = status != always and (status == "cancelled" or request in self._waiting)
        return f"{why} and is told as {status}" if is_false else ""
