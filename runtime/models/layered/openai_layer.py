"""The layer's models for APIs of OpenAI's form, each with a profile of its own.

The layer would else change schemas, rewrite special tokens in texts, send reasoning as spoken text, and take
a stream that broke off for a whole one.
"""

from openai import AsyncOpenAI
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openrouter import OpenRouterProvider

from callboard.runtime.models.layered.openai_client import quick_client
from callboard.runtime.models.layered.opened import Opened


def profile(*, is_sealed: bool = False, limit: str = "") -> OpenAIModelProfile:
    """Return the parts of the layer's profile that hold for all models of a service.

    is_sealed: reasoning is asked for sealed, whatever the layer knows of the model's name. limit: the
    parameter of Chat that carries `max_tokens`.
    """
    return OpenAIModelProfile(
        json_schema_transformer=None,
        may_tokenize_special_tokens_in_content=False,
        mimics_assistant_message_formatting=False,
        default_framing_announcement="never",
        openai_chat_streaming_requires_finish_reason=True,
        openai_supports_encrypted_reasoning_content=is_sealed,
        openai_chat_supports_max_completion_tokens=limit == "max_completion_tokens",
    )


def client_of(opened: Opened) -> AsyncOpenAI:
    """Return the provider's client, which sends each request once."""
    return quick_client(
        base_url=opened.base_url, api_key=opened.key or "none", http_client=opened.client, max_retries=0
    )


def chat_model(opened: Opened, *, limit: str) -> OpenAIChatModel:
    """Make a model for Chat Completions."""
    provider = OpenAIProvider(openai_client=client_of(opened))
    return OpenAIChatModel(opened.name, provider=provider, profile=profile(limit=limit))


def openrouter_model(opened: Opened) -> OpenRouterModel:
    """Make a model of OpenRouter, whose reasoning has details of its own."""
    provider = OpenRouterProvider(openai_client=client_of(opened))
    return OpenRouterModel(opened.name, provider=provider, profile=profile(limit="max_tokens"))


def ollama_model(opened: Opened) -> OllamaModel:
    """Make a model of an Ollama server."""
    provider = OllamaProvider(openai_client=client_of(opened))
    return OllamaModel(opened.name, provider=provider, profile=profile(limit="max_tokens"))


def responses_model(opened: Opened, *, is_sealed: bool) -> OpenAIResponsesModel:
    """Make a model for Responses."""
    provider = OpenAIProvider(openai_client=client_of(opened))
    return OpenAIResponsesModel(opened.name, provider=provider, profile=profile(is_sealed=is_sealed))
