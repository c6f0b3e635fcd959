"""Budgets above the session in its log: each call is reserved before it is made, and settled once."""

from collections.abc import Sequence

from callboard.actors.protocol.client_messages import Forked, SessionOpened, resumed_in
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, TurnRequested
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CallModel,
    RequestBudget,
    RequestCapacity,
    SettleBudget,
)
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.session.budget_keys import BudgetKeys, Settlement
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind

_NO_WISH = TurnRequested(0)


class Reserved(Invariant):
    """Requests for budgets above the session, and the calls that follow."""

    name = "reserved-above"
    rule = "A call of a session with budgets above it is reserved first, once, with the need of its turn."
    _scopes: tuple[str, ...] = ()
    _wishes: dict[str, TurnRequested] = {}
    _asked: set[str] = set()
    _given: set[str] = set()

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Record the scopes of the session from this message on."""
        if isinstance(body, SessionOpened):
            self._scopes = body.scopes
        elif (resumed := resumed_in(body)) is not None and resumed.scopes is not None:
            self._scopes = resumed.scopes
        for output, call in of_kind(outputs, CallModel):
            self._check(output, call, has_place=not isinstance(body, TurnRequested))

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record the wish that budgets may be asked for."""
        self._wishes[event.sender] = body
        self._asked.discard(event.sender)
        self._given.discard(event.sender)

    def on_RequestBudget(self, event: Event, body: RequestBudget) -> None:
        """Compare a request with the wish of its agent."""
        wish = _NO_WISH if body.agent in self._given else self._wishes.get(body.agent, _NO_WISH)
        self._asked.add(body.agent)
        if (body.turn, body.attempt, body.need) != (wish.turn, wish.attempt, wish.need):
            self.broken(event.seq, f"{body.agent} did not ask for this call, or has a budget for it already")

    def on_BudgetGiven(self, event: Event, body: BudgetGiven) -> None:
        """Record a reservation."""
        if body.status == "given":
            self._given.add(body.agent)

    def on_RequestCapacity(self, event: Event, body: RequestCapacity) -> None:
        """Check that a place is asked for behind the budgets, not before them."""
        if body.agent in self._asked and body.agent not in self._given:
            self.broken(event.seq, f"{body.agent} asks for a place, and waits for its budgets")

    def _check(self, output: Event, call: CallModel, *, has_place: bool) -> None:
        wish = self._wishes.get(call.agent, _NO_WISH)
        if wish.need == NOTHING or call.agent in self._given:
            return
        # A session that budgets bind only since its wish may have waited for a place meanwhile.
        if call.agent in self._asked or (self._scopes and not has_place):
            self.broken(output.seq, f"{call.agent} calls its model, and no budget above has reserved it")


class SettledAbove(Invariant):
    """Settlements of reservations, against the charges of the session's own books."""

    name = "settled-above"
    rule = "A reservation above the session is settled once, with the amount that the session is charged."
    _keys: BudgetKeys | None = None
    _charges: dict[tuple[str, int, int], Need] = {}
    _made: set[tuple[str, int, int]] = set()
    _free: set[tuple[str, int, int]] = set()  # of calls that cost a fork nothing

    def on_any(self, event: Event, body: AnyMessage) -> None:
        """Take in the reservation or the settlement that an event makes."""
        if isinstance(body, Forked):  # those of the origin are not the fork's
            self._free |= self._made
            self._charges.clear()
            self._made.clear()
        if isinstance(body, BudgetGiven) and body.status == "given":
            (self._made if body.spans else self._free).add((body.agent, body.turn, body.attempt))
        if self._keys is None:
            self._keys = BudgetKeys("", 0)
        ended = [one for one in self._keys.take((event,)) if isinstance(one, Settlement)]
        self._charges.update((one.reservation.key[2:], one.charge) for one in ended)
        if not isinstance(body, SettleBudget) or ended:
            return
        if (body.agent, body.turn, body.attempt) not in self._free:
            self.broken(event.seq, f"a call of {body.agent} is settled that has no reservation")

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Compare a charge of the session with that of its reservation above."""
        settled = self.ledger.settled
        if settled is None:
            for output, charge in of_kind(outputs, SettleBudget):
                if charge.tokens or charge.micro_usd:
                    self.broken(output.seq, f"{charge.agent} is charged for a call that was not made")
            return
        wish, usage = settled
        call = (event.sender, wish.turn, wish.attempt)
        if call not in self._made:
            return
        own, above = _charge(wish.need, usage), self._charges.get(call)
        stated = [one for _, one in of_kind(outputs, SettleBudget) if one.agent == event.sender]
        if stated:
            above = Need(stated[0].tokens, stated[0].micro_usd)
        if above != own:
            self.broken(event.seq, f"{event.sender} is charged {own}, and {above} above the session")

    def quiet(self, seq: int) -> None:
        """Report reservations that are open."""
        for one in self._keys.open if self._keys is not None else ():
            self.broken(seq, f"the reservation of {one.key.agent}, turn {one.key.turn}, is open")


def _charge(need: Need, usage: Usage | None) -> Need:
    return need if usage is None else Need(usage.tokens, usage.micro_usd)
