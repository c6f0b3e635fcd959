"""Budgets: never overshot, nothing refused that would fit, and everything charged once and as it was used."""

from collections.abc import Sequence
from functools import reduce

from callboard.actors.protocol.client_messages import Ask, AskEnded, SessionClosed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, Delegate, DelegationEnded, Stop, TurnRequested
from callboard.actors.protocol.money import in_dollars
from callboard.actors.protocol.port_messages import BudgetGiven, CallModel, ModelReplied
from callboard.actors.protocol.usage import ZERO, Need, Usage, minus, plus, priced
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.ledger import total


class Budgets(Invariant):
    """Reserved and spent, against every limit."""

    name = "budgets"
    rule = "The charges and reservations in a scope stay within its budget at every event."

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Check every scope above each grant: nothing else can overshoot a budget."""
        for grant, who in self.ledger.claims:
            wish, scopes = self.ledger.asked.get(who), [*self.ledger.above(who)]
            if wish and wish.is_unbounded and any(one.is_limited for one in scopes):
                self.broken(grant.seq, f"{who} is granted a call without a bound, within a budget")
            over = (scope for scope in self.ledger.above(who) if not scope.may_hold(scope.reserved))
            if (scope := next(over, None)) is not None:
                held = total(scope.reserved, Need(scope.spent.tokens, scope.spent.micro_usd))
                self.broken(
                    grant.seq,
                    f"{held.tokens} tokens and {in_dollars(held.micro_usd)} are spent or reserved, "
                    f"{scope.tokens} and {_most(scope.micro_usd)} may be",
                )


def _most(micro_usd: int | None) -> str:
    return "any cost" if micro_usd is None else in_dollars(micro_usd)


class NothingRefusedThatFits(Invariant):
    """Refusals for want of budget."""

    name = "nothing-refused-that-fits"
    rule = "No agent ends as `budget` while its next turn still fits."

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Check that no agent is stopped for a budget in which its turn could still fit."""
        for output, stop in of_kind(outputs, Stop):
            wish = self.ledger.asked.get(output.recipient)
            is_bounded = wish is None or not wish.is_unbounded
            if stop.reason != "budget" or not is_bounded:
                continue
            if isinstance(body, BudgetGiven) and body.agent == output.recipient:
                has_room = not _is_refused(body, wish.need if wish else Need())
            else:
                has_room = self.ledger.could_ever_fit(output.recipient)
            if has_room:
                self.broken(output.seq, f"the next turn of {output.recipient} would fit")


def _is_refused(given: BudgetGiven, need: Need) -> bool:
    """Return True for the refusal of a budget above the session whose figures leave no room for a need."""
    taken = given.spent + given.elsewhere + (need.tokens if given.unit == "tokens" else need.micro_usd)
    return given.status == "refused" and taken > given.limit


class RoomToDelegate(Invariant):
    """Delegations of an agent whose budget is used up."""

    name = "room-to-delegate"
    rule = "A delegation ends at once as `budget` if and only if some budget above it has nothing left."

    def handled_Delegate(self, event: Event, body: Delegate, outputs: Sequence[Event]) -> None:
        """Compare the answer to a delegation with the budgets above it, the sender's last call charged."""
        needed = total(self.ledger.closing, Need(1, 0))  # a turn of a token and no cost, beside the reserve
        held = self.ledger.held(event.sender, needed) if self.ledger.has_budgets else ()
        has_room = all(scope.may_hold(kept) for scope, kept in held)
        if self.facts.is_taken_on(event, outputs):
            if not has_room:
                self.broken(event.seq, f"a delegation of {event.sender} begins, and nothing is left for it")
        elif has_room and any(
            end.kind == "budget" and output.recipient == event.sender
            for output, end in of_kind(outputs, DelegationEnded)
        ):
            self.broken(event.seq, f"a delegation of {event.sender} ends as `budget`, and there is room")


class Charges(Invariant):
    """Charges, and the usage that ends state."""

    name = "usage-is-the-sum"
    rule = "The usage that an end states is the sum of the charges of the calls below it, each once."
    _replies: dict[tuple[str, int, int], ModelReplied] = {}

    def on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        """Record the usage of a call."""
        self._replies[event.recipient, body.turn, body.attempt] = body

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Compare settlements with replies, and ends with settlements."""
        ledger = self.ledger
        if ledger.settled is not None:
            self._check(event, *ledger.settled)
        for output in outputs:
            if isinstance(output.body, DelegationEnded):
                self._check_end(output, output.body)
            elif isinstance(output.body, AskEnded) and not isinstance(body, Ask):
                self._compare(output, output.body.usage, minus(ledger.spent, ledger.ask_spent))
            elif isinstance(output.body, SessionClosed):
                self._compare(output, output.body.usage, ledger.spent)

    def _check(self, event: Event, grant: TurnRequested, used: Usage | None) -> None:
        who, reply = event.sender, self._replies.pop((event.sender, grant.turn, grant.attempt), None)
        if who in self.facts.failed and used is None:
            return  # it may have forgotten its usage, and is charged in full
        if reply is None:
            self.broken(event.seq, f"{who} settles turn {grant.turn}, which has no answer")
            return
        if reply.status == "detached" and reply.usage is None:
            self.broken(event.seq, f"{who} is charged for turn {grant.turn}, which a polite end cut off")
        prices = self.facts.lives[who].begin.model.spec_named(grant.model).prices
        if (reply.usage and priced(reply.usage, prices)) != used:
            self.broken(event.seq, f"{who} settles turn {grant.turn} with other figures than its answer's")

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


class Spending(Invariant):
    """The usage that a session and an ask state, counted from grants and answers without the deciders' words.

    A call is charged the usage in its answer, or its reservation if the usage is not known. An agent
    whose decider failed may have forgotten what its call used, and is charged anything in between; one whose
    decider failed again does not wait for the answer.
    """

    name = "spending"
    rule = "The usage of an ask or session is a sum over its calls: the answer's usage, or the reservation."
    _asked: dict[str, int] = {}  # ask -> the event before its calls
    _asked_for: dict[str, int] = {}
    _needs: dict[int, tuple[str, int]] = {}  # grant without an answer -> its agent, the tokens it may use
    _charged: list[tuple[int, str, int, int]] = []
    _leaves_agents: bool = False  # the last ask has ended while some agents had not drained

    def on_Ask(self, event: Event, body: Ask) -> None:
        """Record where the calls of an ask begin."""
        self._asked.setdefault(body.request_id, event.seq)

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record the tokens that a call may use, should it be granted."""
        self._asked_for[event.sender] = body.need.tokens

    def on_CallModel(self, event: Event, body: CallModel) -> None:
        """Record the tokens that a call may use."""
        self._needs[event.seq] = body.agent, self._asked_for.get(body.agent, 0)

    def on_ModelReplied(self, event: Event, reply: ModelReplied) -> None:
        """Record the usage of a call."""
        _, need = self._needs.pop(event.cause, ("", None))
        if need is not None:
            least = need if reply.usage is None or not need else reply.usage.tokens
            self._charged.append((event.cause, event.recipient, least, max(least, need)))

    def on_AskEnded(self, event: Event, ended: AskEnded) -> None:
        """Compare the usage that an ask states."""
        since = self._asked.pop(ended.request_id, 0)
        if not since or ended.kind == "denied":
            return  # it never began
        self._leaves_agents = bool(ended.in_doubt)
        self._compare(event.seq, ended.usage.tokens, since)

    def on_SessionClosed(self, event: Event, body: SessionClosed) -> None:
        """Compare the usage that the session states."""
        self._compare(event.seq, body.usage.tokens, 0)

    def _compare(self, seq: int, told: int, since: int) -> None:
        failed = self.facts.failed
        mine = [(low, high if who in failed else low) for seq, who, low, high in self._charged if seq > since]
        lost = [(0, need) for seq, (who, need) in self._needs.items() if seq > since and who in failed]
        least, most = map(sum, zip((0, 0), *mine, *lost, strict=True))
        if not self._leaves_agents and not least <= told <= most:
            self.broken(
                seq, f"it says that {told} tokens were used, by the answers it were {least} to {most}"
            )
