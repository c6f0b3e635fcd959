"""The schema port: accepts schemas and checks reports, bounded in time."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.session_types import SessionTypes

if TYPE_CHECKING:
    from callboard.runtime.schemas.checker import SchemaChecker


class SchemaPort:
    """The checks of one session; the checker, and its worker process, belong to the runtime."""

    def __init__(self, board: Board, checker: "SchemaChecker", types: SessionTypes) -> None:
        self._board = board
        self._checker = checker
        self._types = types
        self._tasks = Tasks(self._lost)

    def start(self, request: Event) -> None:
        """Check a schema or a report; answer a cheap check at once."""
        assert isinstance(request.body, CheckSchema)
        answer = self._checker.check(request.body)
        if not isinstance(answer, SchemaChecked):
            self._tasks.spawn(request.seq, self._wait(request, request.body, answer), answer)
        elif answer.status == "ok" and request.body.output_type:
            work = self._validated(request.body, _now())
            self._tasks.spawn(request.seq, self._wait(request, request.body, work, is_last=True), work)
        else:
            self._board.answer(request, Post(SUPERVISOR, answer))

    def abort(self, request: Event) -> bool:
        """Return True and let the check run."""
        return True  # a check belongs to the supervisor, so the stop of an agent does not end it

    def detach(self) -> None:
        """Do nothing: the requests stay open, and a resume checks again."""

    @property
    def running(self) -> set[asyncio.Task[object]]:
        """Return the tasks of checks."""
        return self._tasks.running

    async def aclose(self) -> None:
        """Give up all checks."""
        await self._tasks.aclose()

    async def _wait(
        self, request: Event, body: CheckSchema, work: Awaitable[SchemaChecked], *, is_last: bool = False
    ) -> None:
        """Answer with the result of the work. is_last: no validator runs after it."""
        started = _now()
        answer = await work
        if answer.status == "ok" and body.output_type and not is_last:
            answer = await self._validated(body, started)
        self._board.answer(request, Post(SUPERVISOR, answer))

    def _validated(self, body: CheckSchema, started: float) -> Coroutine[object, object, SchemaChecked]:
        """Return the validation of a report that fits its schema. started: the moment its check began."""
        kind = self._types.find(body.output_type, body.schema)
        left = body.timeout_ms / 1_000 - (_now() - started)
        return self._checker.validators.check(body, kind, self._board.secrets.redactor, left)

    def _lost(self, seq: int, error: BaseException) -> None:
        """Answer for a check that ended in an exception."""
        request = self._board.gate.request(seq)
        if request is not None and isinstance(request.body, CheckSchema):
            problem = SchemaProblem("", f"the check failed with {type(error).__name__}")
            failed = SchemaChecked(request.body.check, "failed", (problem,))
            self._board.answer(request, Post(SUPERVISOR, failed))


def _now() -> float:
    return asyncio.get_running_loop().time()
