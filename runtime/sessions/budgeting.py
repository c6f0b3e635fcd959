"""Budgets above sessions, as a runtime binds its sessions by them when these begin and resume.

The books of one session about budgets above it, and about its usage, as its process has them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.addresses import BUDGETS
from callboard.actors.protocol.client_messages import Forked, SessionOpened
from callboard.actors.protocol.errors import MissingBudgets, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.session.budget_keys import BudgetKeys, open_in
from callboard.actors.session.budget_limits import pattern_of, scopes_of
from callboard.actors.session.usage_books import UsageBooks
from callboard.runtime.budgets import SharedBudgets
from callboard.runtime.clock import now_ms
from callboard.runtime.ports.capacity_port import BudgetPort
from callboard.runtime.sessions.agents_policy import AgentsPolicy
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.resuming import RecordedSession
from callboard.runtime.sessions.session_deps import labels_of
from callboard.runtime.sessions.usage import keep_usage


class Bound(NamedTuple):
    """The scopes that bind a session, and the reservations that its log holds open.

    keys: None for a session that no budget binds, or ever did. usage: the calls of its log that are not
    settled; None before it begins.
    """

    scopes: tuple[str, ...] = ()
    keys: BudgetKeys | None = None
    usage: UsageBooks | None = None

    def know(self, events: Sequence[Event]) -> None:
        """Take in events that a store has, and that change no amount: those with which a fork begins."""
        for books in (self.keys, self.usage):
            if books is not None:
                books.take(events)


UNBOUND: Final = Bound()


class Budgeting:
    """The budgets of one runtime, on its sessions."""

    def __init__(self, shared: SharedBudgets) -> None:
        self._shared = shared

    # --- before a session begins ----------------------------------------------------

    def bind(self, opened: SessionOpened, tags: Sequence[str], unpriced: str) -> SessionOpened:
        """Return the first message of a session with its scopes. Arguments and errors as of `_scopes`."""
        scopes = self._scopes(tags, unpriced)
        return replace(opened, scopes=scopes) if scopes else opened

    def check(self, session_id: str, unpriced: str, policy: AgentsPolicy, recorded: RecordedSession) -> None:
        """Refuse to go on with a session that had other budgets, unless changes are accepted.

        Raises MissingBudgets, and MisuseError where `_scopes` does.
        """
        now = self._scopes(labels_of(recorded.opened)[0], unpriced)
        gone = sorted({pattern_of(scope) for scope in recorded.scopes if scope not in now})
        if gone and policy != "accept":
            raise MissingBudgets(
                f"session {session_id} was begun under the budgets {', '.join(map(repr, gone))}, which this "
                "runtime does not have: give it Runtime(budgets={...}) (--budget) with these, or pass "
                "accept_changes=True (--accept-changes) to go on without them, which is recorded"
            )

    def _scopes(self, tags: Sequence[str], unpriced: str) -> tuple[str, ...]:
        """Return the scopes of a session with these tags.

        unpriced: a model of the session without known prices, or empty. Raises MisuseError where a budget in
        US dollars binds a session with such a model.
        """
        scopes = scopes_of(self._shared.budgets, tags)
        patterns = map(pattern_of, scopes if unpriced else ())
        costs = [one for one in patterns if self._shared.budgets[one].cost_usd is not None]
        if costs:
            raise MisuseError(
                f"the budget {costs[0]!r} limits cost, and the prices of model {unpriced!r} are not known: "
                "give the model prices=Prices(...), or the budget tokens= instead of cost_usd="
            )
        return scopes

    # --- when a session begins ------------------------------------------------------

    async def load(self, scopes: Sequence[str]) -> None:
        """Read the amounts spent in these scopes. Raises CorruptLog for a damaged row."""
        await self._shared.load(scopes)

    def begin(self, session_id: str, epoch: int, scopes: tuple[str, ...]) -> Bound:
        """Let a session begin, whose scopes are loaded."""
        if not scopes:
            return Bound(usage=UsageBooks())
        self._shared.begin(session_id, epoch, ())
        return Bound(scopes, BudgetKeys(session_id, epoch), UsageBooks())

    async def begin_fork(self, session_id: str, shared: RecordedSession, unpriced: str) -> Bound:
        """Let a fork begin. The calls in flight at its base stay with its origin."""
        scopes = self._scopes(labels_of(shared.opened)[0], unpriced)
        await self.load(scopes)
        bound = self.begin(session_id, 1, scopes)._replace(usage=UsageBooks(is_fork=True))
        bound.know(shared.events)
        return bound

    async def go_on(self, session_id: str, epoch: int, recorded: RecordedSession) -> Bound:
        """Let a recorded session go on. Its open reservations go over; others are charged as lost."""
        scopes = self._scopes(labels_of(recorded.opened)[0], "")
        store = self._shared.store
        if store is None or not (scopes or recorded.is_bound):
            return Bound(usage=_books_of(recorded))
        await self.load(scopes)
        keys = open_in(session_id, epoch, recorded.events)
        lost = self._shared.begin(session_id, epoch, keys.open)
        await store.hand_over(session_id, epoch, keys.open, lost, now_ms())
        return Bound(scopes, keys, _books_of(recorded))

    def connect(self, board: Board, bound: Bound) -> None:
        """Let the usage of a session be stored with its events. Give it a budgets port, if it needs one."""
        if bound.usage is not None:
            keep_usage(board, bound.usage)
        if bound.keys is not None:
            board.ports[BUDGETS] = BudgetPort(board, self._shared, bound.keys, bound.scopes)


def _books_of(recorded: RecordedSession) -> UsageBooks:
    """Return the calls that a log leaves unsettled. The charges of the others are stored already."""
    books = UsageBooks(is_fork=any(isinstance(event.body, Forked) for event in recorded.events))
    books.take(recorded.events)
    return books
