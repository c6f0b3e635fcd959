"""The description of a service: its name, its keys, its address, and how the layer's model for it is made.

List prices from genai-prices, as they were when that package was made. Nothing is fetched.
"""

import importlib.util
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from callboard.actors.protocol.errors import MissingExtra, MisuseError
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.near_names import near_names
from callboard.actors.protocol.profiles import Prices, PriceTier
from callboard.actors.protocol.repairs import InputRules
from callboard.runtime.models.layered.dialects import CHAT, CONVERSE, GENERATE_CONTENT, RESPONSES, Dialect
from callboard.runtime.models.layered.opened import Opened
from callboard.runtime.models.layered.schemas import sendable, sendable_to_gemini

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

    from callboard.runtime.models.layered.replies import Askable


ADAPTER: Final = "pydantic-ai"
"""The adapter in the origin of the messages of all these models."""

_EMBEDDED: Final = frozenset(
    {("text", ""), ("image", "base64"), ("document", "base64"), ("document", "text")}
)
# Set by callboard, by arguments of the model, or through the layer.
_OPENAI_KEYS: Final = frozenset(
    {
        "model", "messages", "input", "instructions", "system", "tools", "tool_choice", "stream",
        "stream_options", "max_tokens", "max_completion_tokens", "max_output_tokens", "previous_response_id",
        "conversation", "n",
    }
)  # fmt: skip
_BEDROCK_KEYS: Final = frozenset(
    {"messages", "system", "toolConfig", "modelId", "inferenceConfig.maxTokens", "stream"}
)
_GEMINI_KEYS: Final = frozenset(
    {
        "contents", "systemInstruction", "tools", "toolConfig", "cachedContent",
        "generationConfig.maxOutputTokens", "generationConfig.candidateCount",
    }
)  # fmt: skip


class Service(NamedTuple):
    """A service and the dialect in which it is asked.

    provider: its name in origins and in prices. make: makes the layer's model. client: the module beside this
    one that imports the service's client. base_url: without a variable
    and an argument. layer_name: the layer's name for it. modules: that must be installed. extra: that
    installs them. key_variables: of the environment; the first one is named in errors. url_variable: of the
    environment. is_sealed: it returns reasoning sealed, and takes it back only so. has_strict: it knows
    strict schemas. libraries: that make a request, beside the layer. schema: makes the schema to send.
    blocks: of users that it takes: type, and type of the source. set_keys: of a request that
    params may not set; a dot leads to a key inside of a key. file_provider: the layer's name for the keeper
    of files that are named by address or id, if it takes them so. price_list: its name in the list of prices,
    if that is another. region: of AWS. describes_schemas: a schema may have a
    description of its own. sets_marks: the model's `cache` argument: prompt cache marks are set.
    """

    provider: str
    dialect: Dialect
    make: "Callable[[Opened], Askable]"
    base_url: str
    client: str = "openai_layer"
    layer_name: str = "openai"
    modules: tuple[str, ...] = ("pydantic_ai", "openai")
    extra: str = "models"
    key_variables: tuple[str, ...] = ()
    url_variable: str = ""
    needs_key: bool = True
    is_sealed: bool = False
    has_strict: bool = False
    libraries: tuple[str, ...] = ("openai",)
    schema: Callable[[Json], JsonObject] = sendable
    blocks: frozenset[tuple[str, str]] = _EMBEDDED | {("image", "url")}
    set_keys: frozenset[str] = _OPENAI_KEYS
    file_provider: Literal["", "google"] = ""
    price_list: str = ""
    region: str = ""
    describes_schemas: bool = True
    sets_marks: bool = False

    @property
    def prices_as(self) -> str:
        """Return its name in the list of prices."""
        return self.price_list or self.provider

    @property
    def rules(self) -> InputRules:
        """Return its rules for replies of its own."""
        return self.dialect.rules._replace(needs_signature=self.is_sealed)


def _chat(opened: Opened, limit: str = "max_completion_tokens") -> "Askable":
    from callboard.runtime.models.layered.openai_layer import chat_model

    return chat_model(opened, limit=limit)


def _openrouter(opened: Opened) -> "Askable":
    from callboard.runtime.models.layered.openai_layer import openrouter_model

    return openrouter_model(opened)


def _ollama(opened: Opened) -> "Askable":
    from callboard.runtime.models.layered.openai_layer import ollama_model

    return ollama_model(opened)


def _sealed(opened: Opened) -> "Askable":
    from callboard.runtime.models.layered.openai_layer import responses_model

    return responses_model(opened, is_sealed=True)


def _plain(opened: Opened) -> "Askable":
    from callboard.runtime.models.layered.openai_layer import responses_model

    return responses_model(opened, is_sealed=False)


def _gemini(opened: Opened) -> "Askable":
    from callboard.runtime.models.layered.gemini_layer import gemini_model

    return gemini_model(opened)


def _bedrock(opened: Opened) -> "Askable":
    from callboard.runtime.models.layered.bedrock_layer import bedrock_model

    return bedrock_model(opened)


OPENAI_CHAT: Final = Service(
    "openai",
    CHAT,
    _chat,
    "https://api.openai.com/v1",
    key_variables=("OPENAI_API_KEY",),
    url_variable="OPENAI_BASE_URL",
    has_strict=True,
)
OPENAI_RESPONSES: Final = OPENAI_CHAT._replace(dialect=RESPONSES, make=_sealed, is_sealed=True)
PLAIN_RESPONSES: Final = OPENAI_RESPONSES._replace(make=_plain)
"""Responses for models that do not reason. Reasoning that comes all the same does not go back."""

COMPATIBLE: Final = OPENAI_CHAT._replace(
    provider="compatible", key_variables=(), url_variable="", needs_key=False, has_strict=False
)
OLD_COMPATIBLE: Final = COMPATIBLE._replace(make=partial(_chat, limit="max_tokens"))
"""A server that knows `max_tokens`, the older name of the limit."""

OPENROUTER: Final = Service(
    "openrouter",
    CHAT,
    _openrouter,
    "https://openrouter.ai/api/v1",
    layer_name="openrouter",
    key_variables=("OPENROUTER_API_KEY",),
)
OLLAMA: Final = Service(
    "ollama",
    CHAT,
    _ollama,
    "http://localhost:11434/v1",
    layer_name="ollama",
    key_variables=("OLLAMA_API_KEY",),
    url_variable="OLLAMA_BASE_URL",
    needs_key=False,
)
GEMINI: Final = Service(
    "google",
    GENERATE_CONTENT,
    _gemini,
    "https://generativelanguage.googleapis.com",
    client="gemini_layer",
    layer_name="google",
    modules=("pydantic_ai", "google.genai"),
    extra="gemini",
    key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    url_variable="GOOGLE_GEMINI_BASE_URL",
    libraries=("google-genai",),
    schema=sendable_to_gemini,
    blocks=_EMBEDDED | {("image", "url"), ("image", "file"), ("document", "url"), ("document", "file")},
    set_keys=_GEMINI_KEYS,
    file_provider="google",
)
BEDROCK: Final = Service(
    "bedrock",
    CONVERSE,
    _bedrock,
    "",
    client="bedrock_layer",
    layer_name="bedrock",
    modules=("pydantic_ai", "boto3"),
    extra="bedrock",
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    needs_key=False,
    libraries=("boto3", "botocore"),
    is_sealed=True,
    blocks=_EMBEDDED,
    set_keys=_BEDROCK_KEYS,
    price_list="aws",
)


_NAMES = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


def known_prices(provider: str, name: str) -> Prices:
    """Return the list prices of a model, those of today where they depend on the date.

    Raises MisuseError for a model whose price is not known, or depends on more than tokens.
    """
    if importlib.util.find_spec("genai_prices") is None:
        raise MissingExtra("prices=\"known\" needs genai-prices: pip install 'callboard[models]'")
    from datetime import UTC, datetime

    from genai_prices.data_snapshot import get_snapshot

    try:
        _, found = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        raise _unknown(name, f"is not known{near_names(name, names_of(provider))}") from None
    return _prices(name, found.get_prices(datetime.now(UTC)))


def names_of(provider: str) -> Iterator[str]:
    """Yield the names of a service's models; none for a service that is not listed, or without the list."""
    if importlib.util.find_spec("genai_prices") is None:
        return
    from genai_prices.data_snapshot import get_snapshot

    for each in get_snapshot().providers:
        if each.id == provider:
            yield from (model.id for model in each.models)


def _prices(name: str, prices: "ModelPrice") -> Prices:
    fields = [getattr(prices, field) for field in _NAMES]
    if None in fields[:2]:
        raise _unknown(name, "depends on more than the number of tokens")
    usual = fields[0]  # a service without a price for its cache takes that of input
    known = [usual if field is None else field for field in fields]
    return Prices(*_at(known, 0), tiers=tuple(_tiers(known)))


def _tiers(prices: "list[Decimal | TieredPrices]") -> Iterator[PriceTier]:
    starts = {tier.start for price in prices for tier in getattr(price, "tiers", ())}
    for start in sorted(starts):
        yield PriceTier(*_at(prices, start), above_tokens=start)


def _at(prices: "list[Decimal | TieredPrices]", tokens: int) -> tuple[float, float, float, float]:
    """Return the prices of input, output, cache reads and cache writes above so many tokens."""
    usd, output, read, written = (_price(price, tokens) for price in prices)
    return usd, output, read, written


def _price(price: "Decimal | TieredPrices", tokens: int) -> float:
    if isinstance(price, Decimal):
        return float(price)
    reached = [tier.price for tier in price.tiers if 0 < tier.start <= tokens]
    return float(reached[-1] if reached else price.base)


def _unknown(name: str, why: str) -> MisuseError:
    return MisuseError(
        f"the price of {name!r} {why}; pass prices=Prices(input_usd=..., output_usd=..., "
        "cache_read_usd=..., cache_write_usd=...) in US dollars per million tokens, or leave prices out"
    )
