"""The tools port: a posted call becomes one run of a tool and one answer.

The calls whose results this process may still give again, for reasons that no log shows.

    other deps       a result may depend on the object that its tool was given
    left threads     a tool with an effect that was given up may take it at any time, until its thread ends

Each answer that is given again is in the log, so that a replay needs none of this.

The telemetry of a tool call as the tools port completes it: the call, its times, and the cache.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.continued_calls import asked_of
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ToolsChange, ToolSpec
from callboard.actors.protocol.telemetry import CacheUse, Telemetry
from callboard.actors.protocol.value_types import InputAsked
from callboard.actors.session.cached_results import repeated
from callboard.runtime.files.call_files import NO_FILES
from callboard.runtime.files.comparing import compared
from callboard.runtime.files.versions import CallVersions, LateVersions, keeps_versions
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sanitize import to_json
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.session_tools import SessionTools
from callboard.runtime.tools.context import LateContext, ToolContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.output import ToolOutcome, describe, failed
from callboard.runtime.tools.shared_state import StateAccess


class Freshness:
    """The first call whose result may be given again, for each call that asks for one."""

    def __init__(self) -> None:
        self._deps: object = None
        self._deps_since = 0
        self._left: list[Callable[[], bool]] = []
        self._left_since = 0

    def add(self, goes_on: Callable[[], bool]) -> None:
        """Add a function with an effect that runs behind its answer. goes_on: False once it has ended."""
        self._left.append(goes_on)

    def since(self, request: Event, deps: object) -> int:
        """Return the seq of the first call whose result may answer this request. deps: as of now."""
        call = request.body
        assert isinstance(call, CallTool)
        if deps is not self._deps:
            self._deps, self._deps_since = deps, request.seq
        if self._left:
            # One that has ended since took its effect after results that were read before now.
            self._left = [goes_on for goes_on in self._left if goes_on()]
            self._left_since = request.seq
        over_writes = call.cache is not None and call.cache.over_writes
        return self._deps_since if over_writes else max(self._deps_since, self._left_since)


_NONE = Telemetry()


def completed(
    measured: Telemetry | None, board: Board, request: Event, version: str, *, is_hit: bool = False
) -> Telemetry | None:
    """Return the telemetry of a call for its answer; None for a plain tool without a cache.

    measured: by the tool. version: of the tool. is_hit: True if a result is given again.
    """
    call = request.body
    assert isinstance(call, CallTool)
    if measured is None and call.cache is None:
        return None
    return replace(
        measured or _NONE,
        tool=call.tool,
        version=version,
        execution=f"{board.session_id}#{request.seq}",
        at_ms=request.at,
        latency_ms=max(0, board.now_ms - request.at),
        cache=_cache_use(call, is_hit=is_hit),
        cache_key=call.cache.key if call.cache else "",
    )


def _cache_use(call: CallTool, *, is_hit: bool) -> CacheUse:
    if call.cache is None:
        return ""
    return "hit" if is_hit else "miss"


def of_hit(origin: Telemetry | None) -> Telemetry | None:
    """Return the figures of a call whose tool did not run: the size of the result that it repeats."""
    return origin and Telemetry(tokens_out_estimated=origin.tokens_out_estimated)


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
        self._fresh = Freshness()
        self._tasks = Tasks(self._lost)
        self._versions = LateVersions()

    def start(self, request: Event) -> None:
        """Run the tool, or answer at once if its arguments do not fit."""
        call = request.body
        state = self._board.core.states[request.sender]
        assert isinstance(call, CallTool)
        assert isinstance(state, AgentState)
        prefix = prefix_of(state)
        profile, spec = prefix.profile.name, prefix.specs.get(call.tool)
        try:
            tool = self._tools.find(request.sender, profile, call.tool, spec)
        except Exception as error:  # of the factory of the agent, in a process that resumes it
            why = describe(error, self._board.secrets.redactor)
            self._answer(request, failed(f"{profile} could not be made again: {why}"))
            return
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
        if call.cache is not None and self._repeat(request):
            return
        ctx = LateContext(partial(self._context, request, call, state, profile, spec))
        if call.given is not None:
            ctx.get()  # it takes the secret values of the call, which else stay in memory
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
            versions = None
            if keeps_versions(self._board.deps.files) and spec is not None and "shell" in spec.capabilities:
                versions = ctx.get().versions  # it makes the context, which such a tool need not take
            self._tasks.spawn_shared(request.seq, self._wait(request, result, ctx, versions), result)

    def _repeat(self, request: Event) -> bool:
        """Answer a call with a result that the session has already. Return False without one."""
        since = self._fresh.since(request, self._board.deps.current)
        found = self._board.gate.cached_result(request, self._board.now_ms)
        if found is None or found.call < since:
            return False
        body = repeated(request, found, self._board.session_id)
        measured = of_hit(found.body.telemetry)
        told = completed(measured, self._board, request, self._version(request), is_hit=True)
        self._board.answer(request, Post(request.sender, replace(body, telemetry=told)))
        return True

    def _version(self, request: Event) -> str:
        call, state = request.body, self._board.core.states[request.sender]
        assert isinstance(call, CallTool)
        assert isinstance(state, AgentState)
        spec = prefix_of(state).specs.get(call.tool)
        return "" if spec is None else spec.version

    def abort(self, request: Event) -> bool:
        """Cancel the call. Return False if it is not under way."""
        return self._tasks.cancel(request.seq)

    def detach(self) -> None:
        """Do nothing: the requests stay open, and a resume treats them as after a crash."""

    @property
    def running(self) -> set[asyncio.Task[object]]:
        """Return the tasks of calls."""
        return self._tasks.running

    def writing(self) -> set[asyncio.Task[object]]:
        """Return the tasks of calls that write."""
        return self._tasks.of(filter(self._writes, self._tasks.begun))

    def _writes(self, seq: int) -> bool:
        request = self._board.gate.request(seq)
        return request is not None and isinstance(request.body, CallTool) and request.body.effect == "write"

    async def aclose(self) -> None:
        """Cancel all calls."""
        await self._tasks.aclose()

    def _context(
        self, request: Event, call: CallTool, state: AgentState, profile: str, spec: ToolSpec | None
    ) -> ToolContext:
        board, sender = self._board, request.sender
        gate, session_id = board.core.gate, board.session_id
        shared = StateAccess(gate.state_for(request)) if gate.shared.cells else _NO_ACCESS
        return ToolContext(
            address=sender,
            session_id=session_id,
            tool=call.tool,
            call_id=call.id,
            idempotency_key=f"{session_id}/{sender}/{call.turn}/{call.call}",
            deps=board.deps.current,
            on_progress=partial(self._on_progress, sender, call.turn, call.call, request.seq),
            secrets=board.secrets,
            files=board.deps.files or NO_FILES,  # type: ignore[arg-type]  # see ToolContext
            http_settings=board.deps.http,
            shared=shared,
            memories=self._board.deps.memory,
            profile=profile,
            toolbox=partial(self._change, sender, profile),
            given=None if call.given is None else board.inputs.whole(sender, call),
            rights=state.permissions,
            labels=call.labels,
            tool_labels=spec.labels if spec is not None else (),
            file_labels=gate.files,
            versions=self._versions.call(board.deps.files, gate.history, board.secrets.redactor),
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
        self,
        request: Event,
        work: Coroutine[object, object, ToolOutcome],
        ctx: LateContext,
        versions: CallVersions | None,
    ) -> None:
        """Await a call and answer it. versions: of a program that works in the folder of the session."""
        outcome = await (work if versions is None else compared(versions, work))
        if outcome.status in _CUT and self._tasks.is_orphaned(request.seq):
            self._board.end_with_loop()
            return
        self._answer(request, outcome, ctx.made, ctx.goes_on)

    def _lost(self, seq: int, error: BaseException) -> None:
        request = self._board.gate.request(seq)
        if request is not None and isinstance(request.body, CallTool):
            self._answer(request, failed(f"{request.body.tool} ended with {type(error).__name__}"))

    def _answer(
        self,
        request: Event,
        outcome: ToolOutcome,
        ctx: ToolContext | None = None,
        goes_on: Callable[[], bool] | None = None,
    ) -> None:
        call = request.body
        assert isinstance(call, CallTool)
        if goes_on is not None and call.effect != "read":
            self._fresh.add(goes_on)
        status, output = outcome.status, outcome.output
        returned = ToolReturned(
            turn=call.turn,
            call=call.call,
            status=status,
            output=output,
            trace=outcome.trace,
            asked=outcome.asked,
        )
        if ctx is not None and ctx.is_used:
            returned = with_use(returned, ctx)
        if ctx is not None and ctx.versions is not None:
            returned = ctx.versions.added_to(returned)
        if outcome.telemetry is not None or call.cache is not None:
            told = completed(outcome.telemetry, self._board, request, self._version(request))
            returned = replace(returned, telemetry=told)
        self._board.answer(request, Post(request.sender, returned))


def with_use(returned: ToolReturned, ctx: ToolContext) -> ToolReturned:
    """Return an answer with what the call did by its context."""
    updates, read = ctx.state_used
    uses = ctx.access.uses
    returned = replace(returned, state_read=read, labels=ctx.labels_stated, uses=uses)
    if returned.status != "ok":
        return returned  # a call that failed changes nothing, so that it can be made again
    return replace(returned, state_update=updates, tools=ctx.tools_change, checkpoints=ctx.checkpoints)
