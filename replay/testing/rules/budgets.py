"""Budgets and reserves: never overshot, nothing refused that fits, all charged once, room for results."""

from collections.abc import Sequence
from functools import reduce

from callboard.actors.protocol import prompts
from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Forked,
    Resumed,
    SessionClosed,
    resumed_in,
)
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    Delegate,
    DelegationEnded,
    ReportBack,
    Stop,
    TurnRequested,
)
from callboard.actors.protocol.money import in_dollars
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CallModel,
    CallTool,
    ModelReplied,
    RequestApproval,
)
from callboard.actors.protocol.usage import ZERO, Need, Usage, minus, plus, priced
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.ledger import total
from callboard.replay.testing.rules.lives import Call


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
        if who in self.facts.failed and (used is None or (reply is None and not used.tokens)):
            return  # it may have forgotten its usage, and is charged in full, or failed before its call
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


class Rooms(Invariant):
    """The part of a result that a parent reads."""

    name = "rooms"
    rule = (
        "A result has room for `max_result_chars`, or an equal share of a quarter of the budget, or 500 "
        "bytes."
    )
    _rooms: dict[Call, int] = {}

    def handled_Delegate(self, event: Event, body: Delegate, outputs: Sequence[Event]) -> None:
        """Record the room of a delegation that begins."""
        life, scope = self.facts.lives.get(event.sender), self.ledger.scopes.get(event.sender)
        if life is not None and body.room != (0 if life.profile.is_eager else life.most("max_result_chars")):
            self.broken(event.seq, f"a delegation of {event.sender} wants {body.room} bytes for its result")
        if scope is not None and self.facts.is_taken_on(event, outputs):
            place = body.turn, body.call
            self._rooms[event.sender, *place] = self.ledger.room(event.sender, body)

    def on_DelegationEnded(self, event: Event, end: DelegationEnded) -> None:
        """Compare the room that an end states; a denial has none, and is short."""
        room = self._rooms.get((event.recipient, end.turn, end.call), 0)
        if end.room != room:
            self.broken(event.seq, f"{event.recipient} may read {end.room} bytes of it, not {room}")
        if room and end.kind != "reported" and (size := _size(end)) > room:
            self.broken(event.seq, f"{event.recipient} reads {size} bytes of it, not {room}")


def _size(end: DelegationEnded) -> int:
    """Return the bytes of a result within a request, without its quotation marks."""
    return len(encode(prompts.delegation_result(end)[0])) - 2


class ReserveHolds(Invariant):
    """The closing turn of a parent that waited for nothing but its delegations."""

    name = "reserve-holds"
    rule = "No agent ends as `budget` on its own budget at the turn for which its delegations left room."
    _kept: dict[str, int] = {}  # the turn of an agent's last delegations
    _other: dict[str, int] = {}  # the last turn with results that have no room

    def handled_Delegate(self, event: Event, body: Delegate, outputs: Sequence[Event]) -> None:
        """Record a delegation that begins with room for the turn after it, or one that has none."""
        who, scope = event.sender, self.ledger.scopes.get(event.sender)
        # A call of an earlier child may still hold what the turn needs: a race was lost, and it goes on.
        has_room = scope is None or scope.may_hold(total(scope.reserved, scope.kept_for()))
        is_kept = has_room or self._kept.get(who) == body.turn
        found = self._kept if is_kept and self.facts.is_taken_on(event, outputs) else self._other
        found[who] = body.turn

    def on_DelegationEnded(self, event: Event, end: DelegationEnded) -> None:
        """Except a report that is longer than its room: it is never cut."""
        if end.kind == "reported" and _size(end) > end.room:
            self._other[event.recipient] = end.turn

    def on_CallTool(self, event: Event, body: CallTool | RequestApproval | ReportBack) -> None:
        """Except turns with results of another kind."""
        self._other[event.sender] = body.turn

    on_RequestApproval = on_CallTool
    on_ReportBack = on_CallTool

    def on_Resumed(self, event: Event, body: Resumed | Forked) -> None:
        """Except turns under limits that have changed meanwhile."""
        if (resumed := resumed_in(body)) is not None and resumed.limits is not None:
            self._kept.clear()

    on_Forked = on_Resumed

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Check each agent that ends as `budget`."""
        for output, stop in of_kind(outputs, Stop):
            who = output.recipient
            wish, scope = self.ledger.asked.get(who), self.ledger.scopes.get(who)
            if stop.reason != "budget" or wish is None or scope is None or wish.attempt > 1:
                continue
            is_kept = self._kept.get(who) == wish.turn - 1 != self._other.get(who)
            if is_kept and not scope.may_hold(wish.need):
                self.broken(output.seq, f"turn {wish.turn} of {who} has no room beside its delegations")
