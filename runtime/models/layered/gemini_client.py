"""Google's client, without its walk through the conversation.

The client makes an object of every part of every message, and JSON of that: 0.14 ms a message. The layer
gives it plain dicts. Here they get the names of the API, and the client a conversation of one word.
"""

import re
from collections.abc import AsyncIterator
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

from google.genai import Client
from google.genai.models import AsyncModels
from google.genai.types import Content, GenerateContentResponse, Part

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
