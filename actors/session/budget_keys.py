"""The calls of a session that are reserved in budgets above it: a fold over its log. No I/O, no clock.

A call is known by its key: session, epoch, agent, turn and attempt. Its reservation opens with a
`BudgetGiven` that gives it, and closes with its settlement, which says the charge:

    BudgetGiven (given)                        open
    a message of the agent that settles it     closed: the usage, or the whole need if that is not known
    SettleBudget                               closed: the charge that it says

Rules
  - An agent states a settlement once it has the answer of its model, so only for a call that was made. Its
    message is the one that the supervisor settles by.
  - What one event opens or closes is stored with that event, so that the amounts spent are those of the log.
  - A fork takes over no reservation of its origin: the calls in flight at its base belong to the origin. A
    request that waits at its base is asked for again, for the fork, with the same need.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Delegate,
    Finished,
    ReportBack,
    Stopped,
    TurnRequested,
    TurnSettled,
    Wake,
)
from callboard.actors.protocol.port_messages import BudgetGiven, RequestBudget, SettleBudget
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.protocol.value_types import Spans


class CallKey(NamedTuple):
    """A reserved call. epoch: of the process that reserved it."""

    session: str
    epoch: int
    agent: str
    turn: int
    attempt: int


class Reservation(NamedTuple):
    """An amount that is reserved for a call, in each of its spans."""

    key: CallKey
    need: Need
    spans: Spans


class Settlement(NamedTuple):
    """The end of a reservation, and its charge."""

    reservation: Reservation
    charge: Need


SpendingChange: TypeAlias = Reservation | Settlement
"""A reservation that opens, or one that ends."""


class BudgetKeys:
    """The open reservations of one session, under one epoch."""

    def __init__(self, session: str, epoch: int) -> None:
        self._session = session
        self.epoch = epoch
        self._open: dict[str, Reservation] = {}  # by agent: each has one call at a time
        self._needs: dict[str, Need] = {}

    @property
    def open(self) -> tuple[Reservation, ...]:
        """Return the open reservations."""
        return tuple(self._open.values())

    def take(self, events: Iterable[Event]) -> list[SpendingChange]:
        """Take posted events in, in their order. Return the reservations that they open and end."""
        changes: list[SpendingChange] = []
        handler_of = _HANDLERS.get
        for event in events:
            handler = handler_of(type(event.body))
            if handler is not None:
                handler(self, event, changes)
        return changes

    def _wish(self, event: Event, changes: list[SpendingChange]) -> None:
        body: RequestBudget = event.body  # type: ignore[assignment]  # `_HANDLERS` has it by this kind
        self._needs[body.agent] = body.need

    def _given(self, event: Event, changes: list[SpendingChange]) -> None:
        body: BudgetGiven = event.body  # type: ignore[assignment]  # as above
        need = self._needs.pop(body.agent, NOTHING)
        if body.status != "given" or not body.spans:
            return
        key = CallKey(self._session, self.epoch, body.agent, body.turn, body.attempt)
        reservation = Reservation(key, need, body.spans)
        self._open[body.agent] = reservation
        changes.append(reservation)

    def _stated(self, event: Event, changes: list[SpendingChange]) -> None:
        body: Any = event.body
        settled = body if type(body) is TurnSettled else body.settled  # its property makes a new object
        if settled is None:
            return
        opened = self._open.pop(event.sender, None)
        if opened is not None:
            usage = settled.usage
            charge = opened.need if usage is None else Need(usage.tokens, usage.micro_usd)
            changes.append(Settlement(opened, charge))

    def _settled(self, event: Event, changes: list[SpendingChange]) -> None:
        body: SettleBudget = event.body  # type: ignore[assignment]  # as above
        opened = self._open.pop(body.agent, None)
        if opened is not None:
            changes.append(Settlement(opened, Need(body.tokens, body.micro_usd)))

    def _forked(self, event: Event, changes: list[SpendingChange]) -> None:
        self._open.clear()


def open_in(session: str, epoch: int, events: Iterable[Event]) -> BudgetKeys:
    """Return the reservations that a log holds open, under the epoch of the process that goes on with it."""
    keys = BudgetKeys(session, epoch)
    keys.take(events)
    return keys


_Handler: TypeAlias = Callable[[BudgetKeys, Event, list[SpendingChange]], None]

_HANDLERS: Final[dict[type, _Handler]] = {
    RequestBudget: BudgetKeys._wish,
    BudgetGiven: BudgetKeys._given,
    SettleBudget: BudgetKeys._settled,
    Forked: BudgetKeys._forked,
    **dict.fromkeys(
        (TurnSettled, TurnRequested, Delegate, Wake, ReportBack, Finished, Stopped), BudgetKeys._stated
    ),
}
