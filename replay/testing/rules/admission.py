"""Admission of model calls: the order of the queue, and the room that closing turns need."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, Finished, Stop, Stopped, TurnRequested
from callboard.actors.protocol.port_messages import SetTimer, TimerFired
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.ledger import Ledger, Scope, less, total


class Closing(Invariant):
    """The budget that agents below must leave."""

    name = "closing-turns"
    rule = "A call leaves room for the closing turns of all agents above its own."

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Grants one after the other: what later ones of the same decision reserve is not there yet."""
        later = [who for _, who in self.ledger.claims]
        for grant, who in self.ledger.claims:
            later.pop(0)
            for scope, kept in self.ledger.held(who, NOTHING):
                if not scope.may_hold(total(kept, _reserved(self.ledger, scope, later))):
                    self.broken(
                        grant.seq, f"in the scope of {scope.address} nothing is left for a closing turn"
                    )
                    break


class _Waiting(NamedTuple):
    """A wish that is not granted. order: the event at which it took its place in line."""

    order: int
    need: Need


class FirstCome(Invariant):
    """First come, first served.

    The supervisor does not look at an agent again before there is room where it waits. So an earlier agent is
    overtaken in two cases: all scopes that hold it now are above the granted one; or one of them is, and has
    held it since it took its place behind no other agent.
    """

    name = "first-come"
    rule = (
        "No call overtakes an earlier one in a budget for which both wait, and the first never waits "
        "needlessly."
    )
    _line: dict[str, _Waiting] = {}
    _held: dict[str, set[str]] = {}
    _later: dict[str, tuple[int, Need]] = {}  # in back-off: the timer that ends it, and the need

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Update the queue by one decision and check each grant in it."""
        if outputs:
            self.confirm()
        self._join(event, outputs)
        if not self._line and not self._later:
            return  # no agent waits, the usual case
        grants = self.ledger.claims
        not_yet = [who for _, who in grants]
        if len(outputs) == 1 and not_yet == [*self._line]:  # the only agent that waits overtakes no other
            self._line.clear()
            self._held.clear()
            return
        for stop, _ in of_kind(outputs, Stop):
            self._leave(stop.recipient)
        # without a budget no agent is held: looking at all who wait took 47 s for 1,000 waiting agents
        has_budgets = self.ledger.has_budgets
        if has_budgets:
            self._hold(not_yet)
        for grant, who in grants:
            mine = self._line.pop(who, None)
            self._held.pop(who, None)
            if mine is not None and has_budgets:
                self._check(grant, who, mine, not_yet)
            not_yet.pop(0)
        self._look_for_idle(event)

    def _look_for_idle(self, event: Event) -> None:
        """Check after a decision that the first agent in the queue was granted if its call fits."""
        if not self._line or self.ledger.in_flight >= self.facts.parallel_calls_max:
            return
        kept: set[str] = set()
        for who, _, exhausted, behind in self._in_order([]):
            above = {scope.address for scope in self.ledger.above(who)}
            if not exhausted | behind | above & kept:
                self.in_doubt = self.in_doubt or (event.seq, f"{who} waits, and nothing is in its way")
                return
            # It will end, for delegations of an agent above have taken its room since; but its place is kept
            # until it is looked at: an end of theirs may give the room back.
            kept |= above if who in exhausted else set()

    def _in_order(self, not_yet: list[str]) -> Iterator[tuple[str, _Waiting, set[str], set[str]]]:
        """Yield the waiting agents in order, and the scopes they wait at: for room, and behind others."""
        taken: set[str] = set()
        for who, waiting in sorted(self._line.items(), key=lambda item: item[1].order):
            exhausted = self._exhausted(who, waiting.need, not_yet)
            behind = {scope.address for scope in self.ledger.above(who)} & taken
            yield who, waiting, exhausted, behind
            taken |= exhausted | behind

    def _join(self, event: Event, outputs: Sequence[Event]) -> None:
        body, life = event.body, self.facts.lives.get(event.sender)
        if isinstance(body, (Finished, Stopped)):
            self._leave(event.sender)
        elif isinstance(body, TimerFired):
            for who, (timer, need) in [*self._later.items()]:
                if timer == body.timer:
                    del self._later[who]
                    self._line[who] = _Waiting(event.seq, need)
        # The wish of an agent that has ended is ignored.
        elif isinstance(body, TurnRequested) and life is not None and not 0 < life.ended_by < event.seq:
            if body.need == NOTHING:  # a program's step stands in no line
                return
            if body.after_ms:
                for _, set_timer in of_kind(outputs, SetTimer)[:1]:
                    self._later[event.sender] = set_timer.timer, body.need
            else:
                self._line[event.sender] = _Waiting(event.seq, body.need)

    def _hold(self, not_yet: list[str]) -> None:
        """Update the scopes that have held each agent which waits behind no other."""
        for who, _, exhausted, behind in self._in_order(not_yet):
            self._held[who] = set() if behind else self._held.get(who, exhausted) & exhausted

    def _leave(self, who: str) -> None:
        for places in (self._held, self._line, self._later):
            places.pop(who, None)

    def _check(self, grant: Event, who: str, mine: _Waiting, not_yet: list[str]) -> None:
        """Check that no earlier agent waits for scopes above this one only, or for one of them all along."""
        mine_above = {scope.address for scope in self.ledger.above(who)}
        for other, waiting, exhausted, behind in self._in_order(not_yet):
            held = exhausted | behind
            is_held = (held and held <= mine_above) or self._held.get(other, set()) & mine_above
            if waiting.order < mine.order and is_held:
                self.broken(grant.seq, f"{who} overtakes {other}, which waits for a budget of both")
                return

    def _exhausted(self, who: str, need: Need, not_yet: list[str]) -> set[str]:
        """Return the scopes that have no room for this need now."""
        found = set()
        for scope, kept in self.ledger.held(who, need):
            if not scope.may_hold(kept):
                return {who}  # it ends as soon as it is looked at
            if not scope.may_hold(total(kept, _reserved(self.ledger, scope, not_yet))):
                found.add(scope.address)
        return found


def _reserved(ledger: Ledger, scope: Scope, not_yet: list[str]) -> Need:
    """Return the reservation of a scope as it was before these agents were granted their calls."""
    reserved = scope.reserved
    for who in not_yet:
        if who in ledger.asked and (who == scope.address or who.startswith(f"{scope.address}.")):
            reserved = less(reserved, ledger.asked[who].need)
    return reserved
