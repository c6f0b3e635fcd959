"""Simulated sessions that share places or budgets with others.

A simulated session that shares places with others: a request becomes a move once it has its place.

A simulated session under shared budgets: a request becomes a move once it has its answer.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import BudgetGiven, CallModel, RequestBudget, RequestCapacity
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.budget_keys import (
    BudgetKeys,
    CallKey,
    Reservation,
    SpendingChange,
    open_in,
)
from callboard.actors.session.budget_scope import Refused
from callboard.actors.session.budgets import Given
from callboard.actors.session.port_actions import Start
from callboard.actors.session.port_table import owner_of
from callboard.actors.session.recovery import Recovered
from callboard.replay.testing.sessions.board import Request
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld


class CapacityLines(Protocol):
    """The lines of all models, and the clock of all sessions."""

    def is_limited(self, model: str) -> bool:
        """Return whether the calls of a model need places."""
        ...

    def request(self, session: str, agent: str, model: str, tokens: int) -> None:
        """Take a request into the line of its model."""
        ...

    def give_back(self, session: str, agent: str, used: int | None) -> None:
        """End an agent's request or place. used: the tokens of its call; None if not known."""
        ...

    def leave(self, session: str) -> None:
        """End all requests and places of a session."""
        ...

    def advance(self, now: int) -> None:
        """Advance the clock of all sessions, and offer the moves that are due."""
        ...


class PlacedSession(SessionWorld):
    """A session on a shared capacity port. name: among the sessions of its world."""

    def __init__(self, scenario: Scenario, memory: Memory | None, name: str, port: CapacityLines) -> None:
        self.name = name
        self.port = port
        self.held: dict[str, str] = {}  # the strands that wait for a place, by agent
        self.late: dict[int, str] = {}  # the faults that tell how an aborted request is answered
        super().__init__(scenario, memory)

    def start(self, start: Start) -> None:
        """Start a request, or let it wait for its place."""
        super().start(start)
        request, agent = start.request, owner_of(start.request)
        body = request.body
        if isinstance(body, RequestCapacity):
            self._hold(request, agent, body.model, body.need.tokens)
        elif isinstance(body, CallModel) and agent not in self.gate.places:
            model = self.agent(agent).model.name
            if self.port.is_limited(model):
                self._hold(request, agent, model, self.gate.wish_of(request).need.tokens)

    def _hold(self, request: Event, agent: str, model: str, tokens: int) -> None:
        strand = next(one.strand for one in self.requests.values() if one.event.seq == request.seq)
        self.offers.pop(strand, None)
        self.held[agent] = strand
        self.port.request(self.name, agent, model, tokens)

    @property
    def can_leave(self) -> bool:
        """Return whether the session runs in the process."""
        return self.failure is None and self.down is None and not self.is_closed

    def placed(self, agent: str) -> None:
        """Let the request of an agent act: its place is given."""
        strand = self.held[agent]
        request = self.requests[strand].event
        if isinstance(request.body, CallModel):
            if not self.gate.may_start(request):  # the process detaches, so the call never starts in it
                self.port.give_back(self.name, agent, 0)
                return
            self.gate.places.add(agent)
        else:
            self.late[request.seq] = "finished"  # posted as given, also if its agent is stopped meanwhile
        del self.held[agent]
        self.offer(strand, self.actor_of(strand), "port")

    def is_in_line(self, request: Request) -> bool:
        """Return whether a request waits for a place, or was given up in line."""
        return request.strand in self.held.values() or request.event.seq in self.late

    def known_places(self) -> set[str]:
        """Return the agents with a place: those of calls, and those whose place is on its way."""
        ways = [
            owner_of(one.event)
            for one in self.requests.values()
            if isinstance(one.event.body, RequestCapacity)
            and one.strand not in self.held.values()
            and one.event.seq not in self.aborted
        ]
        return {*ways, *self.gate.places} if self.failure is None and self.down is None else set()

    def in_flight(self, model: str) -> int:
        """Return the number of started calls of a model: not of those that wait, or were given up in line."""
        started = [one.event.body for one in self.requests.values() if not self.is_in_line(one)]
        agents = [body.agent for body in started if isinstance(body, CallModel)]
        return sum(self.agent(agent).model.name == model for agent in agents)

    def abort(self, request: Event) -> None:
        """Make the port give up a request; its place, if it has one, is free."""
        agent = owner_of(request)
        if isinstance(request.body, RequestCapacity) or agent in self.held:
            self.port.give_back(self.name, agent, 0)
            if self.held.pop(agent, None) and isinstance(request.body, CallModel):
                self.late[request.seq] = "unstarted"
        super().abort(request)

    def reply(self, strand: str, fault: str = "") -> None:
        """Answer the request of a strand."""
        request = self.requests.get(strand)
        if request is not None and request.event.seq in self.aborted:
            fault = fault or self.late.get(request.event.seq, "")
        super().reply(strand, fault)

    def give_back(self, agent: str, usage: Usage | None) -> None:
        """Give back an agent's place."""
        self.port.give_back(self.name, agent, None if usage is None else usage.tokens)

    def withdraw_all(self) -> None:
        """Forget all moves, and leave the lines."""
        super().withdraw_all()
        self.held.clear()
        self.late.clear()
        self.port.leave(self.name)

    def look_ahead(self) -> None:
        """Do nothing: the world advances the clock of all sessions."""

    def jump(self) -> None:
        """Advance the clock of all sessions to the next due time of this one."""
        if self.later:
            self.port.advance(min(self.later.values()))

    def note_rescue(self) -> None:
        """Record that only a deadline can end the session, if one is running and no person is silent."""
        if self.later and self.running and not self.rescued and not self.is_ignored():
            self.rescued = min(self.later)

    def wake_at(self, now: int) -> None:
        """Set the clock and offer the moves that are due."""
        self.now = now
        for strand in [strand for strand, due in self.later.items() if due <= now]:
            self._due(strand)


class SharedScopes(CapacityLines, Protocol):
    """The scopes of all sessions, and the lines of capacity beside them."""

    def reserve(self, key: CallKey, scopes: tuple[str, ...], asked: RequestBudget) -> None:
        """Reserve a call, or let it wait. The session hears of the answer."""
        ...

    def cancel(self, key: CallKey) -> None:
        """Let a call wait no more."""
        ...

    def settle(self, changes: Iterable[SpendingChange]) -> None:
        """Charge the calls that are settled."""
        ...

    def begin(self, session: str, epoch: int, held: Sequence[Reservation]) -> None:
        """Let a session run under an epoch."""
        ...

    def depart(self, session: str) -> None:
        """Let a session leave the process."""
        ...


class BudgetedSession(PlacedSession):
    """A session under shared budgets. keys: those that its log holds open."""

    def __init__(self, scenario: Scenario, memory: Memory | None, name: str, port: SharedScopes) -> None:
        self.budgets = port
        self.keys = BudgetKeys(name, 1)
        self.asking: dict[int, str] = {}  # the strands of requests that wait, by seq
        self.answers: dict[int, BudgetGiven] = {}
        port.begin(name, 1, ())
        super().__init__(scenario, memory, name, port)

    # --- the log --------------------------------------------------------------------

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post, and settle what the new events settle."""
        begun = len(self.log)
        super().post(sender, cause, posts)
        self.budgets.settle(self.keys.take(self.log[begun:]))

    def resume(self, log: Sequence[Event], *, reopens: bool = False) -> None:
        """Hand the open reservations of the log over, then go on."""
        self.keys = open_in(self.name, self.keys.epoch + 1, log)
        self.budgets.begin(self.name, self.keys.epoch, self.keys.open)
        super().resume(log, reopens=reopens)

    def restore(self, log: list[Event], recovered: Recovered) -> None:
        """Settle what recovery has settled, then start the open requests."""
        self.budgets.settle(self.keys.take(recovered.posted))
        super().restore(log, recovered)

    # --- the port -------------------------------------------------------------------

    def start(self, start: Start) -> None:
        """Start a request. One for budgets becomes a move once it is answered."""
        super().start(start)
        request, body = start.request, start.request.body
        if isinstance(body, RequestBudget):
            strand = next(one.strand for one in self.requests.values() if one.event.seq == request.seq)
            self.offers.pop(strand, None)
            self.asking[request.seq] = strand
            self.budgets.reserve(self._key(body), tuple(self.scenario.scopes), body)

    def _key(self, body: RequestBudget) -> CallKey:
        return CallKey(self.name, self.keys.epoch, body.agent, body.turn, body.attempt)

    def budget_given(self, agent: str, answer: Given | Refused) -> None:
        """Take the answer to a request that waits; a move posts it."""
        seq = next(seq for seq, strand in self.asking.items() if self._agent_of(strand) == agent)
        strand = self.asking.pop(seq)
        body = self.requests[strand].event.body
        assert isinstance(body, RequestBudget)
        agent, turn, attempt = body.agent, body.turn, body.attempt
        if isinstance(answer, Given):
            self.answers[seq] = BudgetGiven(agent, turn, attempt, "given", answer.spans)
        else:
            self.answers[seq] = BudgetGiven(agent, turn, attempt, "refused", (), *answer)
        self.late[seq] = "finished"  # posted as given, also if its agent is stopped meanwhile
        self.offer(strand, self.actor_of(strand), "port")

    def _agent_of(self, strand: str) -> str:
        body = self.requests[strand].event.body
        assert isinstance(body, RequestBudget)
        return body.agent

    def _answer(self, event: Event, fault_mode: str) -> Post:
        given = self.answers.pop(event.seq, None)
        return super()._answer(event, fault_mode) if given is None else Post(SUPERVISOR, given)

    def is_in_line(self, request: Request) -> bool:
        """Return whether a request waits for an answer that no fault of its own changes."""
        return isinstance(request.event.body, RequestBudget) or super().is_in_line(request)

    def abort(self, request: Event) -> None:
        """Make the port give up a request."""
        body = request.body
        if isinstance(body, RequestBudget) and self.asking.pop(request.seq, None) is not None:
            self.budgets.cancel(self._key(body))
        super().abort(request)

    def withdraw_all(self) -> None:
        """Forget all moves, and leave the scopes."""
        super().withdraw_all()
        self.asking.clear()
        self.answers.clear()
        self.budgets.depart(self.name)
