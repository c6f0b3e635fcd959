"""Gemini, over the Gemini API of Google."""

from typing import Unpack

from callboard.runtime.models.layered.model import LayeredModel, Params, Settings
from callboard.runtime.models.layered.service import GEMINI


class GeminiModel(LayeredModel):
    """A Gemini model of Google, over the Gemini API.

    name: the model's name there. The key is GOOGLE_API_KEY, else GEMINI_API_KEY. params: such as
    `{"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}`. The other arguments are those of
    `AnthropicModel`, without `cache`: the service caches by itself.

    >>> GeminiModel("gemini-2.5-pro", max_tokens=4_000).spec.name
    'google:gemini-2.5-pro'
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        params: Params = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(GEMINI, name, f"google:{name}", base_url=base_url, params=params, **settings)
