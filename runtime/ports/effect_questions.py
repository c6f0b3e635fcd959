"""The questions of a fork with `effects="ask"`: may this tool with an effect run, without a recorded result?

The call itself is the question: it is shown where approvals are listed, and answered by the tools port after
a person's word. So nothing of it is in the log before the tool runs, and another process asks again.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, NamedTuple

from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.session.recorded_answers import Reusable
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import Approval, ApprovalAnswer, Approver
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.ports.approval_port import NOTE_CHARS_MAX, ApprovalPort
from callboard.runtime.sanitize import clean_text
from callboard.runtime.sessions.board import Board


class _Asked(NamedTuple):
    same: Reusable | None
    choose: Callable[[Reusable], Post | None]
    run: Callable[[], None]


class EffectQuestions(ApprovalPort):
    """The calls of one fork that wait for a person."""

    kind: ClassVar[type] = CallTool

    def __init__(
        self,
        board: Board,
        log: EventLog,
        agents: Mapping[str, Agent],
        approver: Approver | None,
        show: Callable[[Approval], None],
    ) -> None:
        super().__init__(board, log, agents, approver, show)
        self._asked: dict[int, _Asked] = {}

    def ask(
        self,
        request: Event,
        same: Reusable | None,
        choose: Callable[[Reusable], Post | None],
        run: Callable[[], None],
    ) -> None:
        """Ask about a call, once it is durable.

        same: the recorded result that may be given instead. choose: takes it for this call, and returns its
        answer, or None if another call has it by now. run: lets the tool run.
        """
        self._asked[request.seq] = _Asked(same, choose, run)
        self._board.when_durable(request.seq, partial(self._start, request))

    def _start(self, request: Event) -> None:
        if self._board.gate.may_start(request):
            self.start(request)

    def withdraw(self, request: Event) -> bool:
        """Withdraw a question. Return False if none is shown about this call."""
        # After an answer, its task still has a step to go: the call is no longer the question's by then.
        return self._asked.pop(request.seq, None) is not None and self.abort(request)

    def _settle(self, seq: int, digest: str, answer: ApprovalAnswer) -> bool:
        request = self._board.gate.request(seq)
        if request is None or seq not in self._waiting or not self._is_wanted(request):
            return False
        asked = self._asked[seq]
        _refuse_misfit(request, asked.same, answer)
        reused = asked.same if answer.reuses and answer.is_approved else None
        given = None if reused is None else asked.choose(reused)
        if reused is not None and given is None:
            raise MisuseError(f"event {reused.seq}, which call {seq} might reuse, has gone to another call")
        del self._asked[seq]
        self._close(seq)
        if not answer.is_approved:
            self._refuse(request, answer.note)
        elif given is not None:
            self._board.answer(request, given)
        else:
            asked.run()
        return True

    def _refuse(self, request: Event, note: str) -> None:
        call = request.body
        assert isinstance(call, CallTool)
        words = self._board.secrets.redactor.cut(clean_text(note), NOTE_CHARS_MAX)
        output = text_json(f"Not run: {words or 'a person refused this call'}")
        self._board.answer(
            request,
            Post(request.sender, ToolReturned(turn=call.turn, call=call.call, status="error", output=output)),
        )

    def _answered_alone(self, request: Event) -> bool:
        return False

    def _question(self, request: Event, digest: str) -> Approval:
        call, seq = request.body, request.seq
        assert isinstance(call, CallTool)
        state = self._board.core.states[request.sender]
        assert isinstance(state, AgentState)
        same = self._asked[seq].same
        return Approval(
            session_id=self._board.session_id,
            address=request.sender,
            profile=prefix_of(state).profile.name,
            tool=call.tool,
            effect=call.effect,
            _arguments=call.arguments,
            is_repeat=False,
            seq=seq,
            digest=digest,
            expires_at_ms=None,
            round=0,
            _forms=NULL,
            _object=self._board.deps.current,
            _settle=lambda answer: self._settle(seq, digest, answer),
            _is_open=lambda: self._is_open(request),
            is_fork=True,
            same=same.seq if same else 0,
        )

    def _lost(self, seq: int, error: BaseException) -> None:
        request = self._board.gate.request(seq)
        if request is not None:
            self._refuse(request, f"asking for it failed with {type(error).__name__}")


def _refuse_misfit(request: Event, same: Reusable | None, answer: ApprovalAnswer) -> None:
    """Refuse an answer that a call of a fork does not take. Raises MisuseError."""
    call = request.body
    assert isinstance(call, CallTool)
    if answer.reuses and same is None:
        raise MisuseError(f"call {request.seq} of {call.tool} has no recorded result in another turn")
    if answer.arguments is not None or answer.values is not None or answer.is_always:
        raise MisuseError(f"call {request.seq} of {call.tool} is one of a fork: approve it alone")
