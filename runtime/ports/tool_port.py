"""The tools port: a posted call becomes one run of a tool and one answer."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from callboard.actors.agent.continued_calls import asked_of
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ToolsChange
from callboard.actors.protocol.value_types import InputAsked
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sanitize import to_json
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.session_tools import SessionTools
from callboard.runtime.tools.context import NO_FILES, ToolContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.output import ToolOutcome, failed
from callboard.runtime.tools.shared_state import StateAccess

_CUT: Final = ("cancelled", "interrupted")
_NO_ACCESS: Final = StateAccess()
"""The access to a state without keys: one for all calls, since nothing can be read or updated."""


class ToolPort:
    """The tool calls of one session.

    on_progress: gets each progress text of a tool, after its agent's address, turn, call, and the call's seq.
    """

    def __init__(
        self,
        board: Board,
        tools: SessionTools,
        runner: ToolRunner,
        on_progress: Callable[[str, int, int, int, str], None],
    ) -> None:
        self._board = board
        self._tools = tools
        self._runner = runner
        self._on_progress = on_progress
        self._tasks = Tasks(self._lost)

    def start(self, request: Event) -> None:
        """Run the tool, or answer at once if its arguments do not fit."""
        call = request.body
        state = self._board.core.states[request.sender]
        assert isinstance(call, CallTool)
        assert isinstance(state, AgentState)
        prefix = prefix_of(state)
        profile = prefix.profile.name
        tool = self._tools.find(request.sender, profile, call.tool, prefix.specs.get(call.tool))
        if tool is None:
            self._answer(request, failed(f"there is no tool {call.tool!r} in this program"))
            return
        timeout_s, max_chars = state.limits.tool_timeout_s, state.limits.max_tool_output_chars
        assert timeout_s is not None  # an agent's `Begin` states every limit
        assert max_chars is not None
        if call.given is not None and (asked := self._missing_input(request, call, state)) is not None:
            said = to_json("The input of a person was secret, and was not kept over the end of a process.")
            self._answer(request, ToolOutcome("input_required", said, asked=asked))
            return
        ctx = self._context(request, call, profile)
        result = self._runner.run(
            tool,
            call.arguments,
            ctx,
            timeout_s=timeout_s,
            max_chars=max_chars,
            redactor=self._board.secrets.redactor,
            may_cut=not state.model.is_program,
        )
        if isinstance(result, ToolOutcome):
            self._answer(request, result)
        else:
            self._tasks.spawn_shared(request.seq, self._wait(request, result, ctx), result)

    def abort(self, request: Event) -> bool:
        """Cancel the call. Return False if it is not under way."""
        return self._tasks.cancel(request.seq)

    def detach(self) -> None:
        """Do nothing: the requests stay open, and a resume treats them as after a crash."""

    @property
    def running(self) -> set[asyncio.Task[Any]]:
        """Return the tasks of calls."""
        return self._tasks.running

    async def aclose(self) -> None:
        """Cancel all calls."""
        await self._tasks.aclose()

    def _context(self, request: Event, call: CallTool, profile: str) -> ToolContext:
        sender, gate = request.sender, self._board.gate
        shared = StateAccess(gate.state_for(request)) if gate.shared.cells else _NO_ACCESS
        state = self._board.core.states[sender]
        assert isinstance(state, AgentState)
        spec = prefix_of(state).specs.get(call.tool)
        return ToolContext(
            address=sender,
            session_id=self._board.session_id,
            tool=call.tool,
            call_id=call.id,
            idempotency_key=f"{self._board.session_id}/{sender}/{call.turn}/{call.call}",
            deps=self._board.deps.current,
            on_progress=partial(self._on_progress, sender, call.turn, call.call, request.seq),
            secrets=self._board.secrets,
            files=self._board.deps.files or NO_FILES,  # type: ignore[arg-type]  # see ToolContext
            shared=shared,
            toolbox=partial(self._change, sender, profile),
            given=None if call.given is None else self._board.inputs.whole(sender, call),
            rights=state.permissions,
            labels=call.labels,
            tool_labels=spec.labels if spec is not None else (),
        )

    def _missing_input(self, request: Event, call: CallTool, state: AgentState) -> InputAsked | None:
        """Return the input to ask for again: its secret values went with the process that had them."""
        asked = asked_of(state, call.turn, call.call)
        is_whole = asked is None or self._board.inputs.has(request.sender, call, asked)
        return None if is_whole else asked

    def _change(self, sender: str, profile: str, tools: Sequence[object], agent: str) -> ToolsChange:
        """Return the change that a tool makes: for its own agent, or for all agents of a profile."""
        return self._tools.change(tools, address="" if agent else sender, agent=agent, of=profile)

    async def _wait(
        self, request: Event, work: Coroutine[object, object, ToolOutcome], ctx: ToolContext
    ) -> None:
        outcome = await work
        if outcome.status in _CUT and self._tasks.is_orphaned(request.seq):
            self._board.end_with_loop()
        else:
            self._answer(request, outcome, ctx)

    def _lost(self, seq: int, error: BaseException) -> None:
        request = self._board.gate.request(seq)
        if request is not None and isinstance(request.body, CallTool):
            self._answer(request, failed(f"{request.body.tool} ended with {type(error).__name__}"))

    def _answer(self, request: Event, outcome: ToolOutcome, ctx: ToolContext | None = None) -> None:
        call = request.body
        assert isinstance(call, CallTool)
        status, output = outcome.status, outcome.output
        has_state = bool(self._board.gate.shared.cells)
        updates, read = ctx.state_used if ctx is not None and has_state else ((), ())
        change, checkpoints = (ctx.tools_change, ctx.checkpoints) if ctx is not None else (None, ())
        if status != "ok":
            # A call that failed changes nothing, so that it can be made again.
            updates, change, checkpoints = (), None, ()
        labels = ctx.labels_stated if ctx is not None else ()
        result = (status, output, outcome.trace, updates, read, change, outcome.asked)
        returned = ToolReturned(call.turn, call.call, *result, checkpoints=checkpoints, labels=labels)
        self._board.answer(request, Post(request.sender, returned))
