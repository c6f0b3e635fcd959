"""The layer's model for the Gemini API, with a profile and a client of its own.

The layer would else change schemas, let the service make every call fit its schema, and load images by URL
itself.

Google's client, without its walk through the conversation.

The client makes an object of every part of every message, and JSON of that: 0.14 ms a message. The layer
gives it plain dicts. Here they get the names of the API, and the client a conversation of one word.

The schemas of tools as Gemini gets them: as they are, or wider, never narrower.

Gemini knows a part of JSON Schema: the keywords in `_KNOWN`, documented for `parametersJsonSchema`. Other
keywords are left out, which widens a schema, and stand in the description of the whole, each under the place
where it was. Four keywords need more than that:

    const                 an enum of one value, if that is a text or a number
    oneOf                 anyOf: Gemini reads it so
    additionalProperties  left out beside patternProperties, whose names it would refuse
    $ref                  alone, and only to a definition at the top
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from google.genai import Client
from google.genai.models import AsyncModels
from google.genai.types import Content, GenerateContentResponse, Part
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.profiles.google import GoogleModelProfile
from pydantic_ai.providers.google import GoogleProvider

from callboard.actors.protocol.immutable import Json
from callboard.runtime.models.layered.dialects import JsonObject
from callboard.runtime.models.layered.opened import Opened
from callboard.runtime.models.layered.schemas import described, object_at_top, with_items
from callboard.runtime.models.layered.wire import EXCHANGE

_ONE_WORD: Final[Any] = [Content(role="user", parts=[Part(text="-")])]  # made once, as the client would
_OF_USERS: Final = frozenset({"args", "response", "part_metadata"})  # the names inside are not the API's
_KNOWN: Final = frozenset(
    {
        "type", "description", "format", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum",
        "maximum", "anyOf", "properties", "additionalProperties", "required", "$ref", "$defs",
    }
)  # fmt: skip
_FORMATS: Final = frozenset({"date-time", "date", "time"})
_DEFINITION: Final = "#/$defs/"
_MAPS: Final = frozenset({"properties", "$defs"})
_LISTS: Final = frozenset({"anyOf", "prefixItems"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties"})
Lost = JsonObject
"""The words that were left out, by the place of their schema: a path of keys, "" for the top."""


class QuickClient:
    """The client of Google as the layer uses it. Everything but its models is the client's own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.aio = SimpleNamespace(models=_Models(client.aio.models))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class _Models:
    """The two methods of the client that the layer calls."""

    def __init__(self, models: AsyncModels) -> None:
        self._models = models

    async def generate_content(self, *, model: str, contents: object, config: Any) -> GenerateContentResponse:
        """Ask for a whole answer."""
        EXCHANGE.get().take(named(contents))
        return await self._models.generate_content(model=model, contents=_ONE_WORD, config=config)

    async def generate_content_stream(
        self, *, model: str, contents: object, config: Any
    ) -> AsyncIterator[GenerateContentResponse]:
        """Ask for a stream."""
        EXCHANGE.get().take(named(contents))
        return await self._models.generate_content_stream(model=model, contents=_ONE_WORD, config=config)


def named(value: Any) -> Any:
    """Return a value with the names of the API. value: as the client takes it."""
    if isinstance(value, list):
        return [named(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        _camel(key): one if key in _OF_USERS else named(one) for key, one in value.items() if one is not None
    }


@cache
def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


class _Quick(GoogleModel):
    """The layer's model, with a quick client."""

    _quick: QuickClient | None = None

    @property
    def client(self) -> Client:
        """Return the client that writes the conversation itself."""
        if self._quick is None:
            self._quick = QuickClient(super().client)
        return cast(Client, self._quick)


def gemini_model(opened: Opened) -> GoogleModel:
    """Make a model of the Gemini API. Its client has no retry options, so it sends each request once."""
    profile = GoogleModelProfile(
        json_schema_transformer=None,
        default_framing_announcement="never",
        google_supports_strict_tool_definition=False,
    )
    provider = GoogleProvider(
        api_key=opened.key or "none", http_client=opened.client, base_url=opened.base_url
    )
    return _Quick(opened.name, provider=provider, profile=profile)


def sendable_to_gemini(schema: Json) -> JsonObject:
    """Return the schema to send: the same one, or a wider one with the lost words in its description."""
    top, lost_at_top = object_at_top(msgspec.json.decode(schema))
    lost: Lost = {"": lost_at_top} if lost_at_top else {}
    kept = _kept(top, "", lost)
    return {**with_items(kept), **described(kept, lost)}


def _kept(schema: Any, place: str, lost: Lost) -> JsonObject:
    """Return the known part of a schema. Adds the rest to lost."""
    if not isinstance(schema, dict) or (place and "$id" in schema):  # its references lead elsewhere
        lost.update({} if schema is True else {place: schema})
        return {}
    plain = _renamed(schema)
    kept = {key: _value(key, plain[key], place, lost) for key in filter(partial(_is_known, plain), plain)}
    if left := {key: value for key, value in schema.items() if not _is_said(key, value, kept)}:
        lost[place] = {**lost.get(place, {}), **left}
    return kept


def _renamed(schema: JsonObject) -> JsonObject:
    """Return a schema with the words of Gemini for const and oneOf, and a reference alone."""
    if "$ref" in schema:
        return {key: value for key, value in schema.items() if key in ("$ref", "$defs")}
    found = dict(schema)
    if "const" in found and "enum" not in found:
        found["enum"] = [found["const"]]
    if "oneOf" in found and "anyOf" not in found:
        found["anyOf"] = found["oneOf"]
    return found


def _is_said(key: str, value: object, kept: JsonObject) -> bool:
    """Return whether the kept words say a keyword, or it says nothing."""
    return key in kept or key == "$schema" or (key == "const" and kept.get("enum") == [value])


def _is_known(schema: JsonObject, key: str) -> bool:
    check = _CHECKS.get(key)
    return key in _KNOWN and (check is None or check(schema))


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


_CHECKS: Final[dict[str, Callable[[JsonObject], bool]]] = {
    "enum": lambda schema: all(map(_is_plain, schema["enum"])),
    "format": lambda schema: schema["format"] in _FORMATS,
    "additionalProperties": lambda schema: "patternProperties" not in schema,
    "$ref": lambda schema: _is_definition(schema["$ref"]),
}
"""Tell of a known keyword if Gemini knows it with this value, in this schema."""


def _is_definition(reference: str) -> bool:
    return reference.startswith(_DEFINITION) and "/" not in reference.removeprefix(_DEFINITION)


def _value(key: str, value: Any, place: str, lost: Lost) -> Any:
    """Return the value of a keyword, with the known parts of the schemas in it."""
    inside = f"{place}/{key}"
    if key in _LISTS:
        return list(_all_kept(enumerate(value), inside, lost).values())
    if key in _MAPS:
        return _all_kept(value.items(), inside, lost)
    return _kept(value, inside, lost) if key in _SCHEMAS and not isinstance(value, bool) else value


def _all_kept(schemas: Iterable[tuple[Any, Any]], place: str, lost: Lost) -> JsonObject:
    return {name: _kept(one, f"{place}/{name}", lost) for name, one in schemas}
