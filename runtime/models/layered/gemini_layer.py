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
from collections.abc import AsyncIterator
from functools import cache
from types import SimpleNamespace
from typing import Any, Final, cast

from google.genai import Client
from google.genai.models import AsyncModels
from google.genai.types import Content, GenerateContentResponse, Part
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.profiles.google import GoogleModelProfile
from pydantic_ai.providers.google import GoogleProvider

from callboard.runtime.models.layered.opened import Opened
from callboard.runtime.models.layered.wire import EXCHANGE

_ONE_WORD: Final[Any] = [Content(role="user", parts=[Part(text="-")])]  # made once, as the client would
_OF_USERS: Final = frozenset({"args", "response", "part_metadata"})  # the names inside are not the API's


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
