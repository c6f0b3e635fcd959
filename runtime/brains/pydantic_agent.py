"""An agent of Pydantic AI as a program: its model calls are questions, its tool calls are calls of ours.

The framework runs inside the program's loop, and is executed again after a restart like any program. Its
hooks are those of a capability: a model in place of the agent's own, and a wrapper of each tool call.

The framework has a surface for engines, too, `pydantic_ai.durable_exec`. It runs a closure of the framework's
run in a unit of its own, and keeps what that returns. A tool call in our log is a request instead, with an
effect, an approval and limits, and may run in a process that never had the closure. So it is not used.

Rules
  - What the framework makes of chance or of the clock is taken from the run: its run id and its clock.
  - Failed, interrupted and refused calls are told to the model as failed tools, and the run goes on.
  - A refusal for want of budget or of turns latches: the program ends so, even if the framework hides it.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pydantic
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai import ModelRetry
from pydantic_ai._utils import disable_threads
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolDefinition,
)
from pydantic_ai.usage import UsageLimits
from pydantic_core import to_jsonable_python

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import (
    CallFailed,
    DelegationFailed,
    Interrupted,
    InvalidAgent,
    MisuseError,
    NotApproved,
)
from callboard.runtime.brains.common import (
    EARLIER_MAX,
    NOTHING_SAID,
    Brain,
    Latch,
    latching,
    settings_of,
)
from callboard.runtime.brains.pydantic_messages import Conversation, earlier_messages, user_content
from callboard.runtime.brains.pydantic_model import PydanticAIModel
from callboard.runtime.brains.pydantic_tools import RETRY, tools_of
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.context import ProgramContext

_DROPPED: Final = ("timeout", "max_tokens")


class Gate(Model):
    """The model of a run: each request is a question of the program."""

    def __init__(self, ctx: ProgramContext) -> None:
        super().__init__()
        self._ctx = ctx
        self._said = Conversation()
        self.latch = Latch()

    @property
    def model_name(self) -> str:
        """Return the name under which responses stand in the framework's history."""
        return "callboard"

    @property
    def system(self) -> str:
        """Return the name of the provider."""
        return "callboard"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the session's model. Raises DelegationFailed; MisuseError for a request that cannot be put."""
        self.latch.check()
        settings, wanted = self.prepare_request(model_settings, model_request_parameters)
        system, said = self._said.written(self.prepare_messages(messages, wanted))
        parts = [part.content for part in wanted.instruction_parts or []]
        settings_given, max_tokens = _settings_of(settings)
        tools = _tools(wanted)
        try:
            reply = await self._ctx.ask_model(
                messages=said or [NOTHING_SAID],
                tools=tools,
                system="\n\n".join(filter(None, [*system, *parts])),
                settings=settings_given,
                max_tokens=max_tokens,
                force_tool=_forced(wanted, tools),
            )
        except DelegationFailed as error:
            self.latch.keep(error)
            raise
        return self._said.response(reply, self.model_name)

    def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> Any:
        """Refuse. Raises MisuseError."""
        raise MisuseError(
            "a brain does not stream, because the program gets each reply as a whole; "
            "watch the session's own text instead"
        )


def _settings_of(settings: ModelSettings | None) -> tuple[dict[str, object], int | None]:
    """Return the parameters of a question, and the most tokens of its reply. Raises MisuseError."""
    given = settings or {}
    most = given.get("max_tokens")
    return settings_of(given, _DROPPED, "model_settings"), most if isinstance(most, int) else None


def _tools(wanted: ModelRequestParameters) -> list[dict[str, object]]:
    # The framework has refused a service's own tools by now: the gate supports none.
    return [
        {
            "name": one.name,
            "description": one.description or "",
            "input_schema": one.parameters_json_schema,
        }
        for one in (*wanted.declared_function_tools, *wanted.output_tools)
    ]


def _forced(wanted: ModelRequestParameters, tools: Sequence[Mapping[str, object]]) -> str:
    """Return the only tool, if the reply must call one; empty for any other request."""
    return str(tools[0]["name"]) if not wanted.allow_text_output and len(tools) == 1 else ""


class Hooks(AbstractCapability[Any]):
    """The hooks of a run: its ids and its clock, and where its tools run. inner: those of the program."""

    def __init__(self, ctx: ProgramContext, run: str, tools: Collection[str], inner: Collection[str]) -> None:
        self._ctx = ctx
        self._run = run
        self._tools = tools
        self._inner = inner

    def get_default_run_id(self) -> str:
        """Return the name of the program's run."""
        return self._run

    def get_default_conversation_id(self, run_id: str) -> str:
        """Return the same name."""
        return self._run

    def get_run_clock(self) -> Callable[[], datetime]:
        """Return the clock of the program's steps."""
        return self._ctx.now

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Let every call that needs an approval go on: our own approval of the call asks the person."""
        if not requests.approvals:
            return None
        return DeferredToolResults(approvals={call.tool_call_id: True for call in requests.approvals})

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Call the tool by the session, or in the program. Raises ModelRetry, ToolFailed as the tool does."""
        name = call.tool_name
        if name in self._inner or tool_def.kind == "output":
            return await handler(args)
        if name not in self._tools:
            raise MisuseError(
                f"tool {name!r} is not one of the agent's functions, so its calls cannot be recorded; "
                "define it on the agent, or name it in `in_program`"
            )
        try:
            return await self._ctx.call(name, **call.args_as_dict())
        except (Interrupted, NotApproved) as error:
            raise ToolFailed(str(error)) from None
        except CallFailed as error:
            if (words := retry_words(error.text)) is not None:
                raise ModelRetry(words) from None
            raise ToolFailed(error.text) from None


def retry_words(text: str) -> str | None:
    """Return the words of a `ModelRetry` that a tool raised; None for another failure."""
    _, mark, words = text.partition(f"{RETRY}: ")
    return words if mark else None


class PydanticAIBrain(Brain):
    """An agent of Pydantic AI as a program; `pydantic_ai_agent` makes one."""

    def __init__(
        self,
        agent: FrameworkAgent[Any, Any],
        name: str,
        in_program: frozenset[str],
        deps: object,
        **options: Any,
    ) -> None:
        self._framework_agent = agent
        self._in_program = in_program
        self._deps = deps
        super().__init__(self._run, name, **options)

    async def _run(self, ctx: ProgramContext, prompt: object) -> object:
        gate = Gate(ctx)
        hooks = Hooks(ctx, ctx.run_name, self.tools.keys(), self._in_program)
        earlier = [(one.prompt, one.text) for one in ctx.earlier(EARLIER_MAX)]
        asked = user_content(ctx.prompt_json) if isinstance(prompt, str) else str(to_jsonable_python(prompt))
        with latching(ctx, gate.latch), disable_threads():
            result = await self._framework_agent.run(
                asked,
                message_history=earlier_messages(earlier) or None,
                model=gate,
                deps=self._deps,
                capabilities=[hooks],
                usage_limits=UsageLimits(request_limit=None),  # ours hold
            )
        return result.output if isinstance(result.output, str) else to_jsonable_python(result.output)


def pydantic_brain(
    agent: object,
    name: str,
    description: str,
    effects: Mapping[str, Effect],
    in_program: Collection[str],
    deps: object,
    model: ModelChoice | str | None,
    **options: Any,
) -> PydanticAIBrain:
    """Make the brain of an agent. Raises InvalidAgent for one that cannot be recorded."""
    if not isinstance(agent, FrameworkAgent):
        raise InvalidAgent(f"{agent!r:.80} is not a pydantic_ai.Agent")
    called = name or agent.name or ""
    tools = tools_of(agent, effects, in_program, lambda ctx: ctx.deps if deps is None else deps)
    if model is None and agent.model is not None:
        model = PydanticAIModel(agent.model)
    kind = agent.output_type
    is_typed = isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)
    return PydanticAIBrain(
        agent,
        called,
        frozenset(in_program),
        deps,
        description=description or agent.description or "",
        tools=tools,
        model=model,
        schema=kind if is_typed else None,
        **options,
    )
