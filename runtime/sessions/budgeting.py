"""Budgets above sessions, as a runtime binds its sessions by them when these begin and resume."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.addresses import BUDGETS
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.session.budget_keys import BudgetKeys, open_in
from callboard.actors.session.budget_limits import pattern_of, scopes_of
from callboard.runtime.budgets import SharedBudgets
from callboard.runtime.clock import now_ms
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.ports.budget_port import BudgetPort
from callboard.runtime.sessions.board import Board


class Bound(NamedTuple):
    """The scopes that bind a session, and the reservations that its log holds open."""

    scopes: tuple[str, ...]
    keys: BudgetKeys


class Budgeting:
    """The budgets of one runtime. log: where their spending is kept."""

    def __init__(self, shared: SharedBudgets, log: EventLog) -> None:
        self.shared = shared
        self._log = log

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return the patterns of tags that have budgets."""
        return tuple(self.shared.budgets)

    def bind(self, opened: SessionOpened, tags: Sequence[str], unpriced: str) -> SessionOpened:
        """Return the first message of a session with its scopes.

        unpriced: a model of the session without known prices, or empty. Raises MisuseError where a budget in
        US dollars binds a session with such a model.
        """
        scopes = scopes_of(self.shared.budgets, tags)
        for scope in scopes if unpriced else ():
            pattern = pattern_of(scope)
            if self.shared.budgets[pattern].cost_usd is not None:
                raise MisuseError(
                    f"the budget {pattern!r} limits cost, and the prices of model {unpriced!r} are not known: "
                    "give the model prices=Prices(...), or the budget tokens= instead of cost_usd="
                )
        return replace(opened, scopes=scopes) if scopes else opened

    async def begin(
        self, session_id: str, epoch: int, scopes: tuple[str, ...], events: Sequence[Event] = ()
    ) -> Bound | None:
        """Let a session begin or go on. Return None if no budget binds it, or ever did.

        events: those of its log. Its open reservations go over to this process; others are charged as lost.
        Raises CorruptLog for a damaged row of a budget.
        """
        keys = open_in(session_id, epoch, events)
        store = self._log.spending
        if store is None or not (scopes or keys.is_used):
            return None
        await self.shared.load(store, scopes)
        lost = self.shared.begin(session_id, epoch, keys.open)
        if events:
            await store.hand_over(session_id, epoch, keys.open, lost, now_ms())
        return Bound(scopes, keys)

    def connect(self, board: Board, bound: Bound | None) -> None:
        """Give the board of a session its budgets port, if it needs one."""
        if bound is not None:
            board.ports[BUDGETS] = BudgetPort(board, self.shared, bound.keys, bound.scopes)
