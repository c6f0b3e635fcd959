"""A simulated session under shared budgets: a request becomes a move once it has its answer."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import BudgetGiven, RequestBudget
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
from callboard.actors.session.recovery import Recovered
from callboard.replay.testing.sessions.board import Request
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.placed_session import CapacityLines, PlacedSession
from callboard.replay.testing.sessions.scenario import Scenario


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
