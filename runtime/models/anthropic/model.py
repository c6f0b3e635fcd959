"""Claude over the Messages API, through the official SDK.

The SDK provides credentials, headers, connections, timeouts, typed errors and the splitting of a stream into
events. It does not retry, because the agent decides that. Its models of requests and answers are not used,
because they may drop unknown keys: bodies go out as bytes, and answers are read from the raw response.
"""

import asyncio
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from callboard.actors.protocol.errors import MissingExtra, MissingKey, MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.near_names import near_names
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import Unsayable
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.runtime.models.anthropic.errors import failure_of
from callboard.runtime.models.anthropic.request import (
    AS_HEADERS,
    RESERVED,
    TAKES,
    Cache,
    body_of,
    headers_of,
)
from callboard.runtime.models.anthropic.wire import exchange, sent_as
from callboard.runtime.models.failures import CallFailed, for_log, with_near_names
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
    import httpx2
    from anthropic import AsyncAnthropic

INLINE_TOOLS: Final = "inline-tools-2026-09-15"
"""The beta that lets messages of role `system` define, replace and remove tools in a conversation."""

_KEY_VARIABLES: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})
_OTHER_PLACE: Final = frozenset({"api_key", "headers", "extra_headers", "extra_body", "timeout"})
_NOT_PARAMS: Final = RESERVED | AS_HEADERS.keys() | _OTHER_PLACE
_SECRET_CHARS_MIN: Final = 8
_SECRET_HEADER: Final = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)

# List prices of models with one price for each kind of token, read in 2026 from
# https://platform.claude.com/docs/en/about-claude/pricing and the model pages beside it. Prices change, so
# they are used only on request (`prices="known"`), and they go into the log with the session.
_OPUS: Final = Prices(input_usd=5, output_usd=25, cache_read_usd=0.5, cache_write_usd=6.25)
_SONNET: Final = Prices(input_usd=3, output_usd=15, cache_read_usd=0.3, cache_write_usd=3.75)
_HAIKU: Final = Prices(input_usd=1, output_usd=5, cache_read_usd=0.1, cache_write_usd=1.25)

# Left out: Haiku 5.5, whose price depends on the prompt's length; Sonnet 5.5, whose cache price changed
# within ten days of its release; batch, fast-mode and regional prices.
# US dollars per million tokens: input, output, cache read, cache write that lasts five minutes.
KNOWN: Final = {
    "claude-fable-5-1": Prices(10, 50, 0.25, 12.5),
    "claude-fable-5": Prices(10, 50, 1, 12.5),
    "claude-opus-5": _OPUS,
    **{f"claude-opus-4-{minor}": _OPUS for minor in ("8", "7", "6", "5", "5-20251101")},
    "claude-sonnet-5": Prices(2, 10, 0.2, 2.5),
    **dict.fromkeys(("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"), _SONNET),
    **dict.fromkeys(("claude-haiku-4-5", "claude-haiku-4-5-20251001"), _HAIKU),
}


class AnthropicModel:
    """A Claude model.

    name: the model's name in the Messages API.
    max_tokens: the limit of one answer.
    params: further parameters of the Messages API (`thinking`, `output_config`, `tool_choice`, ...). They go
    into the log, so they must not hold a secret.
    betas, api_version: logged as well. With the beta INLINE_TOOLS, `set_tools` keeps the prompt cache. The
    default version is the SDK's, 2026-10-21, which refuses
    `temperature`, `top_p` and `top_k`.
    prices: the prices for cost limits, or "known" for the list prices in KNOWN.
    api_key, base_url: by default ANTHROPIC_API_KEY, else ANTHROPIC_AUTH_TOKEN, and ANTHROPIC_BASE_URL.
    stream: let text arrive piece by piece. cache: set prompt cache marks; "1h" sets marks that last an hour.
    force_tools: the model accepts a forced tool; None decides by its name.
    timeout_s: seconds to wait for the next bytes; `model_timeout_s` limits the whole call.
    image_tokens, file_tokens: the most that an image or a file by address or id has, for budgets; by default
    the documented most of an image, and none of a file.
    headers: sent with every request, never logged. client: an AsyncAnthropic of your own, which you close.

    >>> model = AnthropicModel("claude-opus-5", params={"output_config": {"effort": "low"}})
    >>> bytes(model.spec.params)
    b'{"output_config":{"effort":"low"}}'
    """

    def __init__(
        self,
        name: str,
        *,
        max_tokens: int = 8_192,
        params: Mapping[str, object] | None = None,
        betas: Sequence[str] = (),
        api_version: str = "",
        prices: Prices | Literal["known"] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        cache: Cache = True,
        force_tools: bool | None = None,
        timeout_s: float = 600.0,
        connect_timeout_s: float = 10.0,
        headers: Mapping[str, str] | None = None,
        image_tokens: int | None = None,
        file_tokens: int = 0,
        context_tokens: int | None = None,
        client: "AsyncAnthropic | None" = None,
    ) -> None:
        if base_url is not None:
            checked_url(base_url)
        if max_tokens < 1:
            raise MisuseError(f"max_tokens={max_tokens} leaves no room for an answer; use at least 1")
        found = known_prices(name, cache) if prices == "known" else prices
        more = _params_json(params or {}, betas, api_version)
        self.spec = ModelSpec(
            name,
            max_tokens,
            more,
            found,
            INLINE_TOOLS in betas,
            origin=_origin(name, base_url),
            image_tokens=image_tokens_of("anthropic", name) if image_tokens is None else image_tokens,
            file_tokens=file_tokens,
            context_tokens=window_of(name) if context_tokens is None else context_tokens,
        )
        self._base_url = base_url
        self._api_key = api_key
        self._stream = stream
        self._cache: Cache = cache
        self._force_tools = force_tools
        self._timeout_s = (timeout_s, connect_timeout_s)
        self._headers = dict(headers or {})
        # Only the service itself is known to refuse reasoning without a signature: its own never lacks one,
        # unless it was cut.
        self._translator = Translator(rules=TAKES._replace(needs_signature=base_url is None))
        self._own_client = client
        self._client: AsyncAnthropic | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"AnthropicModel({self.spec.name!r})"

    imports = ("anthropic",)

    def check(self) -> None:
        """Raise MissingExtra without the SDK, MissingKey without an API key. Nothing is imported or sent."""
        if importlib.util.find_spec("anthropic") is None:
            raise MissingExtra(
                f"the model {self.spec.name} needs Anthropic's SDK: pip install 'callboard[anthropic]'"
            )
        if self._own_client is None and not self._key():
            raise MissingKey(
                f"no API key for {self.spec.name}: set the environment variable {_KEY_VARIABLES[0]}, "
                "or pass AnthropicModel(..., api_key=...)"
            )

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Ask once. Return a fault of the service, the network or the key as a failure."""
        body = b""
        try:
            self.check()
            body = self._body(request)
            return await exchange(await self._opened(), body, headers_of(request), on_text)
        except Unsayable as error:
            failed = CallFailed(unsayable(request, error), ZERO)
        except (MissingKey, MissingExtra) as error:
            code = "missing_key" if isinstance(error, MissingKey) else "missing_extra"
            failed = CallFailed(ModelFailure(code, str(error)), ZERO)
        except Exception as error:
            failed = failure_of(error)
            if body:
                failed.note_request(sent_as(body), body)
        # No message may contain a header value, unless it is short: a common word, not a secret.
        headers = (value for value in self._headers.values() if len(value) >= _SECRET_CHARS_MIN)
        message = for_log(failed.failure.message, (*self.secrets().values(), *headers))
        failure = msgspec.structs.replace(failed.failure, message=message)
        failure = with_near_names(failure, self.spec.name, KNOWN)
        return ModelAnswer(failure=failure, usage=failed.usage, sent=failed.sent, body=failed.body)

    def written(self, request: ModelRequest) -> Sent:
        """Return the digest of the body that would be sent now. Raises MisuseError."""
        try:
            return sent_as(self._body(request))
        except Unsayable as error:
            raise MisuseError(f"the request cannot be written now: {error}") from error

    def _body(self, request: ModelRequest) -> bytes:
        said = self._translator.messages_for(request)
        return body_of(request, said, stream=self._stream, cache=self._cache, force_tools=self._force_tools)

    def repairs(self, request: ModelRequest) -> tuple[str, ...]:
        """Return the changes to the model's own replies, as texts. Raises MisuseError."""
        try:
            return self._translator.repairs(request)
        except Unsayable as error:
            raise MisuseError(f"the request cannot be written now: {error}") from error

    def secrets(self) -> Mapping[str, str]:
        """Return the key, and the headers that carry one, so that the runtime keeps them out of its log."""
        client = self._own_client
        found: dict[str, str | None] = {"api-key": self._key()}
        found |= {name: value for name, value in self._headers.items() if _SECRET_HEADER.search(name)}
        if client is not None:
            found |= {"client-api-key": client.api_key, "client-auth-token": client.auth_token}
        return {name: value for name, value in found.items() if value and len(value) >= _SECRET_CHARS_MIN}

    def ended(self, session_id: str, address: str = "") -> None:
        """Forget the translated conversation of an agent that ended."""
        self._translator.forget(session_id, address)

    async def aclose(self) -> None:
        """Close the connections. A later call opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.close()

    def _key(self) -> str:
        # Read at each call: the environment may be set after this object is made.
        return self._api_key or next((key for name in _KEY_VARIABLES if (key := os.environ.get(name))), "")

    async def _opened(self) -> "AsyncAnthropic":
        """Return the client of this event loop. Connections belong to the loop that opened them."""
        if self._own_client is not None:
            return self._own_client
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._client, self._opening = loop, None, asyncio.Lock()
        async with self._opening:
            if self._client is None:
                # On a thread: the import of the SDK takes a second or two, too long for the event loop.
                self._client = await asyncio.to_thread(self._open)
        return self._client

    def _open(self) -> "AsyncAnthropic":
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Timeout

        timeout_s, connect_timeout_s = self._timeout_s
        is_token = not self._api_key and not os.environ.get(_KEY_VARIABLES[0])
        return AsyncAnthropic(
            api_key=None if is_token else self._key(),
            auth_token=self._key() if is_token else None,
            base_url=self._base_url,
            max_retries=0,
            timeout=Timeout(timeout_s, connect=connect_timeout_s),
            default_headers=self._headers,
            http_client=DefaultAsyncHttpxClient(event_hooks={"response": [_read_as_utf8]}),
        )


async def _read_as_utf8(response: "httpx2.Response") -> None:
    # A stranger chooses no codec: that of `punycode` is quadratic, and the SDK reads errors as text.
    response.encoding = "utf-8"


def _origin(name: str, base_url: str | None) -> Origin | None:
    """Return the origin of a model behind another address; None for one at the usual address."""
    if base_url is None:
        return None
    return Origin("anthropic", endpoint=endpoint_of(base_url), model=name)


def _params_json(params: Mapping[str, object], betas: Sequence[str], api_version: str) -> Json:
    _check_params(params, api_version)
    logged = {"betas": list(betas), "api_version": api_version}
    merged = {**params, **{name: value for name, value in logged.items() if value}}
    return to_json(merged, what="params") if merged else NULL


def _check_params(params: Mapping[str, object], api_version: str) -> None:
    if wrong := sorted(_NOT_PARAMS & params.keys()):
        raise MisuseError(
            f"params may not hold {', '.join(wrong)}: use the arguments of AnthropicModel for those that may "
            "be set; callboard sets the others"
        )
    if not api_version and (gone := sorted(_SAMPLING & params.keys())):
        raise MisuseError(
            f"API version 2026-10-21 refuses {', '.join(gone)}; leave them out, or pass "
            'api_version="2023-06-01" for a model that still takes them'
        )


def known_prices(name: str, cache: Cache) -> Prices:
    """Return the list prices of a model by its exact name. Raises MisuseError for a model not in the table.

    cache: entries that last an hour ("1h") cost twice the input, for every model.
    """
    prices = KNOWN.get(name)
    if prices is None:
        raise MisuseError(
            f"the price of {name!r} is not known{near_names(name, KNOWN)}; "
            "pass prices=Prices(input_usd=..., output_usd=..., cache_read_usd=..., cache_write_usd=...) "
            "in US dollars per million tokens, or leave prices out"
        )
    if cache != "1h":
        return prices
    return Prices(prices.input_usd, prices.output_usd, prices.cache_read_usd, 2 * prices.input_usd)
