"""Needs and books: the needs of later requests, and the supervisor's books beside the ledger.

Budgets above the session in its log: each call is reserved before it is made, and settled once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from callboard.actors.protocol.addresses import HOST, SUPERVISOR, path_of
from callboard.actors.protocol.client_messages import Forked, SessionOpened, resumed_in
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Begin, TurnRequested
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CallModel,
    CapacityGiven,
    ModelReplied,
    RequestBudget,
    RequestCapacity,
    SettleBudget,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.session.budget_keys import BudgetKeys, Settlement
from callboard.actors.session.step import initial, step
from callboard.actors.supervisor.state import Record, SupervisorState
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.in_force import is_about_tools
from callboard.replay.testing.rules.ledger import Item, Scope

LATER_RULES: Final = {
    "later-needs": "The need of a later request includes the last count and each byte since then.",
}
_FRAME: Final = len(b'{"role":"user","content":[]}')
_ITEMS: Final[Mapping[str, tuple[Item, ...]]] = {
    "turn": ("turn",),
    "results": ("result", "started", "excess"),
    "ends": ("end",),
    "summary": ("summary",),
}
"""The items of each purpose of a reserve."""


class Counted(msgspec.Struct, eq=False):
    """The bound on the input of an agent's next request.

    granted: on the input of its last one. known: on the conversation without the reply to it; None if there
        is not a reply, or one whose count is not taken for certain. of_reply: on that reply, which is not
        always kept.
    """

    granted: int = 0
    known: int | None = None
    of_reply: int = 0

    def replied(self, body: ModelReplied, begin: Begin | None) -> None:
        """Take the count of a call, or the bytes of its reply."""
        self.known = None
        model = begin.model if begin is not None else None
        # With several models, or with one that counts strangely, bytes count beside the counts.
        if body.status != "ok" or model is None or model.fallback or model.checks_usage:
            return
        usage = body.usage
        if usage is not None and usage.tokens:
            self.of_reply = usage.output_tokens
            self.known = usage.tokens - self.of_reply
        else:
            self.known, self.of_reply = self.granted, len(body.content)

    def why_small(self, before: ModelRequest | None, request: ModelRequest, wish: TurnRequested) -> str:
        """Grant a request. Return the tokens that its need does not count; empty if it counts all."""
        known, self.known = self.known, None
        self.granted = wish.need.tokens - request.model.max_tokens
        if before is None or known is None or wish.attempt > 1 or request.model.is_program:
            return ""
        all_new = request.messages[before.length :]
        new = [one for one in all_new if not _is_reply(one)]
        if len(new) < len(all_new):  # a refused reply is left out
            known += self.of_reply
        if wish.is_unbounded or any(b'"source"' in bytes(message) for message in new):
            return ""  # images take fewer tokens than bytes
        tools = [tool for tool in request.tools if tool not in before.tools] if wish.breaks_cache else []
        missing = known + sum(map(_size, new)) + sum(map(len, tools)) - self.granted
        return f"its need lacks {missing:,} tokens" if missing > 0 else ""


def _is_reply(message: Json) -> bool:
    return bytes(message).startswith(b'{"role":"assistant"')


def _size(message: Json) -> int:
    """Return the bytes of the blocks in a message."""
    if is_about_tools(message):
        return len(message)
    # Without its frame, and a comma between two blocks: cheaper than to read it, and never too much.
    return len(message) - _FRAME - bytes(message).count(b"},{")


class SameBooks(Invariant):
    """The amounts in the supervisor's state, compared with those that its log adds up to.

    The only rule that looks into a state. An amount that the supervisor forgets would otherwise show only in
    a budget that happens to be tight.
    """

    name = "same-books"
    rule = (
        "After each event, an agent's budget, its spent and reserved amounts, and the reserve for its next "
        "turn are those that follow from the log."
    )
    _state: SupervisorState | None = None

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Make the supervisor's decision again, and compare the records of the agents that it is about."""
        if self.breaches:
            return
        before = self._state or initial(SUPERVISOR)
        after, _ = step(before, event)
        assert isinstance(after, SupervisorState)
        self._state = after
        if after is before:
            return
        for record in _records_along(after, _addresses(event, outputs)):
            if how := _difference(record, self.ledger.scopes.get(record.address)):
                self.broken(event.seq, f"{record.address} {how} by the log")
                return


def _addresses(event: Event, outputs: Sequence[Event]) -> Iterator[str]:
    """Yield the agents that a decision is about: the host's sums have parts of all."""
    yield HOST
    for one in (event, *outputs):
        yield one.recipient if one.sender == SUPERVISOR else one.sender
        if isinstance(one.body, CallModel | RequestCapacity | CapacityGiven | RequestBudget | BudgetGiven):
            yield one.body.agent


def _records_along(state: SupervisorState, addresses: Iterable[str]) -> Iterator[Record]:
    """Yield the records of these agents and of those above them, each once."""
    seen: set[str] = set()
    for address in addresses:
        path, record = path_of(address), state.host
        if path is None or record is None:
            continue
        for below, ordinal in (*path, ("", 0)):
            if record.address not in seen:
                seen.add(record.address)
                yield record
            child = record.children.get(ordinal) if below else None
            if child is None:
                break
            record = child


def _difference(record: Record, scope: Scope | None) -> str:
    """Return how a record differs from its scope, or ''."""
    if scope is None:
        return "is in the tree, and has not begun"
    if record.spent != scope.spent:
        return f"has spent {record.spent}, and {scope.spent}"
    if record.reserved != scope.reserved:
        return f"has reserved {record.reserved}, and {scope.reserved}"
    if not record.is_running:
        return ""
    budget, limits = record.budget, (scope.tokens, scope.micro_usd)
    if (budget.tokens, budget.micro_usd) != limits:
        return f"may use {budget}, and {limits}"
    if record.profile.is_eager:  # a program keeps no reserve
        return ""
    for purpose, items in _ITEMS.items():
        mine, theirs = getattr(record.kept, purpose), scope.kept_for(*items)
        if mine != theirs:
            return f"keeps {mine} for {purpose}, and {theirs}"
    return ""


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
        for output, begin in of_kind(outputs, Begin):
            if begin.granted and self._scopes:
                self.broken(output.seq, f"{output.recipient} is granted a turn that no budget above reserved")

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
