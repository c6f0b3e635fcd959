"""Budgets: never overshot, nothing refused that would fit, and everything charged once and as it was used."""

from functools import reduce

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Ask,
    AskEnded,
    CallModel,
    Delegate,
    DelegationEnded,
    ModelReplied,
    SessionClosed,
    Stop,
)
from callboard.actors.protocol.usage import ZERO, Need, Usage, minus, plus, priced
from callboard.actors.supervisor.budgets import add
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.ledger import Ledger, Scope, Settlement, is_taken_on


class Budgets(Invariant):
    """Reserved and spent, against every limit."""

    name = "budgets"
    rule = "The charges and reservations in a scope stay within its budget at every event."

    def handled(self, handled: Handled) -> None:
        """Check every scope above each grant: nothing else can overshoot a budget."""
        for output in handled.outputs:
            if isinstance(output.body, CallModel):
                self._check(output, output.body)

    def _check(self, output: Event, grant: CallModel) -> None:
        for scope in self.ledger.above(grant.agent):
            if not scope.may_hold(scope.reserved):
                held = add(scope.reserved, Need(scope.spent.tokens, scope.spent.cost))
                self.broken(
                    output.seq,
                    f"{held.tokens} tokens and {held.cost} micro-dollars are spent or reserved, "
                    f"{scope.tokens} and {scope.cost} may be",
                )
                return


class NothingRefusedThatFits(Invariant):
    """Refusals for want of budget."""

    name = "nothing-refused-that-fits"
    rule = "No agent ends as `budget` while its next turn still fits."

    def handled(self, handled: Handled) -> None:
        """Check that no agent is stopped for a budget in which its turn could still fit."""
        for output in handled.outputs:
            who, body = output.recipient, output.body
            if isinstance(body, Stop) and body.reason == "budget" and self.ledger.could_ever_fit(who):
                self.broken(output.seq, f"the next turn of {who} would fit")


class RoomToDelegate(Invariant):
    """Delegations of an agent whose budget is used up."""

    name = "room-to-delegate"
    rule = "A delegation ends at once as `budget` if and only if some budget above it has nothing left."

    def handled(self, handled: Handled) -> None:
        """Compare the answer to a delegation with the budgets above it, the sender's last call charged."""
        event, outputs = handled
        body = event.body
        if not isinstance(body, Delegate):
            return
        above = self.ledger.above(event.sender) if self.ledger.has_budgets else ()
        has_room = all(_leaves_room(scope, body.closing) for scope in above)
        if is_taken_on(self.facts, event, outputs):
            if not has_room:
                self.broken(event.seq, f"a delegation of {event.sender} begins, and nothing is left for it")
        elif has_room and any(_is_refused_for_budget(one, event) for one in outputs):
            self.broken(event.seq, f"a delegation of {event.sender} ends as `budget`, and there is room")


def _leaves_room(scope: Scope, closing: Need) -> bool:
    """Return whether a turn of a token and no cost fits beside the closing turn."""
    return scope.may_hold(add(closing, Need(1, 0)))


def _is_refused_for_budget(output: Event, event: Event) -> bool:
    body = output.body
    return isinstance(body, DelegationEnded) and body.kind == "budget" and output.recipient == event.sender


class Charges(Invariant):
    """Charges, and the usage that ends state."""

    name = "usage-is-the-sum"
    rule = "The usage that an end states is the sum of the charges of the calls below it, each once."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._replies: dict[tuple[str, int, int], ModelReplied] = {}
        self._failed: set[str] = set()

    def on_ModelReplied(self, event: Event) -> None:
        """Record the usage of a call."""
        body = event.body
        assert isinstance(body, ModelReplied)
        self._replies[event.recipient, body.turn, body.attempt] = body

    def on_DeciderFailed(self, event: Event) -> None:
        """Record a failure: that agent may have forgotten its usage and is charged in full."""
        self._failed.add(event.sender)

    def handled(self, handled: Handled) -> None:
        """Compare settlements with replies, and ends with settlements."""
        settlement, ledger = self.ledger.settlement, self.ledger
        if settlement is not None:
            self._check(settlement)
        for output in handled.outputs:
            if isinstance(output.body, DelegationEnded):
                self._check_end(output, output.body)
            elif isinstance(output.body, AskEnded) and not isinstance(handled.event.body, Ask):
                self._compare(output, output.body.usage, minus(ledger.spent, ledger.ask_spent))
            elif isinstance(output.body, SessionClosed):
                self._compare(output, output.body.usage, ledger.spent)

    def _check(self, settlement: Settlement) -> None:
        grant, who, used, seq = settlement
        reply = self._replies.pop((who, grant.turn, grant.attempt), None)
        if who in self._failed and used is None:
            return
        if reply is None:
            self.broken(seq, f"{who} settles turn {grant.turn}, which has no answer")
            return
        prices = self.facts.lives[who].begin.model.prices
        if (reply.usage and priced(reply.usage, prices)) != used:
            self.broken(seq, f"{who} settles turn {grant.turn} with other figures than its answer's")

    def _check_end(self, output: Event, end: DelegationEnded) -> None:
        copies = self.facts.copies.get((output.recipient, end.turn, end.call), []) if end.address else []
        spent = [scope.spent for one in copies if (scope := self.ledger.scopes.get(one)) is not None]
        self._compare(output, end.usage, reduce(plus, spent, ZERO))

    def _compare(self, output: Event, told: Usage, counted: Usage) -> None:
        if told != counted:
            self.broken(output.seq, f"it says that {told.tokens} tokens were used, and {counted.tokens} were")


class NothingReserved(Invariant):
    """Reservations at rest."""

    name = "nothing-reserved"
    rule = "When all agents have drained, nothing is reserved."

    def quiet(self, seq: int) -> None:
        """Report every grant that is not settled."""
        for who, grant in self.ledger.grants.items():
            self.broken(seq, f"the grant of turn {grant.turn} of {who} is not settled")
