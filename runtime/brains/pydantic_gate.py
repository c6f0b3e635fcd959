"""The model of a Pydantic AI agent inside a brain: each of its requests is a question of the program."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.brains.common import NOTHING_SAID, Latch, settings_of
from callboard.runtime.brains.pydantic_messages import Conversation
from callboard.runtime.programs.context import ProgramContext

_DROPPED: Final = ("timeout", "max_tokens")


class Gate(Model):
    """The model of a run. said: the messages of the brain. asked: the name of the model; "" for its own."""

    def __init__(self, ctx: ProgramContext, latch: Latch, said: Conversation, asked: str) -> None:
        super().__init__()
        self._ctx = ctx
        self._latch = latch
        self._said = said
        self._asked = asked

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
        self._latch.check()
        settings, wanted = self.prepare_request(model_settings, model_request_parameters)
        parts = [part.content for part in wanted.instruction_parts or []]
        tools = _tools(wanted)
        try:
            system, said = self._said.written(self.prepare_messages(messages, wanted))
            settings_given, max_tokens = _settings_of(settings)
        except MisuseError as error:
            raise self._latch.refuse(str(error)) from None
        with self._latch.keeping():
            reply = await self._ctx.ask_model(
                messages=said or [NOTHING_SAID],
                tools=tools,
                system="\n\n".join(filter(None, [*system, *parts])),
                settings=settings_given,
                max_tokens=max_tokens,
                force_tool=_forced(wanted, tools),
                model=self._asked,
            )
        return self._said.response(reply, self.model_name)

    def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[object] | None = None,
    ) -> Any:
        """Refuse. Raises MisuseError."""
        raise self._latch.refuse(
            "a brain does not stream, because the program gets each reply as a whole; "
            "watch the session's own text instead"
        )


def leads_to_gate(model: Model) -> bool:
    """Return True if every request to a model is a question of the program."""
    if isinstance(model, WrapperModel):
        return leads_to_gate(model.wrapped)
    if isinstance(model, FallbackModel):
        return all(map(leads_to_gate, model.models))
    return isinstance(model, Gate)


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
