"""The layer's model for the Gemini API, with a profile of its own.

The layer would else change schemas, let the service make every call fit its schema, and load images by URL
itself.
"""

from pydantic_ai.models.google import GoogleModel
from pydantic_ai.profiles.google import GoogleModelProfile
from pydantic_ai.providers.google import GoogleProvider

from callboard.runtime.models.layered.opened import Opened


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
    return GoogleModel(opened.name, provider=provider, profile=profile)
