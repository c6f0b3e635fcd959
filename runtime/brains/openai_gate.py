"""The model of a brain's agents: each request of the OpenAI Agents SDK is a question of the program."""

import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec
from agents import FunctionTool, Handoff, ModelSettings
from agents.agent_output import AgentOutputSchemaBase
from agents.items import ModelResponse, TResponseInputItem, TResponseStreamEvent
from agents.models.default_models import get_default_model_settings
from agents.models.interface import Model, ModelTracing
from agents.tool import Tool

from callboard.actors.protocol.errors import InvalidPrompt, MisuseError
from callboard.runtime.brains.common import NOTHING_SAID, Latch, settings_of
from callboard.runtime.brains.openai_messages import FINAL, Conversation, Said
from callboard.runtime.brains.openai_model import NATIVE, OpenAIAgentsModel
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.model_reply import ModelReply

_DROPPED: Final = ("max_tokens", "tool_choice", "timeout")
_DEFAULTED: Final = ("reasoning", "verbosity")
"""Settings that the framework gives each agent by itself, for the model that it takes for the default."""

_CHOICES: Final = ("required", "none")
_AGAIN: Final = f"Give the result by a call of the tool {FINAL}."


@dataclasses.dataclass(frozen=True)
class Question:
    """A question without its conversation."""

    tools: Sequence[Mapping[str, object]]
    system: str
    settings: Mapping[str, object]
    max_tokens: int | None
    forced: str


class Gate(Model):
    """The model of one agent. choice: the model that is asked, None for the default one of the brain."""

    def __init__(
        self,
        ctx: ProgramContext,
        latch: Latch,
        said: Conversation,
        choice: ModelChoice | None,
        asked: ModelChoice | None,
        default: ModelSettings,
    ) -> None:
        self._ctx = ctx
        self._latch = latch
        self._said = said
        self._choice = choice
        self._is_own = isinstance(asked, OpenAIAgentsModel)
        self._default = default

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # by its name in the framework
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        **more: object,
    ) -> ModelResponse:
        """Ask the session's model. Raises DelegationFailed; MisuseError for a request that cannot be put."""
        self._latch.check()
        try:
            return await self._answered(
                system_instructions or "", input, model_settings, tools, output_schema, handoffs
            )
        except (MisuseError, InvalidPrompt) as error:  # the framework may take it for a failed tool
            raise self._latch.refuse(str(error)) from error

    async def _answered(
        self,
        instructions: str,
        given: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
    ) -> ModelResponse:
        system, said = self._said.written(given)
        offered = [*map(_definition, tools), *map(_handoff, handoffs)]
        is_typed = output_schema is not None and not output_schema.is_plain_text()
        if output_schema is not None and is_typed:
            offered.append(_output(output_schema))
        forced = self._forced(model_settings, offered, is_typed=is_typed)
        prompt = "\n\n".join(filter(None, [*system, instructions]))
        most = model_settings.max_tokens
        question = Question(offered, prompt, self._settings(model_settings), most, forced)
        reply = await self._ask(said or [NOTHING_SAID], question)
        if is_typed and not _has_output(reply):
            last: Said = {"role": "user", "content": [{"type": "text", "text": _AGAIN}]}
            more_said = [*said, reply.message, last] if reply.blocks else [*said, last]
            reply = await self._ask(more_said, dataclasses.replace(question, forced=FINAL))
        return self._said.response(reply)

    async def _ask(self, said: Sequence[Said], question: "Question") -> ModelReply:
        with self._latch.keeping():
            return await self._ctx.ask_model(
                messages=said,
                tools=question.tools,
                system=question.system,
                settings=question.settings,
                max_tokens=question.max_tokens,
                force_tool=question.forced,
                model="" if self._choice is None else self._choice,
            )

    def _settings(self, settings: ModelSettings) -> dict[str, object]:
        """Return the parameters of a question. Raises MisuseError."""
        given = settings.to_json_dict()
        own = {key: _stated(given.pop(key)) for key in NATIVE if given.get(key) is not None}
        default = self._default.to_json_dict()
        for key in _DEFAULTED:
            if own.get(key) == _stated(default.get(key)):  # the model that is asked may have others
                own.pop(key, None)
        if self._is_own:
            choice = {"tool_choice": settings.tool_choice} if settings.tool_choice in _CHOICES else {}
            return {**settings_of(given, _DROPPED, "model_settings"), **own, **choice}
        return settings_of({**given, **own}, _DROPPED, "model_settings")

    def _forced(
        self, settings: ModelSettings, offered: Sequence[Mapping[str, object]], *, is_typed: bool
    ) -> str:
        """Return the tool that the reply must call; empty for any other request. Raises MisuseError."""
        names = [str(one["name"]) for one in offered]
        choice = settings.tool_choice
        if choice in (None, "auto"):
            return names[0] if is_typed and len(names) == 1 else ""
        if choice in _CHOICES and self._is_own:
            return ""  # a setting of its own
        if choice == "required" and len(names) == 1:
            return names[0]
        if isinstance(choice, str) and choice in names:
            return choice
        raise MisuseError(
            f"tool_choice is {choice!r:.80}, and a question of a session may force one tool by its name: "
            f"name one of {', '.join(names) or 'none'}"
        )

    async def stream_response(self, *args: object, **more: object) -> AsyncIterator[TResponseStreamEvent]:
        """Refuse. Raises MisuseError."""
        raise self._latch.refuse(NO_STREAM)
        yield  # of the framework's type, an asynchronous generator


NO_STREAM: Final = (
    "a brain does not stream: the program gets a reply whole; write `await Runner.run(...)`, and watch the "
    "session's own text instead"
)


def _stated(value: object) -> object:
    """Return a setting without its unstated parts."""
    if not isinstance(value, dict):
        return value
    return {key: one for key, one in value.items() if one is not None}


def default_settings(model: object) -> ModelSettings:
    """Return the settings that the framework gives an agent with this model by itself."""
    if model is None or isinstance(model, str):
        return get_default_model_settings(model)
    return ModelSettings()


def _definition(tool: Tool) -> dict[str, object]:
    assert isinstance(tool, FunctionTool)  # the others were refused with their agent
    return {"name": tool.name, "description": tool.description, "input_schema": tool.params_json_schema}


def _handoff(step: Handoff) -> dict[str, object]:
    schema = step.input_json_schema or {"type": "object", "properties": {}, "additionalProperties": False}
    return {"name": step.tool_name, "description": step.tool_description, "input_schema": schema}


def _output(schema: AgentOutputSchemaBase) -> dict[str, object]:
    told = "Give the final result. Call it once, when the work is done."
    return {"name": FINAL, "description": told, "input_schema": schema.json_schema()}


def _has_output(reply: ModelReply) -> bool:
    """Return True for a reply that goes on, or whose text may be the output, of any type."""
    if reply.calls or reply.stop_reason in ("refusal", "max_tokens"):
        return True
    try:
        msgspec.json.decode(reply.text)
    except msgspec.DecodeError:
        return False
    return True
