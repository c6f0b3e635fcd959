"""The books of a session, kept a second time from its log: spent and reserved, by scope, at every event.

A scope is an agent and all below it; the host's is the session's. For models that use no more than they may,
which is what a budget can promise.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from callboard.actors.protocol.addresses import HOST, is_agent, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.limits import Limits, fill, micro, narrow
from callboard.actors.protocol.messages import Ask, Begin, Delegate, Finished, Stopped, TurnRequested
from callboard.actors.protocol.port_messages import CallModel, CapacityGiven, RequestCapacity
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage, plus
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor.budgets import add, charge_of, subtract
from callboard.replay.testing.rules.facts import Facts


class Scope(msgspec.Struct, eq=False):
    """The budget of an agent's subtree, and its amounts spent and reserved. closing: for its next turn."""

    address: str
    tokens: int | None
    micro_usd: int | None
    spent: Usage = ZERO
    reserved: Need = NOTHING
    closing: Need = NOTHING

    def may_hold(self, need: Need) -> bool:
        """Return whether the limits allow this need beside the amount spent."""
        tokens, cost = self.spent.tokens + need.tokens, self.spent.micro_usd + need.micro_usd
        return (self.tokens is None or tokens <= self.tokens) and (
            self.micro_usd is None or cost <= self.micro_usd
        )


_NO_WISH = TurnRequested(0)
"""Stands in for what a log does not hold; other rules find that."""


_UNSTATED = {Finished: Settled(), Stopped: Settled()}
"""An agent that ends without accounting is charged its reservation."""


class Ledger(msgspec.Struct, eq=False):
    """The scopes, the grants that are open and the wishes of a session, after each event that was handled."""

    facts: Facts
    scopes: dict[str, Scope] = {}
    grants: dict[str, TurnRequested] = {}
    steps: set[str] = set()  # the agents of grants that hold no slot: steps of programs
    places: set[str] = set()  # the agents whose grants wait for a place of the capacity port
    claims: list[tuple[Event, str]] = []  # what the last decision reserved: for `CallModel` and waiting ones
    asked: dict[str, TurnRequested] = {}  # the latest turn that each agent requested
    wishes: dict[str, Need] = {}
    agents: int = 1  # that ever began, racers included
    children: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)  # by parent and turn
    has_budgets: bool = False  # whether some scope ever had a limit
    ask_spent: Usage = ZERO  # the charges when the running ask began
    # The wish whose grant the last event settled, if any, and the usage that it states.
    settled: tuple[TurnRequested, Usage | None] | None = None

    @property
    def in_flight(self) -> int:
        """Return the number of grants that hold a slot."""
        return len(self.grants) - len(self.steps)

    @property
    def spent(self) -> Usage:
        """Return the total charge of the session."""
        host = self.scopes.get(HOST)
        return host.spent if host else ZERO

    def handled(self, event: Event, outputs: Sequence[Event]) -> None:
        """Update the books by one decision of the supervisor: its event first, then its outputs."""
        body = event.body
        self.settled = self._settle(event)
        self.claims = []
        if isinstance(body, TurnRequested):
            self._ask(event.sender, body)
        elif isinstance(body, Delegate | Ask) and self.facts.is_taken_on(event, outputs):
            self._take_on(event.sender, body)
        elif isinstance(body, CapacityGiven):
            self._place(body.agent, outputs)
        for output in outputs:
            self._posted(output)

    def _ask(self, who: str, body: TurnRequested) -> None:
        self.asked[who] = body
        if (scope := self.scopes.get(who)) is not None:
            self.wishes[who] = body.need
            if body.attempt == 1:
                scope.closing = NOTHING  # this is the turn that its delegations kept room for

    def _take_on(self, who: str, body: Delegate | Ask) -> None:
        if isinstance(body, Ask):
            self.ask_spent = self.spent
            return
        if who in self.scopes:
            self.scopes[who].closing = body.closing
        if who in self.facts.lives:
            self.agents += len(body.profiles) if body.implicit == NULL else 0
            self.children[who, body.turn] += len(body.profiles)

    def _settle(self, event: Event) -> tuple[TurnRequested, Usage | None] | None:
        body, who = event.body, event.sender
        settled = getattr(body, "settled", None) or _UNSTATED.get(type(body))
        # A request that waits for a place is released by its answer, and charged nothing.
        if settled is None or who in self.places or (grant := self.grants.pop(who, None)) is None:
            return None
        self.steps.discard(who)
        used = charge_of(grant.need, settled.usage)
        for scope in self.above(who):
            scope.reserved = subtract(scope.reserved, grant.need)
            scope.spent = plus(scope.spent, used)
        return grant, settled.usage

    def _place(self, who: str, outputs: Sequence[Event]) -> None:
        """Let a request wait no longer for its place. Release its reservation if no call follows."""
        if who not in self.places:
            return
        self.places.remove(who)
        if not any(isinstance(one.body, CallModel) and one.body.agent == who for one in outputs):
            grant = self.grants.pop(who)
            for scope in self.above(who):
                scope.reserved = subtract(scope.reserved, grant.need)

    def _posted(self, output: Event) -> None:
        """Open a scope, or reserve a grant."""
        body = output.body
        if isinstance(body, Begin):
            scope = self.scopes[output.recipient] = self._scope(output.recipient, body)
            self.has_budgets |= scope.tokens is not None or scope.micro_usd is not None
        elif isinstance(body, CallModel | RequestCapacity) and body.agent not in self.grants:
            wish = self.grants[body.agent] = self.asked.get(body.agent, _NO_WISH)
            if wish.need == NOTHING:  # a program's step claims nothing
                self.steps.add(body.agent)
                return
            self.claims.append((output, body.agent))
            for scope in self.above(body.agent):
                scope.reserved = add(scope.reserved, wish.need)
            if isinstance(body, RequestCapacity):
                self.places.add(body.agent)

    def above(self, address: str) -> Iterator[Scope]:
        """Yield the scopes of an agent and of all above it."""
        while is_agent(address):
            if (scope := self.scopes.get(address)) is not None:
                yield scope
            address = parent_of(address)

    def could_ever_fit(self, who: str) -> bool:
        """Return whether an agent's last wish fits beside the charges and the closing turns above it."""
        return all(scope.may_hold(kept) for scope, kept in self.held(who, self.wishes.get(who, NOTHING)))

    def held(self, who: str, need: Need) -> Iterator[tuple[Scope, Need]]:
        """Yield each scope above an agent, its own first, with this need and the closing turns between."""
        for scope in self.above(who):
            need = add(need, scope.closing) if scope.address != who else need
            yield scope, need

    def _scope(self, who: str, begin: Begin) -> Scope:
        if who != HOST:
            return Scope(who, begin.limits.tokens, micro(begin.limits.cost_usd))
        own = self.facts.lives[HOST].profile.limits
        opened, running = self.facts.opened, self.facts.running
        session = narrow(fill(opened.limits if opened else Limits()), own)
        ask = running[1].limits if running else fill(own)
        tokens = None if ask.tokens is None else self.ask_spent.tokens + ask.tokens
        cost = None if ask.cost_usd is None else self.ask_spent.micro_usd + (micro(ask.cost_usd) or 0)
        return Scope(who, _least(session.tokens, tokens), _least(micro(session.cost_usd), cost), self.spent)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
