"""The layer's models for APIs of OpenAI's form, each with a profile of its own.

The layer would else change schemas, rewrite special tokens in texts, send reasoning as spoken text, and take
a stream that broke off for a whole one.

OpenAI's client, without the walk of its `create` methods through the whole request.

Those look at each value of each message for names and files to rewrite, by the types of the parameters. The
layer writes messages as they go out, so there is nothing to rewrite, and the walk takes a quarter of a call.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from openai import AsyncOpenAI, AsyncStream, NotGiven, Omit
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.chat_completion import Choice
from openai.types.responses import (
    Response,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseStreamEvent,
)
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openrouter import OpenRouterProvider

from callboard.runtime.models.answer_bodies import BOTH, counts_of
from callboard.runtime.models.layered.opened import Opened
from callboard.runtime.models.layered.wire import EXCHANGE


def profile(*, is_sealed: bool = False, limit: str = "") -> OpenAIModelProfile:
    """Return the parts of the layer's profile that hold for all models of a service.

    is_sealed: reasoning is asked for sealed, whatever the layer knows of the model's name. limit: the
    parameter of Chat that carries `max_tokens`.
    """
    return OpenAIModelProfile(
        json_schema_transformer=None,
        may_tokenize_special_tokens_in_content=False,
        mimics_assistant_message_formatting=False,
        default_framing_announcement="never",
        openai_chat_streaming_requires_finish_reason=True,
        openai_supports_encrypted_reasoning_content=is_sealed,
        openai_chat_supports_max_completion_tokens=limit == "max_completion_tokens",
    )


def client_of(opened: Opened) -> AsyncOpenAI:
    """Return the provider's client, which sends each request once."""
    return quick_client(
        base_url=opened.base_url, api_key=opened.key or "none", http_client=opened.client, max_retries=0
    )


def chat_model(opened: Opened, *, limit: str) -> OpenAIChatModel:
    """Make a model for Chat Completions."""
    provider = OpenAIProvider(openai_client=client_of(opened))
    return OpenAIChatModel(opened.name, provider=provider, profile=profile(limit=limit))


def openrouter_model(opened: Opened) -> OpenRouterModel:
    """Make a model of OpenRouter, whose reasoning has details of its own."""
    provider = OpenRouterProvider(openai_client=client_of(opened))
    return OpenRouterModel(opened.name, provider=provider, profile=profile(limit="max_tokens"))


def ollama_model(opened: Opened) -> OllamaModel:
    """Make a model of an Ollama server."""
    provider = OllamaProvider(openai_client=client_of(opened))
    return OllamaModel(opened.name, provider=provider, profile=profile(limit="max_tokens"))


def responses_model(opened: Opened, *, is_sealed: bool) -> OpenAIResponsesModel:
    """Make a model for Responses."""
    provider = OpenAIProvider(openai_client=client_of(opened))
    return OpenAIResponsesModel(opened.name, provider=provider, profile=profile(is_sealed=is_sealed))


class _Endpoint:
    """One endpoint.

    conversation: the name of the parameter. whole, event: the types of an answer, and of an event of its
    stream.
    """

    def __init__(
        self, client: AsyncOpenAI, path: str, conversation: str, whole: type[Any], event: Any
    ) -> None:
        self._client = client
        self._path = path
        self._conversation = conversation
        self._whole = whole
        self._stream = AsyncStream[event]

    async def create(
        self,
        *,
        stream: bool = False,
        extra_headers: Mapping[str, str] | None = None,
        extra_query: Mapping[str, object] | None = None,
        extra_body: Mapping[str, object] | None = None,
        timeout: Any = None,  # noqa: ASYNC109  # a parameter of the client's method
        **params: Any,
    ) -> Any:
        """Send a request, as the client's method of this name does."""
        exchange = EXCHANGE.get()
        exchange.take(params[self._conversation])
        params[self._conversation] = []
        body = {name: value for name, value in params.items() if not isinstance(value, Omit | NotGiven)}
        # A stream that is joined here is a whole answer for the layer.
        body |= {"stream": stream or exchange.on_text is not None, **(extra_body or {})}
        options: Any = {"headers": extra_headers, "params": extra_query or {}}
        if timeout is not None and not isinstance(timeout, NotGiven):
            options["timeout"] = timeout
        answer: Any = await self._client.post(
            self._path,
            cast_to=self._whole,
            # Not by the client, whose encoder holds the interpreter's lock for 30 ms at a megabyte.
            content=msgspec.json.encode(body),
            options=options,
            stream=stream,
            stream_cls=self._stream,
        )
        # With all keys that only the layer asks for: many servers leave some of them out.
        if isinstance(answer, ChatCompletion):
            _complete_chat(answer)
        elif isinstance(answer, Response):
            _complete_response(answer)
        return answer


def _complete_chat(answer: ChatCompletion) -> None:
    if answer.choices and all(isinstance(one, Choice) and one.message for one in answer.choices):
        answer.object = "chat.completion"
        answer.id, answer.model = (one if isinstance(one, str) else "" for one in (answer.id, answer.model))
        # Fields that nothing here reads, which servers fill with values of other types.
        answer.created, answer.system_fingerprint, answer.service_tier = 0, None, None
        answer.usage = _counted(answer.usage)
        for at, choice in enumerate(answer.choices):
            choice.index, choice.logprobs = at, None
            choice.message.role = "assistant"
            choice.message.annotations = choice.message.audio = choice.message.function_call = None


def _counted(usage: object) -> CompletionUsage | None:
    """Return a usage with its readable counts and a total of 0. None without both main counts."""
    told = usage.to_dict(warnings=False) if isinstance(usage, CompletionUsage) else {}
    counts = counts_of(told)
    return CompletionUsage.model_validate({**counts, "total_tokens": 0}) if counts.keys() >= BOTH else None


def _complete_response(answer: Response) -> None:
    for item in answer.output or ():
        if isinstance(item, ResponseReasoningItem):
            item.summary = item.summary or []
        for part in (item.content or ()) if isinstance(item, ResponseOutputMessage) else ():
            if isinstance(part, ResponseOutputText):
                part.annotations = part.annotations or []


class _Chat:
    def __init__(self, completions: _Endpoint) -> None:
        self.completions = completions


def quick_client(**settings: Any) -> AsyncOpenAI:
    """Return the client, with those resources that the layer uses: Chat Completions and Responses."""
    client = AsyncOpenAI(**settings)  # not a subclass, whose name would go out as the user agent
    chat = _Endpoint(client, "/chat/completions", "messages", ChatCompletion, ChatCompletionChunk)
    client.__dict__["chat"] = _Chat(chat)  # in the place of the cached properties of the client
    client.__dict__["responses"] = _Endpoint(client, "/responses", "input", Response, ResponseStreamEvent)
    return client
