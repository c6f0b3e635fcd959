"""Admission of model calls: the order of the queue, and the room that closing turns need."""

from collections.abc import Iterator
from typing import NamedTuple

from callboard.actors.protocol.addresses import HOST, is_agent, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import CallModel, Finished, Stop, Stopped, TimerFired, TurnRequested
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.supervisor.budgets import add, subtract
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.ledger import Ledger, Scope


class Closing(Invariant):
    """What agents below must leave."""

    name = "closing-turns"
    rule = "A call leaves room for the closing turns of all agents above its own."

    def handled(self, handled: Handled) -> None:
        """Grants one after the other: what later ones of the same decision reserve is not there yet."""
        if not handled.outputs:
            return
        grants = [one for one in handled.outputs if isinstance(one.body, CallModel)]
        for index, grant in enumerate(grants):
            body = grant.body
            assert isinstance(body, CallModel)
            kept = NOTHING
            for who, scope in _above(self.ledger, body.agent):
                kept = add(kept, scope.closing) if who != body.agent else kept
                held = add(kept, _reserved(self.ledger, scope, who, grants[index + 1 :]))
                if not scope.may_hold(held):
                    self.broken(grant.seq, f"in the scope of {who} nothing is left for a closing turn")
                    break


_LAST = 1 << 62
"""The place of one whose back-off may be over."""


class _Waiting(NamedTuple):
    """A wish that is not granted. order: when it took its place in line."""

    order: int
    need: Need


class FirstCome(Invariant):
    """First come, first served.

    The exhausted scopes change while an agent waits, and the supervisor does not look at an agent again
    before there is room where it waits. So an earlier agent is overtaken in two cases: all scopes that hold
    it now are above the granted one; or one of them is, and has held it since it took its place behind no
    other agent.
    """

    name = "first-come"
    rule = "No call overtakes an earlier one in a budget that both wait for, and the first never waits idly."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._line: dict[str, _Waiting] = {}
        self._held: dict[str, set[str]] = {}
        self._later: dict[str, TurnRequested] = {}
        self._doubtful: tuple[int, str] | None = None

    def handled(self, handled: Handled) -> None:
        """Update the queue by one decision and check each grant in it."""
        event, outputs = handled
        if outputs:
            self._confirm()
        self._join(event)
        if not self._line and not self._later:
            return  # no agent waits, the usual case
        if len(self._line) == len(outputs) == 1 and self._is_all(outputs[0]):
            self._line.clear()
            self._held.clear()
            return
        grants = [one for one in outputs if isinstance(one.body, CallModel)]
        gone = {one.recipient for one in outputs if isinstance(one.body, Stop)}
        for who in gone:
            self._leave(who)
        # without a budget no agent is held: looking at all who wait took 47 s for 1,000 waiting agents
        has_budgets = self.ledger.has_budgets
        if has_budgets:
            self._hold(grants)
        for index, grant in enumerate(grants):
            assert isinstance(grant.body, CallModel)
            mine = self._line.pop(grant.body.agent, None)
            self._held.pop(grant.body.agent, None)
            if mine is not None and has_budgets:
                self._check(grant, grant.body.agent, mine, grants[index:])
        self._look_for_idle(event)

    def _is_all(self, output: Event) -> bool:
        """Return whether this grants the only agent that waits, so that no other is overtaken."""
        return isinstance(output.body, CallModel) and output.body.agent in self._line

    def quiet(self, seq: int) -> None:
        """Report a doubtful breach: every event was handled."""
        self._confirm()

    def _confirm(self) -> None:
        """Report a doubtful breach, now that a later decision shows that its event was handled."""
        if self._doubtful is not None:
            self.broken(*self._doubtful)
            self._doubtful = None

    def _look_for_idle(self, event: Event) -> None:
        """Check after a decision that the first agent in the queue was granted if its call fits."""
        host = self.facts.lives.get(HOST)
        slots = (host.begin.limits.max_parallel_calls if host else None) or 1
        if not self._line or len(self.ledger.grants) >= slots:
            return
        for who, waiting, held in self._in_order([]):
            if waiting.order < _LAST and not held:
                self._doubtful = self._doubtful or (event.seq, f"{who} waits, and nothing is in its way")
                return

    def _in_order(self, not_yet: list[Event]) -> Iterator[tuple[str, _Waiting, set[str]]]:
        """Yield the waiting agents in order, each with the scopes it waits at: for room, or behind others."""
        taken: set[str] = set()
        for who, waiting in sorted(self._line.items(), key=lambda item: item[1].order):
            above = {address for address, _ in _above(self.ledger, who)}
            held = self._exhausted(who, waiting.need, not_yet) | taken & above
            yield who, waiting, held
            taken |= held

    def _join(self, event: Event) -> None:
        body, life = event.body, self.facts.lives.get(event.sender)
        if isinstance(body, TurnRequested):
            if life is None or 0 < life.ended_by < event.seq:
                return  # it is ignored
            if body.after_ms:
                self._later[event.sender] = body
            else:
                self._line[event.sender] = _Waiting(event.seq, body.need)
        elif isinstance(body, Finished | Stopped):
            self._leave(event.sender)

    def on_TimerFired(self, event: Event) -> None:
        """Enqueue every agent in back-off at the end: the log does not say whose back-off is over."""
        assert isinstance(event.body, TimerFired)
        for who, wanted in self._later.items():
            self._line[who] = _Waiting(_LAST, wanted.need)
        self._later.clear()

    def _hold(self, not_yet: list[Event]) -> None:
        """Update the scopes that have held each agent which waits behind no other."""
        taken: set[str] = set()
        for who, waiting in sorted(self._line.items(), key=lambda item: item[1].order):
            above = {address for address, _ in _above(self.ledger, who)}
            exhausted, behind = self._exhausted(who, waiting.need, not_yet), taken & above
            self._held[who] = set() if behind else self._held.get(who, exhausted) & exhausted
            taken |= exhausted | behind

    def _leave(self, who: str) -> None:
        self._held.pop(who, None)
        self._line.pop(who, None)
        self._later.pop(who, None)

    def _check(self, grant: Event, who: str, mine: _Waiting, not_yet: list[Event]) -> None:
        """Check that no earlier agent waits for scopes above this one only, or for one of them all along."""
        mine_above = {address for address, _ in _above(self.ledger, who)}
        for other, waiting, held in self._in_order(not_yet):
            is_held = (held and held <= mine_above) or self._held.get(other, set()) & mine_above
            if waiting.order < mine.order and is_held:
                self.broken(grant.seq, f"{who} overtakes {other}, which waits for a budget of both")
                return

    def _exhausted(self, who: str, need: Need, not_yet: list[Event]) -> set[str]:
        """Return the scopes that have no room for this need now."""
        kept, found = need, set()
        for address, scope in _above(self.ledger, who):
            kept = add(kept, scope.closing) if address != who else kept
            if not scope.may_hold(kept):
                return {who}  # it ends as soon as it is looked at
            if not scope.may_hold(add(kept, _reserved(self.ledger, scope, address, not_yet))):
                found.add(address)
        return found


def _above(ledger: Ledger, address: str) -> list[tuple[str, Scope]]:
    """Return the scopes of an agent and of all above it with their addresses, the lowest first."""
    found = []
    while is_agent(address):
        if (scope := ledger.scopes.get(address)) is not None:
            found.append((address, scope))
        address = parent_of(address)
    return found


def _reserved(ledger: Ledger, scope: Scope, address: str, not_yet: list[Event]) -> Need:
    """Return the reservation of a scope as it was before these grants."""
    reserved = scope.reserved
    for grant in not_yet:
        body = grant.body
        assert isinstance(body, CallModel)
        is_below = body.agent == address or body.agent.startswith(f"{address}.")
        if is_below and body.agent in ledger.asked:
            reserved = subtract(reserved, ledger.asked[body.agent].need)
    return reserved
