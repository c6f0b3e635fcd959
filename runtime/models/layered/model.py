"""A model of another service, through the model layer of pydantic-ai-slim.

The context of a service that cuts a conversation that is too long, and does not say so.
"""

import asyncio
import importlib.util
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict

import msgspec

from callboard.actors.protocol.errors import MissingExtra, MissingKey, MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import Unsayable
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.runtime.models.failures import CallFailed, for_log, with_near_names
from callboard.runtime.models.layered.dialects import RESPONSES
from callboard.runtime.models.layered.opened import Opened
from callboard.runtime.models.layered.service import ADAPTER, Service, known_prices, names_of
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.translator import (
    Translator,
    checked_url,
    endpoint_of,
    image_tokens_of,
    unsayable,
)
from callboard.runtime.models.windows import window_of
from callboard.runtime.sanitize import to_json

if TYPE_CHECKING:
    from callboard.runtime.models.layered.layer import Layer

_SECRET_CHARS_MIN: Final = 8
_SECRET_HEADER: Final = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)
_MISSING: Final = {MissingKey: "missing_key", MissingExtra: "missing_extra"}
# Sent by the client, not in the body.
_NOT_PARAMS: Final = frozenset({"api_key", "headers", "extra_headers", "extra_body", "timeout"})
Params: TypeAlias = Mapping[str, object] | None
TOKEN_BYTES: Final = 4  # of a usual text; before the call nothing better is known


class Settings(TypedDict, total=False):
    """The arguments that all these models have, as `AnthropicModel` describes them."""

    max_tokens: int
    prices: Prices | Literal["known"] | None
    api_key: str | None
    stream: bool
    force_tools: bool
    timeout_s: float
    connect_timeout_s: float
    headers: Mapping[str, str] | None
    image_tokens: int | None
    file_tokens: int
    context_tokens: int | None


class LayeredModel:
    """A model of a service that the layer can ask. Made by the classes of `models`, such as `OpenAIModel`.

    name: of the model at the service. known_as: its name in the log, with the provider. params: further
    parameters of the service's API, in its own words. They go into the log. context: the tokens that it reads
    at most, if it cuts longer conversations instead of refusing them; 0 if not. The other arguments are those
    of `AnthropicModel`.
    """

    def __init__(
        self,
        service: Service,
        name: str,
        known_as: str,
        *,
        max_tokens: int = 8_192,
        params: Params = None,
        prices: Prices | Literal["known"] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        force_tools: bool = True,
        timeout_s: float = 600.0,
        connect_timeout_s: float = 10.0,
        headers: Mapping[str, str] | None = None,
        image_tokens: int | None = None,
        file_tokens: int = 0,
        context: int = 0,
        context_tokens: int | None = None,
    ) -> None:
        url = checked_url(base_url or os.environ.get(service.url_variable) or service.base_url)
        if max_tokens < 1:
            raise MisuseError(f"max_tokens={max_tokens} leaves no room for an answer; use at least 1")
        endpoint = f"{endpoint_of(url)} ({service.dialect.name})"
        origin = Origin(ADAPTER, service.provider, endpoint, name)
        # Behind one dialect there are many servers, and not all count tokens well.
        self.spec = ModelSpec(
            known_as,
            max_tokens,
            _params_json(params, service.set_keys),
            origin=origin,
            checks_usage=True,
            image_tokens=image_tokens_of(service.provider, name) if image_tokens is None else image_tokens,
            file_tokens=file_tokens,
            context_tokens=(context or window_of(name)) if context_tokens is None else context_tokens,
        )
        if prices is not None:
            found = known_prices(service.prices_as, name) if prices == "known" else prices
            self.spec = msgspec.structs.replace(self.spec, prices=found)
        self._service = service
        self._name = name
        self._base_url = url
        self._api_key = api_key
        self._stream = stream
        self._force_tools = force_tools
        self._context = context
        self._timeout_s = (timeout_s, connect_timeout_s)
        self._headers = dict(headers or {})
        self._translator = Translator(self._can_send, rules=service.rules)
        self._layer: Layer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def imports(self) -> tuple[str, ...]:
        """Return the modules that speak to the service, with the layer and the service's client."""
        return tuple(f"{__package__}.{name}" for name in ("layer", self._service.client))

    def check(self) -> None:
        """Raise MissingExtra without the layer, MissingKey without a key. Nothing is imported or sent."""
        self.check_installed()
        if self._service.needs_key and not self._key():
            raise MissingKey(
                f"no API key for {self.spec.name}: set the environment variable "
                f"{self._service.key_variables[0]}, or pass {type(self).__name__}(..., api_key=...)"
            )

    def check_installed(self) -> None:
        """Raise MissingExtra without the layer. Nothing is imported."""
        missing = [name for name in self._service.modules if not _is_installed(name)]
        if missing:
            raise MissingExtra(
                f"the model {self.spec.name} needs {', '.join(missing)}: "
                f"pip install 'callboard[{self._service.extra}]'"
            )

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Ask once. Return a fault of the service, the network or the key as a failure."""
        try:
            self.check()
            messages = self._translator.messages_for(request)
            check_context(self._context, len(request.system) + sum(map(len, (*request.tools, *messages))))
            layer = await self._opened()
            answer = await layer.ask(request, messages, on_text)
            check_count(self._context, answer.usage)
            return answer
        except Unsayable as error:
            failed = CallFailed(unsayable(request, error), ZERO)
        except (MissingKey, MissingExtra) as error:
            failed = CallFailed(ModelFailure(_MISSING[type(error)], str(error)), ZERO)
        except CallFailed as error:
            failed = error
        return self._failed(failed)

    def _failed(self, failed: CallFailed) -> ModelAnswer:
        """Return the answer of a call that failed, with words that the log may have."""
        # No message may contain a header value, unless it is short: a common word, not a secret.
        headers = (value for value in self._headers.values() if len(value) >= _SECRET_CHARS_MIN)
        message = for_log(failed.failure.message, (*self.secrets().values(), *headers))
        failure = msgspec.structs.replace(failed.failure, message=message)
        if "did you mean" not in message:
            failure = with_near_names(failure, self._name, names_of(self._service.prices_as))
        return ModelAnswer(failure=failure, usage=failed.usage, sent=failed.sent, body=failed.body)

    def written(self, request: ModelRequest) -> Sent:
        """Return the digest of the body that would be sent now; blocks. Raises MisuseError."""
        self.check_installed()
        try:
            return self._open().written(request, self._translator.messages_for(request))
        except (CallFailed, Unsayable) as error:
            raise MisuseError(f"the request cannot be written now: {error}") from error

    def repairs(self, request: ModelRequest) -> tuple[str, ...]:
        """Return the changes to the model's own replies, as texts. Raises MisuseError."""
        try:
            return self._translator.repairs(request)
        except Unsayable as error:
            raise MisuseError(f"the request cannot be written now: {error}") from error

    def secrets(self) -> Mapping[str, str]:
        """Return the key, and the headers that carry one, so that the runtime keeps them out of its log."""
        found = {"api-key": self._key()}
        found |= {name: value for name, value in self._headers.items() if _SECRET_HEADER.search(name)}
        return {name: value for name, value in found.items() if len(value) >= _SECRET_CHARS_MIN}

    def ended(self, session_id: str, address: str = "") -> None:
        """Let go of the conversation of an agent that ended."""
        self._translator.forget(session_id, address)
        if self._layer is not None:
            self._layer.sent.forget(session_id, address)

    async def aclose(self) -> None:
        """Close the connections. A later call opens new ones."""
        layer, self._layer = self._layer, None
        if layer is not None and self._loop is asyncio.get_running_loop():
            await layer.aclose()

    def _can_send(self, kind: str, source: str) -> bool:
        """Return whether the service has a form for a block of a user."""
        return (kind, source) in self._service.blocks

    def _key(self) -> str:
        # Read at each call: the environment may be set after this object is made.
        found = (os.environ.get(name) for name in self._service.key_variables)
        return self._api_key or next(filter(None, found), "")

    async def _opened(self) -> "Layer":
        """Return the layer's model of this event loop. Connections belong to the loop that opened them."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._layer, self._opening = loop, None, asyncio.Lock()
        async with self._opening:
            if self._layer is None:
                # On a thread: the import of the layer takes a second, too long for the event loop.
                self._layer = await asyncio.to_thread(self._open)
        return self._layer

    def _open(self) -> "Layer":
        from callboard.runtime.models.layered.layer import Layer, Options
        from callboard.runtime.models.layered.messages import Maker
        from callboard.runtime.models.layered.wire import client_with

        service = self._service
        client = client_with(self._headers, *self._timeout_s)
        made = service.make(
            Opened(self._name, self._base_url, self._key(), client, service.region, service.sets_marks)
        )
        files = service.dialect.has_files_in_results
        url = made.base_url or ""
        maker = Maker(service.layer_name, url, files, service.file_provider)
        settings = {"openai_store": False} if service.is_sealed and service.dialect is RESPONSES else {}
        options = Options(
            settings,
            self._stream,
            self._force_tools,
            service.has_strict,
            service.libraries,
            service.schema,
            service.describes_schemas,
        )
        return Layer(made, service.dialect, maker, options, client)


def _params_json(params: Params, set_keys: frozenset[str]) -> Json:
    params = params or {}
    if wrong := sorted(name for name in _NOT_PARAMS | set_keys if _holds(params, name)):
        raise MisuseError(
            f"params may not hold {', '.join(wrong)}: use the arguments of the model for those that may "
            "be set; callboard sets the others"
        )
    return to_json(dict(params), what="params") if params else NULL


def _holds(values: object, name: str) -> bool:
    """Return whether an object has a key. name: with a dot before a key inside of a key."""
    key, _, inner = name.partition(".")
    if not isinstance(values, Mapping) or key not in values:
        return False
    return not inner or _holds(values[key], inner)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False


def check_context(context: int, size: int) -> None:
    """Raise CallFailed for a request that is too long. context: in tokens, 0 for no limit. size: in bytes."""
    if context and size > context * TOKEN_BYTES:
        why = f"nothing was sent: {size} bytes do not fit in a context of {context} tokens"
        raise CallFailed(ModelFailure("context_full", why), ZERO)


def check_count(context: int, usage: Usage | None) -> None:
    """Raise CallFailed for an answer to a request that the service must have cut."""
    if context and usage is not None and usage.input_tokens + usage.cache_read_tokens >= context:
        why = f"the service read {context} tokens, all of its context, and left out the rest of the request"
        raise CallFailed(ModelFailure("context_full", why), usage)
