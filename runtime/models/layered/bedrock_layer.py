"""The layer's model for Bedrock, in three steps: write the request, send it, read the answer.

The AWS library sends over blocking sockets, one thread for each call that waits. Here the layer gets a client
of our own in its place, which keeps the request that it is given, and later returns the answer that has come.
Between the two the request goes out through the same HTTP client as those of other services.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from types import SimpleNamespace
from typing import Final, cast
from urllib.parse import quote

import httpx2
import msgspec
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.client import BaseClient
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError, create_parser
from botocore.session import Session, get_session
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    TextPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.providers.bedrock import BedrockModelProfile, BedrockProvider
from pydantic_ai.settings import ModelSettings

from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.failures import CallFailed, garbage_answer
from callboard.runtime.models.layered.aws_events import Events
from callboard.runtime.models.layered.opened import Opened
from callboard.runtime.models.layered.wire import EXCHANGE, Captured

_STREAM_TYPE: Final = "application/vnd.amazon.eventstream"
_THINKING: Final = frozenset(
    {"thinking", "reasoning", "reasoning_effort", "reasoning_config", "reasoningConfig"}
)
_MARK: Final[JsonObject] = {"cachePoint": {"type": "default"}}
_NO_USAGE: Final = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}

# The answer is read without the conversation and the tools, which need not be written a second time.
_PLACEHOLDER: Final[list[ModelMessage]] = [ModelRequest(parts=[UserPromptPart("-")])]
_PLAIN: Final[ModelSettings] = {"max_tokens": 1}  # without it the layer asks some models for a stream
_NO_TOOLS: Final = ModelRequestParameters()

Answer = Callable[[], JsonObject]
"""Returns the answer that has come, as the AWS library does. Raises ClientError for that of an error."""


class _Step:
    """One run of the layer.

    answer: for it; None while it writes. written: its request, as the AWS library takes it.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer
        self.written: JsonObject = {}


_STEP: Final[ContextVar[_Step]] = ContextVar("step")


class _Unhooked:
    """The hooks of the AWS client for a layer that sets some for each call, which we never need."""

    def register_first(self, *_: object, **__: object) -> None:
        """Set no hook: it takes 0.1 ms."""


class _Client:
    """The AWS client as the layer has it."""

    def __init__(self, opened: Opened, service: object) -> None:
        self.meta = SimpleNamespace(
            endpoint_url=opened.base_url, service_model=service, events=_Unhooked(), region_name=opened.region
        )

    def converse(self, **params: object) -> JsonObject:
        """Keep the request that is written, or return the answer that has come."""
        step = _STEP.get()
        if step.answer is None:
            step.written = params
            raise Captured
        return step.answer()


def _parsed(response: httpx2.Response, shape: object) -> JsonObject:
    """Read a whole answer. Raises ClientError for an error."""
    found = {"status_code": response.status_code, "headers": response.headers, "body": response.content}
    try:
        parsed: JsonObject = create_parser("rest-json").parse(found, shape)
    except ResponseParserError as error:
        raise garbage_answer(f"the answer is not in the form of converse: {error}") from error
    if response.status_code >= 300:
        raise ClientError(parsed, "Converse")
    return _ended(parsed)


def _ended(answer: JsonObject) -> JsonObject:
    """Return an answer with the parts that the layer needs: no input is not a usage that is believed."""
    return {"usage": _NO_USAGE, "stopReason": None, **answer}


class BedrockCalls:
    """A model of Bedrock as the layer has it, but for its connections."""

    def __init__(self, opened: Opened) -> None:
        service = get_session().get_service_model("bedrock-runtime")
        self._shape = service.operation_model("Converse").output_shape
        profile = BedrockModelProfile(
            json_schema_transformer=None,
            default_framing_announcement="never",
            bedrock_supports_leading_assistant_message=True,
            bedrock_send_back_thinking_parts=True,
        )
        provider = BedrockProvider(bedrock_client=cast(BaseClient, _Client(opened, service)))
        self._model = BedrockConverseModel(opened.name, provider=provider, profile=profile)
        self._client = opened.client
        self._auth = _Auth(opened.key, opened.region)
        can_mark = self._model.profile.get("bedrock_supports_prompt_caching", False)
        self._sets_marks = opened.sets_marks and can_mark

    @property
    def base_url(self) -> str:
        """Return the address of the service."""
        return self._model.base_url

    async def request(
        self, said: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
    ) -> ModelResponse:
        """Ask for a whole answer."""
        request = await self._written("converse", said, settings, parameters)
        response = await self._client.send(request, auth=self._auth)
        return await self._read(partial(_parsed, response, self._shape))

    @asynccontextmanager
    async def request_stream(
        self, said: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
    ) -> AsyncIterator["_Streamed"]:
        """Ask for a stream."""
        request = await self._written("converse-stream", said, settings, parameters)
        response = await self._client.send(request, stream=True, auth=self._auth)
        try:
            yield _Streamed(response, self._read, self._shape)
        finally:
            await response.aclose()

    async def _written(
        self,
        operation: str,
        said: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
    ) -> httpx2.Request:
        step = _Step()
        with suppress(Captured):
            await self._run(step, said, self._possible(settings), parameters)
        # A name may be that of a resource, with slashes and colons.
        path = f"/model/{quote(step.written.pop('modelId'), safe='-._~')}/{operation}"
        headers = {"content-type": "application/json", "accept": "application/json, " + _STREAM_TYPE}
        EXCHANGE.get().take(step.written["messages"])
        body = msgspec.json.encode({**step.written, "messages": []})
        return httpx2.Request("POST", self.base_url.rstrip("/") + path, headers=headers, content=body)

    async def _read(self, answer: Answer) -> ModelResponse:
        return await self._run(_Step(answer), _PLACEHOLDER, _PLAIN, _NO_TOOLS)

    async def _run(
        self,
        step: _Step,
        said: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        token = _STEP.set(step)
        try:
            return await self._model.request(said, settings, parameters)
        finally:
            _STEP.reset(token)

    def _possible(self, settings: ModelSettings) -> ModelSettings:
        """Return the settings with cache marks, and without a forced tool where the model takes none."""
        exchange = EXCHANGE.get()
        if self._sets_marks:
            # Ours at the end of the messages: the layer's would stay there, and only four are allowed.
            exchange.mark = _MARK
            settings = {
                **settings,
                "bedrock_cache_instructions": True,
                "bedrock_cache_tool_definitions": True,
            }  # type: ignore[typeddict-unknown-key]  # of Bedrock's settings
        # For a tool that is forced the layer would leave out all others.
        fields = exchange.params.get("additionalModelRequestFields")
        thinks = isinstance(fields, dict) and bool(_THINKING & fields.keys())
        if self._model.profile.get("bedrock_supports_tool_choice", False) and not thinks:
            return settings
        return {key: value for key, value in settings.items() if key != "tool_choice"}  # type: ignore[return-value]  # of the same keys


class _Streamed:
    """The answer of one call, as a stream of its texts."""

    def __init__(
        self, response: httpx2.Response, read: Callable[[Answer], Awaitable[ModelResponse]], shape: object
    ) -> None:
        self._response = response
        self._read = read
        self._shape = shape
        self._answer: ModelResponse | None = None

    async def __aiter__(self) -> AsyncIterator[PartDeltaEvent]:
        if self._response.status_code != 200:
            await self._response.aread()
            await self._read(partial(_parsed, self._response, self._shape))
        events = Events()
        async for data in self._response.aiter_bytes():
            if text := events.take(data):
                yield PartDeltaEvent(index=0, delta=TextPartDelta(text))
        self._answer = await self._read(lambda: _ended(events.whole()))
        EXCHANGE.get().refused.extend(events.refused)

    def get(self) -> ModelResponse:
        """Return the whole answer."""
        assert self._answer is not None
        return self._answer


class _Auth(httpx2.Auth):
    """Signs a request with the credentials that the AWS library finds, or shows a key of Bedrock."""

    requires_request_body = True

    def __init__(self, key: str, region: str) -> None:
        self._key = key
        self._region = region
        self._session: Session | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncIterator[httpx2.Request]:  # type: ignore[override]  # of two-way generators
        """Add the headers that prove who asks."""
        if self._key:
            request.headers["authorization"] = f"Bearer {self._key}"
        else:
            # On a thread: credentials may come from a file, a program or another service.
            request.headers.update(await asyncio.to_thread(self._signed, request))
        yield request

    def _signed(self, request: httpx2.Request) -> dict[str, str]:
        self._session = self._session or get_session()
        try:
            credentials = self._session.get_credentials()
        except BotoCoreError as error:
            raise _no_credentials(str(error)) from error
        if credentials is None:
            raise _no_credentials("none were found")
        unsigned = AWSRequest(
            str(request.method), str(request.url), {"content-type": "application/json"}, request.content
        )
        SigV4Auth(credentials.get_frozen_credentials(), "bedrock", self._region).add_auth(unsigned)
        return dict(unsigned.headers)


def _no_credentials(why: str) -> CallFailed:
    told = (
        f"no AWS credentials ({why}): set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or run `aws configure`"
    )
    return CallFailed(ModelFailure("missing_key", told), ZERO)


def bedrock_model(opened: Opened) -> BedrockCalls:
    """Make a model of Bedrock."""
    return BedrockCalls(opened)
