"""The part of the layer's models that a call uses."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings


class Streamed(Protocol):
    """An answer that comes in pieces."""

    def __aiter__(self) -> AsyncIterator[object]:
        """Return its events."""

    def get(self) -> ModelResponse:
        """Return the whole answer, after its last event."""


class Askable(Protocol):
    """A model of the layer, or one that stands for it."""

    @property
    def base_url(self) -> str | None:
        """Return the address of the service."""

    async def request(
        self, said: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters, /
    ) -> ModelResponse:
        """Ask for a whole answer."""

    def request_stream(
        self, said: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters, /
    ) -> AbstractAsyncContextManager[Streamed]:
        """Ask for a stream."""
