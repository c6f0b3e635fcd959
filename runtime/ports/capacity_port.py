"""The ports of what sessions of a runtime share: capacity, and budgets.

The capacity port of one session: its places among the model calls of all sessions of the runtime.

Rules
  - A place is given once, and given back once: with the answer of its call, with the Stop of its agent, or
    when the session leaves this runtime or fails in it.
  - A call whose place went with an earlier process, or whose model was not limited there, first takes a new
    place. Until then its port has not heard of it, so a stopped one is `cancelled`.

The budgets port of one session: its calls among the budgets above all sessions of the runtime.

Rules
  - A request is answered once: given, refused, or, if its agent is stopped while it waits, cancelled.
  - Settlements are taken from the events of the session, as they are handed to the writer: the store keeps
    the same changes, in the same transaction.
  - Once the session has left this process its open reservations count as spent, until it is resumed.
"""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CapacityGiven,
    RequestBudget,
    RequestCapacity,
)
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.budget_keys import BudgetKeys, CallKey
from callboard.actors.session.budget_scope import Refused
from callboard.actors.session.budgets import Given
from callboard.actors.session.port_table import owner_of
from callboard.runtime.budgets import SharedBudgets, SharedCapacity
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.port_protocol import Port


class CapacityPort:
    """The places of one session. tags: those of the session."""

    def __init__(self, board: Board, shared: SharedCapacity, tags: Collection[str] = ()) -> None:
        self._board = board
        self._shared = shared
        self._tags = tags
        board.on_place_free = self._give_back
        self._tell_failure, board.on_failure = board.on_failure, self._fail

    def start(self, request: Event) -> None:
        """Request a place; post the answer once it is given."""
        body = request.body
        assert isinstance(body, RequestCapacity)
        self.take(body.agent, body.model, body.need.tokens, partial(self._given, request, body))

    def take(self, agent: str, model: str, tokens: int, then: "partial[None]") -> None:
        """Take a place for an agent's call, and continue with it."""
        self._shared.request(self._board.session_id, agent, model, tokens, then, self._tags)

    def is_limited(self, model: str) -> bool:
        """Return True if the runtime limits the calls of this model."""
        return model in self._shared.limits

    def free(self, agent: str) -> None:
        """End the request or the unused place of an agent."""
        self._shared.give_back(self._board.session_id, agent, 0)

    def abort(self, request: Event) -> bool:
        """Leave the line. The board answers; a place whose answer is under way is given back."""
        body = request.body
        assert isinstance(body, RequestCapacity)
        self.free(body.agent)
        return False

    def detach(self) -> None:
        """Leave every line. The requests stay open: a resume asks again."""
        self._shared.leave(self._board.session_id)

    @property
    def running(self) -> set[asyncio.Task[object]]:
        """Return no task: a place may never come."""
        return set()

    async def aclose(self) -> None:
        """Give back all places of the session."""
        self._shared.leave(self._board.session_id)

    def _given(self, request: Event, body: RequestCapacity) -> None:
        self._board.answer(request, Post(SUPERVISOR, CapacityGiven(body.agent, body.turn, body.attempt)))

    def _give_back(self, agent: str, usage: Usage | None) -> None:
        used = None if usage is None else usage.tokens
        self._shared.give_back(self._board.session_id, agent, used)

    def _fail(self, error: BaseException) -> None:
        self._shared.leave(self._board.session_id)
        self._tell_failure(error)


class PlacedModelPort:
    """The model port of a session with limited models: no call of theirs starts without a place."""

    def __init__(self, board: Board, models: Port, capacity: CapacityPort) -> None:
        self._board = board
        self._models = models
        self._capacity = capacity
        self._waiting: set[int] = set()

    def start(self, request: Event) -> None:
        """Call the model; if its place is missing, once there is one."""
        agent = owner_of(request)
        state = self._board.core.states[agent]
        assert isinstance(state, AgentState)
        model = state.model.name
        if agent in self._board.gate.places or not self._capacity.is_limited(model):
            self._models.start(request)
            return
        self._waiting.add(request.seq)
        tokens = self._board.gate.wish_of(request).need.tokens
        self._capacity.take(agent, model, tokens, partial(self._start_placed, request, agent))

    def abort(self, request: Event) -> bool:
        """Leave the line, or cancel the call. Return False if no call is under way."""
        if request.seq not in self._waiting:
            return self._models.abort(request)
        self._capacity.free(owner_of(request))
        return False

    def detach(self) -> None:
        """Answer the calls under way as detached. The board answers those that wait for a place."""
        self._models.detach()

    @property
    def running(self) -> set[asyncio.Task[object]]:
        """Return the tasks of calls."""
        return self._models.running

    async def aclose(self) -> None:
        """Cancel all calls."""
        await self._models.aclose()

    def _start_placed(self, request: Event, agent: str) -> None:
        self._waiting.discard(request.seq)
        if self._board.gate.may_start(request):
            self._board.gate.places.add(agent)
            self._models.start(request)
        else:  # the process detaches: no port starts anything any more
            self._capacity.free(agent)


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
    def running(self) -> set[asyncio.Task[object]]:
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
