"""A model of the OpenAI Agents SDK as a model of a session.

So a brain asks the model that its agent names, with the budget, the retries and the log of the session. The
client's own retries of a call are not counted: give it a client without them.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import openai
from agents import FunctionTool, ModelSettings
from agents.exceptions import AgentsException
from agents.items import ModelResponse, TResponseInputItem, TResponseOutputItem
from agents.models.default_models import get_default_model_settings
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.models.interface import Model, ModelTracing
from agents.models.multi_provider import MultiProvider
from agents.usage import Usage as FrameworkUsage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
)

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import NULL, Json, JsonObject
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.brains.common import failed_by_status
from callboard.runtime.brains.openai_messages import input_of_call, input_part, written_input
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.sanitize import encoded

NATIVE: Final = (
    "reasoning",
    "verbosity",
    "frequency_penalty",
    "presence_penalty",
    "parallel_tool_calls",
    "truncation",
    "metadata",
    "store",
    "prompt_cache_retention",
    "response_include",
    "top_logprobs",
)
"""Settings of the framework that only its own models know."""


def model_key(model: Model | str) -> object:
    """Return the key of a model that an agent names."""
    return model if isinstance(model, str) else id(model)


class OpenAIAgentsModel:
    """A model of the OpenAI Agents SDK in a session. model: the object, or its name, as `Agent` takes it.

    max_tokens: of a reply, where its request states none. prices: for limits of cost.
    """

    def __init__(
        self, model: Model | str, *, max_tokens: int = 8_192, prices: Prices | None = None, name: str = ""
    ) -> None:
        self.key = model_key(model)
        self._model = model
        self._default = get_default_model_settings(model) if isinstance(model, str) else ModelSettings()
        called = name or (model if isinstance(model, str) else getattr(model, "model", type(model).__name__))
        self.spec = ModelSpec(f"openai-agents:{called}", max_tokens, prices=prices)

    def __repr__(self) -> str:
        return f"OpenAIAgentsModel({self.spec.name!r})"

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Answer one request."""
        try:
            if isinstance(
                self._model, str
            ):  # the provider reads the key of its service when it is first used
                self._model = MultiProvider().get_model(self._model)
            response = await self._model.get_response(
                _system(request.system) or None,
                _items(request.messages),
                self._settings(request),
                [_tool(msgspec.json.decode(tool)) for tool in request.tools],
                None,
                [],
                ModelTracing.DISABLED,
                previous_response_id=None,
                conversation_id=None,
                prompt=None,
            )
        except MisuseError as error:  # of a block that has no form here
            failure = ModelFailure("invalid_request_error", str(error), is_retryable=False)
            return ModelAnswer(failure=failure, usage=ZERO)
        except (openai.OpenAIError, AgentsException) as error:
            return ModelAnswer(failure=_failure(error), usage=ZERO)
        blocks = [_block(item) for item in response.output]
        on_text("".join(block["text"] for block in blocks if block["type"] == "text"))
        content = encoded(blocks, what="The reply")
        return ModelAnswer(content, _end(response), _usage(response.usage), model=self.spec.name)

    def _settings(self, request: ModelRequest) -> ModelSettings:
        params = {} if request.model.params == NULL else msgspec.json.decode(request.model.params)
        choice = {"tool_choice": request.force_tool} if request.force_tool else {}
        given = ModelSettings(**{**params, **choice, "max_tokens": request.model.max_tokens})
        return self._default.resolve(given)

    async def aclose(self) -> None:
        """Do nothing: the client belongs to the one who made the model."""


def _system(system: Json) -> str:
    plain = NULL if system == NULL else msgspec.json.decode(system)
    if isinstance(plain, list):
        return "\n\n".join(block.get("text", "") for block in plain)
    return plain if isinstance(plain, str) else ""


def _tool(tool: JsonObject) -> FunctionTool:
    async def never(context: object, arguments: str) -> str:
        raise AssertionError("the session calls the tools")

    return FunctionTool(
        tool["name"],
        tool.get("description", ""),
        tool["input_schema"],
        never,
        strict_json_schema=False,
    )


_MESSAGE: Final = {
    "type": "message",
    "role": "assistant",
    "id": FAKE_RESPONSES_ID,  # which the framework leaves out
    "status": "completed",
}
"""A message of another service."""


# --- requests ---------------------------------------------------------------------------


def _items(messages: Sequence[Json]) -> list[TResponseInputItem]:
    found: list[Any] = []
    for message in messages:
        said = msgspec.json.decode(message)
        blocks = said["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        found += _reply(blocks) if said["role"] == "assistant" else _request(blocks)
    return found


def _request(blocks: list[JsonObject]) -> list[JsonObject]:
    results = [_result(block) for block in blocks if block["type"] == "tool_result"]
    parts = [input_part(block) for block in blocks if block["type"] != "tool_result"]
    return [*results, {"role": "user", "content": parts}] if parts else results


def _result(block: JsonObject) -> JsonObject:
    content = block.get("content") or ""
    output = content if isinstance(content, str) else [input_part(part) for part in content]
    return {"type": "function_call_output", "call_id": block["tool_use_id"], "output": output}


def _reply(blocks: list[JsonObject]) -> list[JsonObject]:
    found: list[JsonObject] = []
    for block in blocks:
        part = block.get("part")  # as it came from this service
        if block["type"] == "text":
            said = {"type": "output_text", "text": block["text"], "annotations": []}
            found.append({**(part or _MESSAGE), "content": [said]})
        elif block["type"] == "tool_use":
            written = written_input(block["input"])
            call = {"call_id": block["id"], "name": block["name"], "arguments": written}
            found.append({**(part or {"type": "function_call"}), **call})
        elif part is not None:
            found.append(part)
    return found


# --- replies ----------------------------------------------------------------------------


def _block(item: TResponseOutputItem) -> JsonObject:
    """Return an item as a block. What the block does not say otherwise stands under `part`."""
    kept = dict(item) if isinstance(item, dict) else item.model_dump(mode="json", exclude_unset=True)
    if isinstance(item, ResponseFunctionToolCall):
        for key in ("call_id", "name", "arguments"):
            kept.pop(key, None)
        call = {"id": item.call_id, "name": item.name, "input": input_of_call(item.arguments)}
        return {"type": "tool_use", **call, "part": kept}
    if isinstance(item, ResponseOutputMessage):
        kept.pop("content", None)
        return {"type": "text", "text": "".join(map(_said, item.content)), "part": kept}
    if kept["type"] == "reasoning":
        text = "\n".join(part["text"] for part in kept.get("summary") or [])
        return {"type": "thinking", "thinking": text, "part": kept}
    return {"type": kept["type"], "part": kept}


def _said(part: ResponseOutputText | ResponseOutputRefusal) -> str:
    return part.refusal if isinstance(part, ResponseOutputRefusal) else part.text


def _end(response: ModelResponse) -> str:
    kinds = [type(item) for item in response.output]
    if ResponseFunctionToolCall in kinds:
        return "tool_use"
    parts = [
        part for item in response.output if isinstance(item, ResponseOutputMessage) for part in item.content
    ]
    return "refusal" if any(isinstance(part, ResponseOutputRefusal) for part in parts) else "end_turn"


def _usage(usage: FrameworkUsage) -> Usage:
    cached = usage.input_tokens_details.cached_tokens or 0
    written = usage.input_tokens_details.cache_write_tokens or 0
    return Usage(
        input_tokens=max(0, usage.input_tokens - cached - written),
        output_tokens=usage.output_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=written,
    )


def _failure(error: Exception) -> ModelFailure:
    if isinstance(error, AgentsException):
        return ModelFailure("garbage", str(error), is_retryable=True)
    if isinstance(error, openai.APIConnectionError):
        return ModelFailure("connection", str(error), is_retryable=True)
    status = error.status_code if isinstance(error, openai.APIStatusError) else 0
    return failed_by_status(status, str(error))
