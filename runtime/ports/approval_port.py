"""The approvals port: a request becomes a question for a person and one answer.

Rules
  - The first answer counts. The port gate takes it in; every later one is told that it came too late.
  - A question that a permission covers, or whose time is over, is answered without a person.
  - The time of a question runs from the event of its request, also while no process runs.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from msgspec.structs import replace

from callboard.actors.protocol.errors import InvalidPrompt, MisuseError, SessionEnded, UnknownName
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.session.permissions import Permission, expires_at, without_person
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import BY_CHARS_MAX, Approval, ApprovalAnswer, Approver, Said
from callboard.runtime.label_names import labels_of
from callboard.runtime.log.protocol import EventLog, Stored, event_of
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.sessions.board import Board
from callboard.runtime.tools.changed_arguments import changed_arguments
from callboard.runtime.tools.input_forms import checked_values

NOTE_CHARS_MAX: Final = 2_000
"""Characters of a person's reason; a longer one is cut."""

logger = logging.getLogger("callboard.approvals")


@dataclass(eq=False)
class _Waiting:
    """A question that waits. closed: done once it has its answer. shown: once a person may see it."""

    closed: "asyncio.Future[None]"
    timer: asyncio.TimerHandle | None = None
    shown: Approval | None = None


class ApprovalPort:
    """The questions of one session.

    agents: by profile; their tools check changed arguments. approver: answers first, if there is one.
    show: gets each question.
    """

    kind: ClassVar[type] = RequestApproval

    def __init__(
        self,
        board: Board,
        log: EventLog,
        agents: Mapping[str, Agent],
        approver: Approver | None,
        show: Callable[[Approval], None],
    ) -> None:
        self._board = board
        self._log = log
        self._agents = agents
        self._approver: Approver = approver or (lambda question: None)
        self._show = show
        self._waiting: dict[int, _Waiting] = {}
        self._is_closed = False
        self._tasks = Tasks(self._lost)
        self.also: ApprovalPort | None = None  # the questions about calls of a fork

    # --- the port -----------------------------------------------------------------

    def start(self, request: Event) -> None:
        """Ask the question of a request, which is durable."""
        if self._answered_alone(request):
            return
        loop = asyncio.get_running_loop()
        waiting = self._waiting[request.seq] = _Waiting(loop.create_future())
        self._set_timer(request)
        self._tasks.spawn(request.seq, self._wait(request, waiting), waiting.closed)

    def abort(self, request: Event) -> bool:
        """Withdraw the question. Return False if it was not asked yet."""
        is_asked = self._tasks.cancel(request.seq)
        if not is_asked:
            self._close(request.seq)
        return is_asked

    def detach(self) -> None:
        """Do nothing: the requests stay open, and a resume asks again."""

    @property
    def running(self) -> set[asyncio.Task[object]]:
        """Return the tasks of no question: an answer of a person is not waited for."""
        return set()

    async def aclose(self) -> None:
        """Withdraw all questions, without answers: the next process asks them again."""
        self._is_closed = True
        for seq in list(self._waiting):
            self._close(seq)
        await self._tasks.aclose()

    # --- answering ----------------------------------------------------------------

    @property
    def questions(self) -> tuple[Approval, ...]:
        """Return the questions that a person may answer now."""
        shown = [one.shown for one in self._waiting.values()]
        found = tuple(one for one in shown if one is not None and one.is_open)
        return found if self.also is None else (*found, *self.also.questions)

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """Return the permissions that hold."""
        return tuple(self._board.gate.permissions)

    async def answer(self, seq: int, answer: ApprovalAnswer) -> bool:
        """Answer the question whose request has this seq. Return False as `Approval.approve` does.

        Returns once the answer is durable. Raises UnknownName if this event asks no question, SessionEnded
        if the session has left this process with the question open, Diverged while it waits for its code.
        """
        if self._board.waits is not None:
            raise self._board.waits
        await self._durable()
        if self.also is not None and await self.also.is_about(seq):
            return await self.also.answer(seq, answer)
        stored = await self._stored(seq)
        if self._is_closed and self._board.gate.may_answer(seq):
            raise SessionEnded(
                f"session {self._board.session_id} has left this process; resume it, then answer"
            )
        is_first = self._settle(seq, stored.digest.hex(), answer)
        await self._durable()
        if self._board.error is not None:
            raise self._board.error
        return is_first

    async def _durable(self) -> None:
        if not self._is_closed:  # then nothing is left to be written, and the writer knows no such session
            await self._board.durable()

    async def _stored(self, seq: int) -> Stored:
        """Read a request. Raises UnknownName."""
        session_id = self._board.session_id
        rows = await self._log.read(session_id, seq, 1) if seq > 0 else []
        if not rows or not isinstance(event_of(session_id, rows[0]).body, self.kind):
            raise no_question(session_id, seq)
        return rows[0]

    async def is_about(self, seq: int) -> bool:
        """Return True if the event with this seq can be a question of this port."""
        with contextlib.suppress(UnknownName):
            return bool(await self._stored(seq))
        return False

    def _settle(self, seq: int, digest: str, answer: ApprovalAnswer) -> bool:
        """Post a person's answer, unless the question is closed."""
        board = self._board
        if board.waits is not None:
            raise board.waits
        request = board.gate.request(seq)
        if request is None or not self._is_wanted(request):
            return False
        if self._answered_alone(request):  # its time was over before its timer had fired
            return False
        given = self._message(request, digest, answer)
        board.answer(request, Post(request.sender, given))
        self._close(seq)
        if given.is_always:
            board.flush()  # the permission holds from its event on
            self._answer_covered()
        return True

    def _message(self, request: Event, digest: str, answer: ApprovalAnswer) -> ApprovalGiven:
        """Return the message of an answer. Raises InvalidPrompt, MisuseError for one that cannot be given."""
        given = given_by(request, digest, answer, self._board.secrets.redactor)
        if given.values != NULL:
            values = self._board.inputs.take(request, given.values, self._board.secrets)
            return replace(given, values=values)
        if answer.arguments is None or not answer.is_approved:
            return given
        assert isinstance(request.body, RequestApproval)
        return replace(given, arguments=self._arguments(request.body, answer.arguments))

    def _arguments(self, asked: RequestApproval, arguments: Mapping[str, object]) -> Json:
        agent = self._agents.get(asked.profile)
        tool = agent.tools.get(asked.tool) if agent else None
        if tool is None:
            raise InvalidPrompt(f"there is no tool {asked.tool!r} in this program to check arguments with")
        return changed_arguments(tool, arguments)

    # --- answers without a person -------------------------------------------------

    def _answered_alone(self, request: Event) -> bool:
        """Answer a question that needs no person. Return False if it needs one."""
        answer = without_person(request, self._board.now_ms, self._board.gate.permissions)
        if answer is not None:
            self._board.answer(request, answer)
            self._close(request.seq)
        return answer is not None

    def _answer_covered(self) -> None:
        """Answer the waiting questions that the permissions cover."""
        for seq in list(self._waiting):
            request = self._board.gate.request(seq)
            if request is not None and self._is_wanted(request):
                self._answered_alone(request)

    def _set_timer(self, request: Event) -> None:
        due, waiting = expires_at(request), self._waiting[request.seq]
        if due is not None:
            left = max(1, due - self._board.now_ms)
            loop = asyncio.get_running_loop()
            waiting.timer = loop.call_later(left / 1_000, self._expire, request)

    def _expire(self, request: Event) -> None:
        # The loop's clock and the clock of the log are two: a timer may be early by a few milliseconds.
        if request.seq in self._waiting and not self._answered_alone(request):
            self._set_timer(request)

    def _close(self, seq: int) -> None:
        """End the wait for a person."""
        waiting = self._waiting.pop(seq, None)
        if waiting is None:
            return
        if waiting.timer is not None:
            waiting.timer.cancel()
        if not waiting.closed.done():
            waiting.closed.set_result(None)

    # --- the wait for a person ----------------------------------------------------

    async def _wait(self, request: Event, waiting: _Waiting) -> None:
        try:
            await self._ask(request, waiting)
        except asyncio.CancelledError:
            if request.seq not in self._waiting:
                pass  # it has its answer, or the process leaves it to the next
            elif self._tasks.is_orphaned(request.seq):
                self._board.end_with_loop()
            else:
                self._board.answer(request, self._board.gate.cancelled(request))
        finally:
            self._close(request.seq)

    async def _ask(self, request: Event, waiting: _Waiting) -> None:
        stored = await self._stored(request.seq)
        if waiting.closed.done():
            return
        question = waiting.shown = self._question(request, stored.digest.hex())
        self._show(question)
        said = await self._said(question, waiting)
        if said is not None:
            question._settle(_answer_of(said))
        await waiting.closed

    def _question(self, request: Event, digest: str) -> Approval:
        body, seq = request.body, request.seq
        assert isinstance(body, RequestApproval)
        return Approval(
            session_id=self._board.session_id,
            address=request.sender,
            profile=body.profile,
            tool=body.tool,
            effect=body.effect,
            _arguments=body.arguments,
            is_repeat=body.is_repeat,
            seq=seq,
            digest=digest,
            expires_at_ms=expires_at(request),
            round=body.round,
            _forms=body.form,
            _object=self._board.deps.current,
            _settle=lambda answer: self._settle(seq, digest, answer),
            _is_open=lambda: self._is_open(request),
        )

    def _is_open(self, request: Event) -> bool:
        return request.seq in self._waiting and self._is_wanted(request)

    def _is_wanted(self, request: Event) -> bool:
        # Not `may_start`: a person may answer while the process detaches, and no port may start then.
        gate = self._board.gate
        is_running = self._board.error is None and not self._is_closed
        return is_running and gate.may_answer(request.seq) and gate.is_wanted(request.seq)

    async def _said(self, question: Approval, waiting: _Waiting) -> Said:
        """Return the approver's result; None if the question is closed before it has one."""
        said = self._approver(question)
        if not inspect.isawaitable(said):
            return said
        asking: asyncio.Future[Said] = asyncio.ensure_future(_awaited(said))
        try:
            await asyncio.wait((asking, waiting.closed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not asking.done():
                asking.add_done_callback(_look_at)
                asking.cancel()
        return asking.result() if asking.done() else None

    def _lost(self, seq: int, error: BaseException) -> None:
        request = self._board.gate.request(seq)
        if request is not None and isinstance(body := request.body, RequestApproval):
            told = self._board.secrets.redactor.told(error)
            logger.error("asking for approval of %s failed\n%s", body.tool, told)
            why = f"asking for it failed with {type(error).__name__}"
            given = ApprovalGiven(
                turn=body.turn,
                call=body.call,
                verdict="denied",
                note=why,
                is_repeat=body.is_repeat,
                round=body.round,
            )
            self._board.answer(request, Post(request.sender, given))


def no_question(session_id: str, seq: int) -> UnknownName:
    """Return the error for an answer to an event that asks nothing."""
    return UnknownName(f"event {seq} of session {session_id} asks for no approval; see `callboard approvals`")


def given_by(request: Event, digest: str, answer: ApprovalAnswer, redactor: Redactor) -> ApprovalGiven:
    """Return the message of a person's answer, without changed arguments.

    Raises MisuseError, and InvalidPrompt for values that do not fit the form.
    """
    asked = request.body
    assert isinstance(asked, RequestApproval)
    _refuse_misfit(request.seq, asked, answer)
    values = NULL
    if asked.round and answer.is_approved:
        values = checked_values(asked.form, answer.values)
    return ApprovalGiven(
        turn=asked.turn,
        call=asked.call,
        verdict="approved" if answer.is_approved else "denied",
        note=redactor.cut(clean_text(answer.note), NOTE_CHARS_MAX),
        digest=digest,
        is_repeat=asked.is_repeat,
        by=redactor.cut(clean_text(answer.by), BY_CHARS_MAX),
        is_always=answer.is_always and answer.is_approved,
        round=asked.round,
        values=values,
        labels=labels_of(answer.labels),
    )


def _refuse_misfit(seq: int, asked: RequestApproval, answer: ApprovalAnswer) -> None:
    """Refuse an answer that its question does not take. Raises MisuseError, InvalidPrompt."""
    call, is_form = f"call {seq} of {asked.tool}", asked.round > 0
    if answer.is_always and asked.is_repeat:
        raise MisuseError(f"{call} was interrupted: approve it alone, without `always`")
    if answer.is_always and is_form:
        raise MisuseError(f"{call} asks for input: approve it alone, without `always`")
    if is_form and answer.arguments is not None:
        raise InvalidPrompt(f"{call} has begun: give values=, not arguments=")
    if answer.reuses:
        raise MisuseError(f"{call} has no recorded result to reuse: only a call of a fork may have one")
    if answer.values is not None and not is_form:
        raise InvalidPrompt(f"{call} asks for no input: it takes no values=")


async def _awaited(said: Awaitable[Said]) -> Said:
    return await said


def _look_at(asking: "asyncio.Future[Said]") -> None:
    """Retrieve the exception of an approver that is no longer needed: else asyncio reports it."""
    if not asking.cancelled():
        asking.exception()


def _answer_of(said: ApprovalAnswer | bool | str) -> ApprovalAnswer:
    match said:
        case ApprovalAnswer():
            return said
        case bool():
            return ApprovalAnswer(said)
        case str():
            return ApprovalAnswer(False, said)
    raise TypeError(f"an approver returns True, False, a text, an ApprovalAnswer or None, not {said!r:.80}")
