"""The books of a session, kept a second time from its log: spent and reserved, by scope, at every event.

A scope is an agent and all below it; the host's is the session's. For models that use no more than they may,
which is what a budget can promise.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from callboard.actors.protocol.addresses import HOST, is_agent, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import fill, micro, narrow
from callboard.actors.protocol.messages import (
    Ask,
    Begin,
    CallModel,
    CheckSchema,
    Delegate,
    DelegationEnded,
    Finished,
    Stopped,
    TurnRequested,
)
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage, plus
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor.budgets import add, charge_of, subtract
from callboard.replay.testing.rules.facts import Facts, Handled


class Scope:
    """What an agent and all below it may use, spent, and reserved. closing: what its own next turn needs."""

    __slots__ = ("closing", "cost", "reserved", "spent", "tokens")

    def __init__(self, tokens: int | None, cost: int | None, spent: Usage = ZERO) -> None:
        self.tokens = tokens
        self.cost = cost
        self.spent = spent
        self.reserved = NOTHING
        self.closing = NOTHING

    def may_hold(self, need: Need) -> bool:
        """Return whether the limits allow this need beside the amount spent."""
        tokens, cost = self.spent.tokens + need.tokens, self.spent.cost + need.cost
        return (self.tokens is None or tokens <= self.tokens) and (self.cost is None or cost <= self.cost)


_NO_WISH = TurnRequested(0)
"""Stands in for what a log does not hold; other rules find that."""


class Settlement(NamedTuple):
    """The end of a grant, as its agent stated it. grant: the wish that was granted. seq: of the message with
    the settlement.
    """

    grant: TurnRequested
    who: str
    usage: Usage | None
    seq: int


class Ledger:
    """The scopes, the grants that are open and the wishes of a session, after each event that was handled.

    asked: the latest turn that each agent requested. has_budgets: whether some scope ever had a limit.
    ask_spent: the charges when the running ask began.
    settlement: what the last event settled, if any.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.scopes: dict[str, Scope] = {}
        self.grants: dict[str, TurnRequested] = {}
        self.asked: dict[str, TurnRequested] = {}
        self.wishes: dict[str, Need] = {}
        self.has_budgets = False
        self.ask_spent: Usage = ZERO
        self.settlement: Settlement | None = None

    @property
    def spent(self) -> Usage:
        """Return the total charge of the session."""
        host = self.scopes.get(HOST)
        return host.spent if host else ZERO

    def handled(self, handled: Handled) -> None:
        """Update the books by one decision of the supervisor: its event first, then its outputs."""
        event, outputs = handled
        body = event.body
        self.settlement = self._settle(event)
        if isinstance(body, TurnRequested):
            self.asked[event.sender] = body
        if isinstance(body, TurnRequested) and event.sender in self.scopes:
            self.wishes[event.sender] = body.need
            if body.attempt == 1:
                self.scopes[event.sender].closing = NOTHING
        elif (
            isinstance(body, Delegate)
            and is_taken_on(self.facts, event, outputs)
            and event.sender in self.scopes
        ):
            self.scopes[event.sender].closing = body.closing
        elif isinstance(body, Ask) and is_taken_on(self.facts, event, outputs):
            self.ask_spent = self.spent
        for output in outputs:
            self._posted(output)

    def _settle(self, event: Event) -> Settlement | None:
        body, who = event.body, event.sender
        settled = getattr(body, "settled", None)
        if isinstance(body, Finished | Stopped):
            settled = settled or Settled()  # an agent that ends without accounting is charged its reservation
        if settled is None or (grant := self.grants.pop(who, None)) is None:
            return None
        used = charge_of(grant.need, settled.usage)
        for scope in self.above(who):
            scope.reserved = subtract(scope.reserved, grant.need)
            scope.spent = plus(scope.spent, used)
        return Settlement(grant, who, settled.usage, event.seq)

    def _posted(self, output: Event) -> None:
        """Open a scope, or reserve a grant."""
        body = output.body
        if isinstance(body, Begin):
            scope = self.scopes[output.recipient] = self._scope(output.recipient, body)
            self.has_budgets = self.has_budgets or scope.tokens is not None or scope.cost is not None
        elif isinstance(body, CallModel):
            wish = self.grants[body.agent] = self.asked.get(body.agent, _NO_WISH)
            for scope in self.above(body.agent):
                scope.reserved = add(scope.reserved, wish.need)

    def above(self, address: str) -> Iterator[Scope]:
        """Yield the scopes of an agent and of all above it."""
        while is_agent(address):
            if (scope := self.scopes.get(address)) is not None:
                yield scope
            address = parent_of(address)

    def could_ever_fit(self, who: str) -> bool:
        """Return whether an agent's last wish fits beside the charges and the closing turns above it."""
        kept = self.wishes.get(who, NOTHING)
        for index, scope in enumerate(self.above(who)):
            kept = add(kept, scope.closing) if index else kept
            if not scope.may_hold(kept):
                return False
        return True

    def _scope(self, who: str, begin: Begin) -> Scope:
        if who != HOST:
            return Scope(begin.limits.tokens, micro(begin.limits.cost))
        own = self.facts.lives[HOST].profile.limits
        session, running = narrow(fill(self.facts.limits), own), self.facts.running
        ask = running[1].limits if running else fill(own)
        tokens = None if ask.tokens is None else self.ask_spent.tokens + ask.tokens
        cost = None if ask.cost is None else self.ask_spent.cost + (micro(ask.cost) or 0)
        return Scope(_least(session.tokens, tokens), _least(micro(session.cost), cost), self.spent)


def is_taken_on(facts: Facts, event: Event, outputs: Sequence[Event]) -> bool:
    """Return whether a delegation or an ask was accepted: an agent begins, or a schema is checked."""
    if any(isinstance(one.body, Begin | CheckSchema) for one in outputs):
        return True
    return event.seq in facts.waiting and not any(_is_its_end(event, one) for one in outputs)


def _is_its_end(event: Event, output: Event) -> bool:
    """Return whether this output ends the delegation that the event asks for."""
    body, end = event.body, output.body
    return (
        isinstance(body, Delegate)
        and isinstance(end, DelegationEnded)
        and (output.recipient, end.turn, end.call) == (event.sender, body.turn, body.call)
    )


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
