"""The budgets of a session, worked out anew from its log: what was spent and reserved after every event.

The supervisor handles its inbox in the order of the log, and what it posts names the event it handled as
its cause. That is all this uses; for models that use no more than they may.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from callboard.actors.accounts import add, charge_of, subtract
from callboard.actors.addresses import HOST, SUPERVISOR, is_agent, parent_of
from callboard.actors.events import Event
from callboard.actors.limits import micro, narrow
from callboard.actors.messages import (
    Ask,
    AskEnded,
    Begin,
    CallModel,
    Delegate,
    DelegationEnded,
    Finished,
    Settled,
    Stop,
    Stopped,
    TurnRequested,
)
from callboard.actors.usage import NOTHING, Need
from tests.world import World


@dataclass
class Scope:
    """What an agent and all below it may use, and what they have spent and reserved at a moment."""

    tokens: int | None
    cost: int | None
    spent: Need = NOTHING
    reserved: Need = NOTHING
    closing: Need = NOTHING

    def may_hold(self, need: Need) -> bool:
        """Whether so much is within the limits."""
        is_within = self.tokens is None or need.tokens <= self.tokens
        return is_within and (self.cost is None or need.cost <= self.cost)


@dataclass
class Ledger:
    """The scopes, the grants in flight and the wishes of a session, after so many events."""

    world: World
    scopes: dict[str, Scope] = field(default_factory=dict)
    grants: dict[str, Need] = field(default_factory=dict)
    wishes: dict[str, Need] = field(default_factory=dict)

    def hear(self, event: Event, outputs: list[Event]) -> None:
        """An event of the supervisor's inbox, and what it posts on it, before that counts."""
        who, body = event.sender, event.body
        settled = getattr(body, "settled", None)
        if isinstance(body, Finished | Stopped):
            settled = settled or Settled()  # who leaves without accounting is charged what was reserved
        if settled is not None and who in self.grants:
            need = self.grants.pop(who)
            used = charge_of(need, settled.usage)
            for scope in self.above(who):
                scope.reserved = subtract(scope.reserved, need)
                scope.spent = add(scope.spent, Need(used.tokens, used.cost))
        if isinstance(body, TurnRequested) and who in self.scopes:
            self.wishes[who] = body.need
            if body.attempt == 1:
                self.scopes[who].closing = NOTHING
        if isinstance(body, Delegate) and not any(_denies(output, body, who) for output in outputs):
            self.scopes[who].closing = body.closing

    def post(self, output: Event) -> None:
        """What the supervisor posted."""
        body = output.body
        if isinstance(body, Begin):
            self.scopes[output.recipient] = self._scope(output, body)
        elif isinstance(body, CallModel):
            self.grants[body.agent] = body.need
            for scope in self.above(body.agent):
                scope.reserved = add(scope.reserved, body.need)

    def above(self, address: str) -> Iterator[Scope]:
        """The scopes of an agent and of all above it."""
        while is_agent(address):
            yield self.scopes[address]
            address = parent_of(address)

    def _scope(self, event: Event, begin: Begin) -> Scope:
        if event.recipient != HOST:
            return Scope(begin.limits.tokens, micro(begin.limits.cost))
        spent = self.scopes[HOST].spent if HOST in self.scopes else NOTHING
        before = [one.body for one in self.world.log[: event.seq]]
        ended = {body.request_id for body in before if isinstance(body, AskEnded)}
        ask = next(b.limits for b in before if isinstance(b, Ask) and b.request_id not in ended)
        session = narrow(self.world.limits, self.world.profiles[0].limits)
        own_tokens = None if ask.tokens is None else spent.tokens + ask.tokens
        own_cost = None if ask.cost is None else spent.cost + (micro(ask.cost) or 0)
        return Scope(_least(session.tokens, own_tokens), _least(micro(session.cost), own_cost), spent)


def _denies(output: Event, request: Delegate, who: str) -> bool:
    body = output.body
    if not isinstance(body, DelegationEnded) or output.recipient != who:
        return False
    return (body.turn, body.call) == (request.turn, request.call)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def budgets_are_kept_and_nothing_is_refused_that_would_fit(world: World) -> None:
    """Spent and reserved stay within every limit; who ends as `budget` could never have had its turn."""
    outputs: dict[int, list[Event]] = {}
    for event in world.log:
        if event.sender == SUPERVISOR:
            outputs.setdefault(event.cause, []).append(event)
    ledger = Ledger(world)
    for event in world.log:
        if event.recipient != SUPERVISOR:
            continue
        posted = outputs.get(event.seq, [])
        ledger.hear(event, posted)
        for output in posted:
            ledger.post(output)
            if isinstance(output.body, Stop) and output.body.reason == "budget":
                assert not _could_ever_fit(ledger, output.recipient), f"event {output.seq} refuses too much"
        for address, scope in ledger.scopes.items():
            assert scope.may_hold(add(scope.spent, scope.reserved)), f"{address} has exceeded its budget"


def _could_ever_fit(ledger: Ledger, who: str) -> bool:
    kept = ledger.wishes[who]
    for place, scope in enumerate(ledger.above(who)):
        kept = add(kept, scope.closing) if place else kept
        if not scope.may_hold(add(scope.spent, kept)):
            return False
    return True
