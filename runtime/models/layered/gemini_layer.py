"""The layer's model for the Gemini API, with a profile and a client of its own.

The layer would else change schemas, let the service make every call fit its schema, and load images by URL
itself.
"""

from typing import cast

from google.genai import Client
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.profiles.google import GoogleModelProfile
from pydantic_ai.providers.google import GoogleProvider

from callboard.runtime.models.layered.gemini_client import QuickClient
from callboard.runtime.models.layered.opened import Opened


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
