"""The tools port: a posted call becomes one run of a tool and one answer."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial

from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import DEFAULTS
from callboard.actors.protocol.messages import CallTool, ToolReturned, ToolStatus
from callboard.runtime.agent import Agent
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sessions.board import Board
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.output import ToolOutcome


class ToolPort:
    """The tool calls of one session. on_progress: gets the address and each progress text of a tool."""

    def __init__(
        self,
        board: Board,
        agents: Mapping[str, Agent],
        runner: ToolRunner,
        on_progress: Callable[[str, str], None],
    ) -> None:
        self._board = board
        self._agents = agents
        self._runner = runner
        self._on_progress = on_progress
        self._tasks = Tasks(self._lost)

    def start(self, request: Event) -> None:
        """Run the tool, or answer at once if its arguments do not fit."""
        call = request.body
        assert isinstance(call, CallTool)
        state = self._board.core.states.get(request.sender)
        if not isinstance(state, AgentState):
            self._answer(request, call, "error", text_json("the agent that called is not there"))
            return
        agent = self._agents.get(prefix_of(state).profile.name)
        tool = agent.tools.get(call.tool) if agent else None
        if tool is None:
            self._answer(request, call, "error", text_json(f"there is no tool {call.tool!r} in this program"))
            return
        limits = state.limits
        result = self._runner.run(
            tool,
            call.arguments,
            self._context(request, call),
            timeout_s=limits.tool_timeout_s or DEFAULTS.tool_timeout_s or 120.0,
            max_chars=limits.max_tool_output_chars or DEFAULTS.max_tool_output_chars or 50_000,
            redactor=self._board.secrets.redactor,
        )
        if isinstance(result, ToolOutcome):
            self._answer(request, call, result.status, result.output)
        else:
            self._tasks.spawn_shared(request.seq, self._wait(request, call, result), result)

    def abort(self, request: Event) -> bool:
        """Cancel the call. Return False if it is not under way."""
        return self._tasks.cancel(request.seq)

    async def aclose(self) -> None:
        """Cancel all calls."""
        await self._tasks.aclose()

    def _context(self, request: Event, call: CallTool) -> ToolContext:
        sender = request.sender
        return ToolContext(
            address=sender,
            session_id=self._board.session_id,
            tool=call.tool,
            call_id=call.id,
            idempotency_key=f"{self._board.session_id}/{sender}/{call.turn}/{call.call}",
            on_progress=partial(self._on_progress, sender),
            secrets=self._board.secrets,
        )

    async def _wait(
        self, request: Event, call: CallTool, work: Coroutine[object, object, ToolOutcome]
    ) -> None:
        outcome = await work
        self._answer(request, call, outcome.status, outcome.output)

    def _lost(self, seq: int, error: BaseException) -> None:
        request = self._board.gate.request(seq)
        if request is not None and isinstance(request.body, CallTool):
            why = text_json(f"{request.body.tool} ended with {type(error).__name__}")
            self._answer(request, request.body, "error", why)

    def _answer(self, request: Event, call: CallTool, status: ToolStatus, output: Json) -> None:
        returned = ToolReturned(call.turn, call.call, status, output)
        self._board.answer(request, Post(request.sender, returned))
