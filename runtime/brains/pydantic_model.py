"""The model of a Pydantic AI agent as a model of a session.

So a brain asks the model that its agent names, with the budget, the retries and the log of the session. The
framework's own retries of a call are not counted: give it a client without them.
"""

from typing import Any, Final

import msgspec
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import InstructionPart, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.tools import ToolDefinition

from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.brains.common import failed_by_status
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.messages import Maker, converted, system_text
from callboard.runtime.models.layered.parts import blocks_of, is_call
from callboard.runtime.models.layered.replies import usage_of
from callboard.runtime.models.protocol import ModelAnswer, OnText

_ENDS: Final = {"length": "max_tokens", "content_filter": "refusal"}


def model_key(model: object) -> object:
    """Return the key of a model that an agent names, by its object or its name."""
    return model if isinstance(model, str) else id(model)


class PydanticAIModel:
    """A model of Pydantic AI in a session. model: the object, or its name, as `Agent` takes it.

    max_tokens: of a reply, where its request states none. prices: for limits of cost. name: in the session,
    by default that of the service and of the model.
    """

    def __init__(
        self,
        model: Model | str | Any,
        *,
        max_tokens: int = 8_192,
        prices: Prices | None = None,
        name: str = "",
    ) -> None:
        self.key = model_key(model)
        self._model = infer_model(model)
        called = name or f"pydantic-ai:{self._model.system}:{self._model.model_name}"
        self.spec = ModelSpec(called, max_tokens, prices=prices)

    def __repr__(self) -> str:
        return f"PydanticAIModel({self.spec.name!r})"

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Answer one request."""
        try:
            maker = Maker(self._model.system, "", has_files_in_results=False)
            said = converted(request.messages, maker).messages
            settings: Any = {"max_tokens": request.model.max_tokens, **_decoded(request.model.params)}
            if request.force_tool:
                settings["tool_choice"] = [request.force_tool]
            response = await self._model.request(said, settings, _parameters(request))
        except CallFailed as error:
            return ModelAnswer(failure=error.failure, usage=ZERO)
        except (ModelHTTPError, ModelAPIError, UnexpectedModelBehavior) as error:
            return ModelAnswer(failure=_failure(error), usage=ZERO)
        answer = _answer(response, request.turn)
        on_text("".join(part.content for part in response.parts if part.part_kind == "text"))
        return answer

    async def aclose(self) -> None:
        """Do nothing: the client belongs to the code that created the model."""


def _decoded(params: Json) -> dict[str, object]:
    return {} if params == NULL else msgspec.json.decode(params)


def _parameters(request: ModelRequest) -> ModelRequestParameters:
    text = system_text(request.system)
    tools = [msgspec.json.decode(tool) for tool in request.tools]
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool["name"],
                description=tool.get("description", ""),
                parameters_json_schema=tool["input_schema"],
            )
            for tool in tools
        ],
        instruction_parts=[InstructionPart(content=text)] if text else None,
    )


def _answer(response: ModelResponse, turn: int) -> ModelAnswer:
    end = "tool_use" if any(map(is_call, response.parts)) else "end_turn"
    end = _ENDS.get(response.finish_reason or "", end)
    content = blocks_of(response.parts, turn)
    return ModelAnswer(content, end, usage_of(response.usage), model=response.model_name or "")


def _failure(error: Exception) -> ModelFailure:
    status = error.status_code if isinstance(error, ModelHTTPError) else 0
    if isinstance(error, UnexpectedModelBehavior):
        return ModelFailure("garbage", str(error), is_retryable=True)
    if not status:
        return ModelFailure("connection", str(error), is_retryable=True)
    return failed_by_status(status, str(error))
