"""Two sets of books: the supervisor's own, and the ledger that is kept from the log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from callboard.actors.protocol.addresses import HOST, SUPERVISOR, path_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CallModel,
    CapacityGiven,
    RequestBudget,
    RequestCapacity,
)
from callboard.actors.session.step import initial, step
from callboard.actors.supervisor.state import Record, SupervisorState
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.ledger import Item, Scope

_ITEMS: Final[Mapping[str, tuple[Item, ...]]] = {
    "turn": ("turn",),
    "results": ("result", "started", "excess"),
    "ends": ("end",),
}
"""The items of each purpose of a reserve."""


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
