"""The budgets port of one session: its calls among the budgets above all sessions of the runtime.

Rules
  - A request is answered once: given, refused, or, if its agent is stopped while it waits, cancelled.
  - Settlements are taken from the events of the session, as they are handed to the writer: the store keeps
    the same changes, in the same transaction.
  - Once the session has left this process its open reservations count as spent, until it is resumed.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import BudgetGiven, RequestBudget
from callboard.actors.session.budget_keys import BudgetKeys, CallKey
from callboard.actors.session.budget_scope import Refused
from callboard.actors.session.budgets import Given
from callboard.runtime.budgets import SharedBudgets
from callboard.runtime.sessions.board import Board


class BudgetPort:
    """The reservations of one session. keys: those that its log holds open. scopes: those that bind it."""

    def __init__(
        self, board: Board, shared: SharedBudgets, keys: BudgetKeys, scopes: tuple[str, ...]
    ) -> None:
        self._board = board
        self._shared = shared
        self._keys = keys
        self._scopes = scopes
        self._stage, board.stage = board.stage, self._stage_all
        self._tell_failure, board.on_failure = board.on_failure, self._fail

    def start(self, request: Event) -> None:
        """Reserve a call; post the answer once there is one."""
        body = request.body
        assert isinstance(body, RequestBudget)
        key = self._key(body)
        answer = self._shared.request(key, self._scopes, body.need)
        if answer is None:
            self._shared.wait(key, partial(self._answer, request, body))
        else:
            self._answer(request, body, answer)

    def abort(self, request: Event) -> bool:
        """Let a call wait no more. The board answers."""
        body = request.body
        assert isinstance(body, RequestBudget)
        self._shared.cancel(self._key(body))
        return False

    def detach(self) -> None:
        """Wait no more. The requests stay open: a resume asks again."""
        self._shared.leave(self._board.session_id)

    @property
    def running(self) -> set[asyncio.Task[Any]]:
        """Return no task: an answer may never come."""
        return set()

    async def aclose(self) -> None:
        """Let the session leave."""
        self._shared.leave(self._board.session_id)

    def _stage_all(self, events: Sequence[Event]) -> None:
        """Hand events to the writer with the changes that they make, then charge the calls they settle."""
        changes = self._keys.take(events)
        self._stage(events, changes)
        if changes:
            self._shared.settle(changes)

    def _key(self, body: RequestBudget) -> CallKey:
        return CallKey(self._board.session_id, self._keys.epoch, body.agent, body.turn, body.attempt)

    def _answer(self, request: Event, body: RequestBudget, answer: Given | Refused) -> None:
        agent, turn, attempt = body.agent, body.turn, body.attempt
        if isinstance(answer, Given):
            given = BudgetGiven(agent, turn, attempt, "given", answer.spans)
        else:
            given = BudgetGiven(agent, turn, attempt, "refused", (), *answer)
        self._board.answer(request, Post(SUPERVISOR, given))

    def _fail(self, error: BaseException) -> None:
        self._shared.leave(self._board.session_id)
        self._tell_failure(error)
