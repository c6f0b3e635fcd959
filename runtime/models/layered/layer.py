"""One call through the layer: the new messages are converted, one request is sent, its answer is read.

Messages that were sent before are not converted again (`memory`). Long new parts of a conversation, as after
a resume, are converted on a thread, because that would hold the event loop.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

import msgspec
from msgspec.structs import replace
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from callboard.actors.protocol.immutable import NULL, Json, JsonObject
from callboard.actors.protocol.request import ModelRequest as Asked
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.finishes import tell_usage
from callboard.runtime.models.layered.bodies import Known, New, SentConversations, documents_in
from callboard.runtime.models.layered.dialects import RESPONSES, Dialect
from callboard.runtime.models.layered.messages import Maker, converted, system_text
from callboard.runtime.models.layered.replies import Askable, answer_of, failure_of
from callboard.runtime.models.layered.schemas import is_strict, sendable
from callboard.runtime.models.layered.wire import EXCHANGE, Capture, Captured, Exchange, LayeredClient
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.translator import made_by

# A message takes 20 us, and a megabyte of them about 3 ms more, of base64 6 ms.
ON_LOOP_MESSAGES: Final = 64
ON_LOOP_BYTES: Final = 2**20
_PLACEHOLDER: Final[list[ModelMessage]] = [ModelRequest(parts=[UserPromptPart("-")])]
_TOOL: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Options(NamedTuple):
    """How a service is asked.

    settings: of the layer, for every call. has_strict: of the service. schema: makes the schema to send.
    describes_schemas: a schema may have a description, else that of its tool has the words.
    """

    settings: Mapping[str, object]
    is_stream: bool = True
    can_force: bool = True
    has_strict: bool = False
    libraries: tuple[str, ...] = ()
    schema: Callable[[Json], JsonObject] = sendable
    describes_schemas: bool = True


class Layer:
    """A model of the layer, with the conversations that it was sent."""

    def __init__(
        self, model: Askable, dialect: Dialect, maker: Maker, options: Options, client: LayeredClient
    ) -> None:
        self.sent = SentConversations()
        self._model = model
        self._dialect = dialect
        self._maker = maker
        self._options = options
        self._client = client
        self._made_by = made_by("pydantic-ai-slim", *options.libraries)
        self._tools: tuple[tuple[Json, ...], list[ToolDefinition]] = ((), [])

    async def ask(self, request: Asked, messages: tuple[Json, ...], on_text: OnText) -> ModelAnswer:
        """Ask once. Raises CallFailed."""
        key = (request.session_id, request.address)
        known = self.sent.known(key, messages)
        new = messages[known.messages :]
        if len(new) > ON_LOOP_MESSAGES or sum(map(len, new)) > ON_LOOP_BYTES:
            exchange = await asyncio.to_thread(self._written_on_thread, request, new, "items", known.items)
            known, new = Known(len(messages), _joined(known.items, exchange.written)), ()
        exchange, said = self._exchange(request, known.items, new)
        try:
            response = await self._exchanged(exchange, said, request, on_text)
            self.sent.keep(key, messages, exchange.items, known)
            answer = answer_of(response, request.turn, exchange)
        except CallFailed as error:
            if exchange.body:
                error.note_request(self._sent(exchange), exchange.body)
            raise
        return replace(answer, sent=self._sent(exchange), body=exchange.body)

    def written(self, request: Asked, messages: tuple[Json, ...]) -> Sent:
        """Write the request without sending it; blocks. Raises CallFailed."""
        return self._sent(self._written_on_thread(request, messages, "body"))

    def _sent(self, exchange: Exchange) -> Sent:
        return Sent(exchange.digest, self._made_by)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _exchange(
        self, request: Asked, known: bytes, new: Sequence[Json], capture: Capture = ""
    ) -> tuple[Exchange, list[ModelMessage]]:
        said, written = converted(new, self._maker) if new else (_PLACEHOLDER, [])
        exchange = Exchange(
            self._dialect,
            known,
            New(written, bool(known) and isinstance(said[0], ModelResponse), documents_in(known)),
            params=msgspec.json.decode(request.model.params),
            is_placeholder=not new,
            capture=capture,
        )
        return exchange, said

    def _written_on_thread(
        self, request: Asked, new: Sequence[Json], capture: Capture, known: bytes = b""
    ) -> Exchange:
        exchange, said = self._exchange(request, known, new, capture)

        async def write() -> None:
            with suppress(Captured):
                await self._exchanged(exchange, said, request, lambda text: None)

        asyncio.run(write())
        return exchange

    async def _exchanged(
        self, exchange: Exchange, said: list[ModelMessage], request: Asked, on_text: OnText
    ) -> ModelResponse:
        # A service tells the usage at the end: of a call that is cut off before, nothing is known.
        tell_usage(on_text, Usage(unknown_calls=1))
        token = EXCHANGE.set(exchange)
        try:
            return await self._answered(exchange, said, request, on_text)
        except Exception as error:
            if exchange.capture and exchange.written:  # the layer may wrap it
                raise Captured from None
            if exchange.status == 200 and exchange.failed is None and exchange.watched is not None:
                await exchange.watched.rest()
            raise failure_of(error, exchange) from error
        finally:
            EXCHANGE.reset(token)
            await exchange.aclose()

    async def _answered(
        self, exchange: Exchange, said: list[ModelMessage], request: Asked, on_text: OnText
    ) -> ModelResponse:
        is_stream = self._options.is_stream
        try:
            return await self._read(exchange, said, request, on_text, is_stream=is_stream)
        except Exception:
            if exchange.other is None:
                raise
            # The answer decides, not the request: some proxies always stream, some never.
            return await self._read(exchange, said, request, on_text, is_stream=not is_stream)

    async def _read(
        self,
        exchange: Exchange,
        said: list[ModelMessage],
        request: Asked,
        on_text: OnText,
        *,
        is_stream: bool,
    ) -> ModelResponse:
        exchange.is_stream = is_stream
        settings, parameters = self._settings(request), self._parameters(request)
        exchange.tools = frozenset(tool.name for tool in parameters.function_tools)
        if self._dialect is RESPONSES:  # its streams are joined below, and reach the layer as whole answers
            exchange.on_text = on_text if is_stream else None
            response = await self._model.request(said, settings, parameters)
            if not exchange.has_told:
                _tell_texts(response, on_text)
            return response
        if not is_stream:
            response = await self._model.request(said, settings, parameters)
            _tell_texts(response, on_text)
            return response
        async with self._model.request_stream(said, settings, parameters) as stream:
            async for event in stream:
                if text := _text_of(event):
                    on_text(text)
            return stream.get()

    def _settings(self, request: Asked) -> ModelSettings:
        own = {**self._options.settings, "max_tokens": request.model.max_tokens}
        settings = cast(ModelSettings, own)  # with keys of one service's own settings
        if request.force_tool and self._options.can_force:
            settings["tool_choice"] = [request.force_tool]
        return settings

    def _parameters(self, request: Asked) -> ModelRequestParameters:
        text = system_text(request.system)
        return ModelRequestParameters(
            function_tools=self._definitions(request.tools),
            instruction_parts=[InstructionPart(content=text)] if text else [],
        )

    def _definitions(self, tools: tuple[Json, ...]) -> list[ToolDefinition]:
        """Return the tools as the layer defines them, made once for each list of tools."""
        known, made = self._tools
        if known != tools:
            made = [self._definition(tool) for tool in tools]
            self._tools = (tools, made)
        return made

    def _definition(self, tool: Json) -> ToolDefinition:
        fields = _TOOL.decode(tool)
        if "input_schema" not in fields:
            raise _no_server_tool(fields)
        schema = self._options.schema(Json(fields["input_schema"]))
        told = [msgspec.json.decode(fields.get("description", NULL))]
        if not self._options.describes_schemas:
            told.append(schema.pop("description", ""))
        return ToolDefinition(
            name=msgspec.json.decode(fields["name"]),
            description="\n".join(filter(None, told)),
            parameters_json_schema=schema,
            strict=True if self._options.has_strict and is_strict(schema) else None,
        )


def _tell_texts(response: ModelResponse, on_text: OnText) -> None:
    for part in response.parts:
        if isinstance(part, TextPart):
            on_text(part.content)


def _text_of(event: object) -> str:
    """Return the text that an event of a stream adds."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _no_server_tool(fields: dict[str, msgspec.Raw]) -> CallFailed:
    kind = msgspec.json.decode(fields.get("type", b'"?"'))
    why = f"nothing was sent: this service has no tool {kind!r}"
    return CallFailed(ModelFailure("invalid_request_error", why), ZERO)


def _joined(known: bytes, new: bytes) -> bytes:
    return b",".join(filter(None, (known, new)))
