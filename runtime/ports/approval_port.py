"""The approvals port: a request becomes a question for a person and one answer."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.runtime.approvals import Answer, Approval, Approver
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sanitize import clean_text
from callboard.runtime.sessions.board import Board

_NOTE_CHARS_MAX: Final = 2_000

logger = logging.getLogger("callboard.approvals")


class ApprovalPort:
    """The questions of one session. approver: answers first, if there is one. show: gets each question."""

    def __init__(
        self, board: Board, log: EventLog, approver: Approver | None, show: Callable[[Approval], None]
    ) -> None:
        self._board = board
        self._log = log
        self._approver: Approver = approver or (lambda question: None)
        self._show = show
        self._tasks = Tasks(self._lost)

    def start(self, request: Event) -> None:
        """Ask the question of a request, which is durable."""
        answer = self._ask(request)
        self._tasks.spawn(request.seq, self._wait(request, answer), answer)

    def abort(self, request: Event) -> bool:
        """Withdraw the question. Return False if it was not asked yet."""
        return self._tasks.cancel(request.seq)

    def detach(self) -> None:
        """Leave every request open: a resume asks again."""

    @property
    def running(self) -> set[asyncio.Task[Any]]:
        """Return the tasks of no question: an answer of a person is not waited for."""
        return set()

    async def aclose(self) -> None:
        """Withdraw all questions."""
        await self._tasks.aclose()

    async def _wait(self, request: Event, asking: Awaitable[ApprovalGiven]) -> None:
        try:
            given = await asking
        except asyncio.CancelledError:
            if self._tasks.is_orphaned(request.seq):
                self._board.end_with_loop()
            else:
                self._board.answer(request, self._board.gate.cancelled(request))
        else:
            self._board.answer(request, Post(request.sender, given))

    async def _ask(self, request: Event) -> ApprovalGiven:
        body = request.body
        assert isinstance(body, RequestApproval)
        question = await self._question(request, body)
        try:
            self._show(question)
            answer = await self._answer(question)
        finally:
            question._answer.cancel()
        note = self._board.secrets.redactor.cut(clean_text(answer.note), _NOTE_CHARS_MAX)
        said: Literal["approved", "denied"] = "approved" if answer.is_approved else "denied"
        return ApprovalGiven(body.turn, body.call, said, note, question.digest, body.is_repeat)

    async def _question(self, request: Event, body: RequestApproval) -> Approval:
        (stored,) = await self._log.read(self._board.session_id, request.seq, 1)
        state = self._board.core.states.get(request.sender)
        profile = prefix_of(state).profile.name if isinstance(state, AgentState) else ""
        return Approval(
            self._board.session_id,
            request.sender,
            profile,
            body.tool,
            body.effect,
            body.arguments,
            body.is_repeat,
            request.seq,
            stored.digest.hex(),
            asyncio.get_running_loop().create_future(),
        )

    async def _answer(self, question: Approval) -> Answer:
        said = self._approver(question)
        if inspect.isawaitable(said):
            said = await said
        match said:
            case None:
                return await question._answer
            case bool():
                return Answer(said)
            case str():
                return Answer(False, said)
        raise TypeError(f"an approver returns True, False, a text or None, not {said!r:.80}")

    def _lost(self, seq: int, error: BaseException) -> None:
        request = self._board.gate.request(seq)
        if request is not None and isinstance(body := request.body, RequestApproval):
            told = self._board.secrets.redactor.told(error)
            logger.error("asking for approval of %s failed\n%s", body.tool, told)
            why = f"asking for it failed with {type(error).__name__}"
            given = ApprovalGiven(body.turn, body.call, "denied", why, is_repeat=body.is_repeat)
            self._board.answer(request, Post(request.sender, given))
