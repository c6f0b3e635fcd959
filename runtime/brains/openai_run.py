"""One run of a brain: every agent that runs in it asks through its gate, and calls tools by the session.

Agents run others by `Runner.run`: as tools, in guardrails, in functions. All of these go through the default
runner of the framework. `Door` stands there: it leads runs in a brain to the brain, and hands on all others.
"""

import contextvars
import copy
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeAlias, Unpack, overload

import msgspec
from agents import (
    Agent,
    FunctionTool,
    Handoff,
    ModelSettings,
    RunConfig,
    RunResult,
    RunResultStreaming,
    TResponseInputItem,
    handoff,
)
from agents.exceptions import ModelBehaviorError
from agents.models.interface import Model, ModelProvider
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from agents.run_config import RunOptions
from agents.run_context import RunContextWrapper
from agents.run_state import RunState
from agents.tool import with_function_tool_failure_error_handler
from agents.tool_context import ToolContext as FrameworkContext

from callboard.actors.protocol.errors import CallFailed, Interrupted, InvalidAgent, NotApproved
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.common import Latch, called, during, note_of
from callboard.runtime.brains.openai_gate import NO_STREAM, Gate, default_settings
from callboard.runtime.brains.openai_messages import Conversation, output_part
from callboard.runtime.brains.openai_model import model_key
from callboard.runtime.brains.openai_tools import check_agent, is_agent
from callboard.runtime.brains.openai_traces import untraced
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.context import ProgramContext

Input: TypeAlias = str | list[TResponseInputItem] | RunState
"""The input of a run: a text, messages, or the state of an interrupted run."""

Invoke = Callable[[FrameworkContext, str], Awaitable[object]]

_KEPT: Final = ("session", "conversation_id", "previous_response_id", "auto_previous_response_id")
"""The options of a run that keep its messages elsewhere."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a brain knows of its agents.

    tools: the names of those whose calls are calls of the session, with those that a person must approve.
    inner: the function tools that run in the program. models: by the model that an agent names, or by the id
    of its object. asked: the default one, None for an inherited one. overridden: the default one is for all.
    """

    tools: Collection[str]
    inner: Collection[str]
    models: Mapping[object, ModelChoice]
    asked: ModelChoice | None
    is_overridden: bool


class BrainRun:
    """The agents of one run, with the runs inside it."""

    def __init__(self, ctx: ProgramContext, parts: Parts) -> None:
        self.latch = Latch()
        self._ctx = ctx
        self._parts = parts
        self._said = Conversation()
        self._led: dict[int, tuple[Agent, Agent]] = {}

    # --- runs ---------------------------------------------------------------------------

    def options(self, options: RunOptions) -> RunOptions:
        """Return the options of a run of the framework, led to this brain. Raises MisuseError."""
        if kept := [key for key in _KEPT if options.get(key) not in (None, False)]:
            raise self.latch.refuse(
                f"a run in a brain has no {kept[0]}, whose messages are those of the session: leave it out"
            )
        config = options.get("run_config") or RunConfig(model_provider=Gates(self))
        if not isinstance(config, RunConfig):
            config = RunConfig(**config)
        if config.sandbox is not None:
            raise self.latch.refuse("a run in a brain has no sandbox: leave it out of its `run_config`")
        named = None if config.model is None or isinstance(config.model, Gate) else config.model
        led = dataclasses.replace(
            config,
            model=None if named is None else self.gate(named),
            model_provider=Gates(self),
            model_settings=_without_retries(config.model_settings),
            tracing_disabled=True,
        )
        return {**options, "run_config": led}

    def gate(self, model: Model | str | None) -> Gate:
        """Return the gate for an agent with this model. Raises MisuseError for one that the brain lacks."""
        parts = self._parts
        choice = None if parts.is_overridden or model is None else parts.models.get(model_key(model))
        if choice is None and model is not None and not parts.is_overridden:
            raise self.latch.refuse(
                f"an agent asks {model!r:.80}, which its brain does not know: name the agent in "
                "`openai_agent(..., nested=[...])`, list the model in `models=[OpenAIAgentsModel(...)]`, or "
                "give one `model=` for all"
            )
        asked = parts.asked if choice is None else choice
        if choice is not None and parts.asked is not None and choice.spec.name == parts.asked.spec.name:
            choice = None
        return Gate(self._ctx, self.latch, self._said, choice, asked, default_settings(model))

    # --- agents -------------------------------------------------------------------------

    def led(self, agent: Agent) -> Agent:
        """Return an agent as it runs here, the same each time. Raises MisuseError."""
        for mine, theirs in self._led.values():
            if mine is agent or theirs is agent:
                return mine
        try:
            check_agent(agent)
        except InvalidAgent as error:
            raise self.latch.refuse(str(error)) from None
        mine = agent.clone(
            model=self.gate(agent.model),
            model_settings=_without_retries(agent.model_settings),
            tools=[self._tool(tool) for tool in agent.tools if isinstance(tool, FunctionTool)],
            handoffs=[self._handoff(step) for step in agent.handoffs],
        )
        self._led[id(agent)] = mine, agent
        return mine

    def _handoff(self, step: Agent | Handoff) -> Handoff:
        found = copy.copy(step) if isinstance(step, Handoff) else handoff(step)
        invoke = found.on_invoke_handoff

        async def go(context: RunContextWrapper, written: str) -> Agent:
            return self.led(await invoke(context, written))

        found.on_invoke_handoff = go
        return found

    def _tool(self, tool: FunctionTool) -> FunctionTool:
        mine = copy.copy(tool)
        mine.needs_approval = False  # our own approval of the call asks the person
        mine.timeout_seconds = None  # it counts for the call, not for the wait for a person
        runs_here = is_agent(tool) or tool.name in self._parts.inner
        if runs_here and tool.name in self._parts.tools:
            mine.on_invoke_tool = self._approved(tool)
        elif not runs_here:
            mine.on_invoke_tool = self._called(tool)
        bind = getattr(mine.on_invoke_tool, "__agents_bind_function_tool__", None)
        if bind is not None:
            mine.on_invoke_tool = bind(mine)
        return mine

    def _called(self, tool: FunctionTool) -> Invoke:
        if tool.name not in self._parts.tools:
            raise self.latch.refuse(
                f"tool {tool.name!r} belongs to an agent that its brain does not know, so its calls cannot "
                "be recorded: name the agent in `openai_agent(..., nested=[...])`"
            )

        async def invoke(context: FrameworkContext, written: str) -> object:
            return await self._call(tool.name, context, written)

        return with_function_tool_failure_error_handler(invoke, _handled)

    def _approved(self, tool: FunctionTool) -> Invoke:
        inner = tool.on_invoke_tool

        async def invoke(context: FrameworkContext, written: str) -> object:
            told = await self._call(tool.name, context, written)
            return told if context.tool_call_id in self._said.failed else await inner(context, str(told))

        return with_function_tool_failure_error_handler(invoke, _handled)

    async def _call(self, name: str, context: FrameworkContext, written: str) -> object:
        """Call a tool of the session. Raises CallFailed, which the framework tells to the model."""
        call = context.tool_call_id
        try:
            result = await called(self._ctx, name, _arguments(name, written))
        except (Interrupted, NotApproved, CallFailed) as error:
            self._said.failed.add(call)
            self._said.notes[call] = note_of(error)
            if isinstance(error, CallFailed):
                raise
            # In our words: the framework's would ask the model to try again.
            return str(error)
        self._said.notes[call] = result.note
        return result.text if result.blocks is None else [output_part(block) for block in result.blocks]


@overload
def _without_retries(settings: ModelSettings) -> ModelSettings: ...
@overload
def _without_retries(settings: None) -> None: ...
def _without_retries(settings: ModelSettings | None) -> ModelSettings | None:
    """Return settings that leave the attempts of a question to the session, which makes and records them."""
    return None if settings is None else dataclasses.replace(settings, retry=None)


def _arguments(name: str, written: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(written or "{}", type=JsonObject)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ModelBehaviorError(f"the arguments of {name} are not a JSON object: {error}") from None


def _handled(tool: FunctionTool, error: Exception, written: str) -> None:
    """Say nothing: the failure is in the log."""


class Gates(ModelProvider):
    """The models of a run, by the names that agents give."""

    def __init__(self, run: BrainRun) -> None:
        self._run = run

    def get_model(self, model_name: str | None) -> Model:
        """Return the gate for a model. Raises MisuseError."""
        return self._run.gate(model_name)


# --- the door -------------------------------------------------------------------------------

_CURRENT: Final[contextvars.ContextVar[BrainRun | None]] = contextvars.ContextVar("brain", default=None)


class Door(AgentRunner):
    """The default runner of the framework, once there are brains. beyond: the one before."""

    def __init__(self, beyond: AgentRunner) -> None:
        self._beyond = beyond

    async def run(self, starting_agent: Agent, input: Input, **options: Unpack[RunOptions]) -> RunResult:
        """Run an agent: in the brain that it stands in, else as before. Raises MisuseError."""
        run = _CURRENT.get()
        if run is None:
            return await self._beyond.run(starting_agent, input, **options)
        if isinstance(input, RunState):
            raise run.latch.refuse("a run in a brain does not go on from a RunState: the session resumes it")
        return await super().run(run.led(starting_agent), input, **run.options(options))

    def run_sync(self, starting_agent: Agent, input: Input, **options: Unpack[RunOptions]) -> RunResult:
        """Run an agent outside of a brain. Raises MisuseError inside one."""
        run = _CURRENT.get()
        if run is None:
            return self._beyond.run_sync(starting_agent, input, **options)
        raise run.latch.refuse("a brain has one loop: write `await Runner.run(...)` in an async function")

    def run_streamed(
        self, starting_agent: Agent, input: Input, **options: Unpack[RunOptions]
    ) -> RunResultStreaming:
        """Run an agent outside of a brain. Raises MisuseError inside one."""
        run = _CURRENT.get()
        if run is None:
            return self._beyond.run_streamed(starting_agent, input, **options)
        raise run.latch.refuse(NO_STREAM)


async def run_in(run: BrainRun, agent: Agent, given: Input, **options: Unpack[RunOptions]) -> RunResult:
    """Run an agent in a brain, and every other agent that it runs. Raises what the framework raises."""
    before = get_default_agent_runner()
    door = before if isinstance(before, Door) else Door(before)
    if door is not before:
        set_default_agent_runner(door)
    with during(_CURRENT, run), untraced():
        return await door.run(agent, given, **options)
