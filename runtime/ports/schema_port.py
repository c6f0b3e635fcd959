"""The schema port: accepts schemas and checks reports, bounded in time."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sessions.board import Board

if TYPE_CHECKING:
    from callboard.runtime.schemas.checker import SchemaChecker


class SchemaPort:
    """The checks of one session; the checker, and its worker process, belong to the runtime."""

    def __init__(self, board: Board, checker: "SchemaChecker") -> None:
        self._board = board
        self._checker = checker
        self._tasks = Tasks(self._lost)

    def start(self, request: Event) -> None:
        """Check a schema or a report; answer a cheap check at once."""
        assert isinstance(request.body, CheckSchema)
        answer = self._checker.check(request.body)
        if isinstance(answer, SchemaChecked):
            self._board.answer(request, Post(SUPERVISOR, answer))
        else:
            self._tasks.spawn(request.seq, self._wait(request, answer), answer)

    def abort(self, request: Event) -> bool:
        """Return True and let the check run."""
        return True  # a check belongs to the supervisor, so the stop of an agent does not end it

    def detach(self) -> None:
        """Leave every request open: a resume checks again."""

    @property
    def running(self) -> set[asyncio.Task[Any]]:
        """Return the tasks of checks."""
        return self._tasks.running

    async def aclose(self) -> None:
        """Give up all checks."""
        await self._tasks.aclose()

    async def _wait(self, request: Event, work: Awaitable[SchemaChecked]) -> None:
        self._board.answer(request, Post(SUPERVISOR, await work))

    def _lost(self, seq: int, error: BaseException) -> None:
        """Answer for a check that ended in an exception."""
        request = self._board.gate.request(seq)
        if request is not None and isinstance(request.body, CheckSchema):
            problem = SchemaProblem("", f"the check failed with {type(error).__name__}")
            failed = SchemaChecked(request.body.check, "failed", (problem,))
            self._board.answer(request, Post(SUPERVISOR, failed))
