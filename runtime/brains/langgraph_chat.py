"""Chat models of LangChain and models of a session: each as the other."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelRateLimitError,
    ModelRefusalError,
    ModelTimeoutError,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import NULL, Json, JsonObject
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.brains.common import failed_by_status
from callboard.runtime.brains.langgraph_doors import untraced
from callboard.runtime.brains.langgraph_messages import from_blocks, reply_blocks, usage_of
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.sanitize import encoded

_ENDS: Final = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
}
_CODES: Final[tuple[tuple[type[ModelError], str], ...]] = (
    (ModelRateLimitError, "rate_limit_error"),
    (ModelConnectionError, "connection"),
    (ModelTimeoutError, "timeout"),
    (ContextOverflowError, "context_full"),
    (ModelRefusalError, "refusal"),
)


class SessionChatModel(BaseChatModel):
    """A chat model for a graph that is made for a session: the session's model answers it.

    It takes tools and structured output as any other one, and answers only inside a brain.
    """

    cache: bool | None = False

    @property
    def _llm_type(self) -> str:
        return "callboard"

    def bind_tools(
        self,
        tools: Sequence[JsonObject | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **given: object,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with tools."""
        choice = {"tool_choice": tool_choice} if tool_choice else {}
        made = [one if isinstance(one, dict) else convert_to_openai_tool(one) for one in tools]
        return self.bind(tools=made, **choice, **given)

    def _generate(self, messages: list[BaseMessage], *args: object, **given: object) -> ChatResult:
        raise MisuseError(
            "SessionChatModel answers only inside a brain: make one of its graph, langgraph_agent(graph)"
        )


class LangChainModel:
    """A chat model of LangChain in a session.

    max_tokens: of a reply, where its request states none; by default the chat model's own, else 8,192.
    prices: for limits of cost. name: by default that of the chat model.
    """

    def __init__(
        self,
        chat: BaseChatModel,
        *,
        max_tokens: int | None = None,
        prices: Prices | None = None,
        name: str = "",
    ) -> None:
        self._chat = chat
        own = getattr(chat, "max_tokens", None)
        most = max_tokens or (own if isinstance(own, int) else 8_192)
        self.spec = ModelSpec(name or name_of(chat), most, prices=prices)

    def __repr__(self) -> str:
        return f"LangChainModel({self.spec.name!r})"

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Answer one request."""
        try:
            said = _messages(request)
            settings = {**_decoded(request.model.params), "max_tokens": request.model.max_tokens}
            with untraced():
                message = await _bound(self._chat, request).ainvoke(said, **settings)
        except Exception as error:
            if (failure := failure_of(error)) is None:
                raise
            return ModelAnswer(failure=failure, usage=ZERO)
        on_text(message.text)
        end = "tool_use" if message.tool_calls or message.invalid_tool_calls else "end_turn"
        told = message.response_metadata
        reason = told.get("stop_reason") or told.get("finish_reason") or ""
        content = encoded(reply_blocks(message, request.turn), what="The reply")
        usage = usage_of(message.usage_metadata)
        return ModelAnswer(content, _ENDS.get(reason, end), usage, model=str(told.get("model_name") or ""))

    async def aclose(self) -> None:
        """Do nothing: the client belongs to the one who made the chat model."""


def name_of(chat: BaseChatModel) -> str:
    """Return the name by which a session knows a chat model."""
    named = getattr(chat, "model_name", None) or getattr(chat, "model", None)
    return f"langchain:{chat._llm_type}:{named}" if isinstance(named, str) else f"langchain:{chat._llm_type}"


def _decoded(params: Json) -> JsonObject:
    return {} if params == NULL else msgspec.json.decode(params)


def _messages(request: ModelRequest) -> list[AnyMessage]:
    plain = msgspec.json.decode(request.system)
    system: list[AnyMessage] = [SystemMessage(plain)] if plain else []
    return system + from_blocks(map(msgspec.json.decode, request.messages))


def _bound(chat: BaseChatModel, request: ModelRequest) -> Runnable[LanguageModelInput, AIMessage]:
    if not request.tools:
        return chat
    tools = [msgspec.json.decode(tool) for tool in request.tools]
    given = [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool["input_schema"],
            },
        }
        for tool in tools
    ]
    return chat.bind_tools(given, **({"tool_choice": request.force_tool} if request.force_tool else {}))


def failure_of(error: Exception) -> ModelFailure | None:
    """Return the failure that an error of a chat model stands for; None for an error of its own code."""
    if isinstance(error, ModelError):
        code = next((code for kind, code in _CODES if isinstance(error, kind)), "")
        code = code or ("api_error" if error.is_retryable else "invalid_request_error")
        return ModelFailure(code, str(error), is_retryable=error.is_retryable)
    if isinstance(error, ConnectionError | TimeoutError):
        return ModelFailure("connection", str(error), is_retryable=True)
    if isinstance(error, MisuseError):
        return ModelFailure("invalid_request_error", f"nothing was sent: {error}", is_retryable=False)
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return None
    return failed_by_status(status, str(error))
