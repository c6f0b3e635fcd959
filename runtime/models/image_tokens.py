"""The most tokens that one image has, by service and model, as the services document it.

It bounds an image that is named by its address or id, of which a budget sees no bytes. Read in November 2026:

    anthropic  https://platform.claude.com/docs/en/build-with-claude/vision
               a larger image is made smaller; 4,784 is the most of the models that see it largest
    openai     https://developers.openai.com/api/docs/guides/images-vision#calculating-costs
               tiles of 512 pixels, at most 8: a base and a price for each tile
               patches of 32 pixels, at most 1,536: a factor for each model
    google     https://ai.google.dev/gemini-api/docs/media-resolution
               Gemini 3 at the highest resolution of a whole request

The page of OpenAI was read in a copy of 2026 that a public repository keeps; the openai library names its
address. It limits no image for gpt-5.6, and states no factor for gpt-5.2, gpt-5.4 and gpt-5.5: they are not
listed here. Bills that people have published agree with the tiles (1,445 for gpt-4.1) and with 1,536 patches
x 1.62 for gpt-4.1-mini, and are lower for gpt-5-mini (x 1.2) and gpt-5-nano (x 1.5):
https://community.openai.com/t/1281361, /1262691, /1344040.

A model that is not listed has no maximum here.
"""

import re
from typing import Final

_DATE: Final = re.compile(r"-20\d\d-\d\d-\d\d$")
_TILES_MAX: Final = 8  # of an image that fits into 768 x 2,048 pixels
_PATCHES_MAX: Final = 1_536
_BY_START: Final = {"anthropic": ("claude-", 4_784), "google": ("gemini-3", 1_120)}
_TILED: Final = {
    **dict.fromkeys(("gpt-4o", "gpt-4.1", "gpt-4.5-preview"), (85, 170)),
    "gpt-4o-mini": (2_833, 5_667),
    **dict.fromkeys(("o1", "o1-pro", "o3"), (75, 150)),
    **dict.fromkeys(("gpt-5", "gpt-5-chat-latest"), (70, 140)),
}
# In hundredths, so that the product is exact.
_PATCHED: Final = {
    **dict.fromkeys(("gpt-4.1-mini", "gpt-5-mini", "gpt-5.4-mini"), 162),
    **dict.fromkeys(("gpt-4.1-nano", "gpt-5-nano", "gpt-5.4-nano"), 246),
    "o4-mini": 172,
}


def image_tokens_of(provider: str, name: str) -> int:
    """Return the most tokens of one image for a model of a service; 0 if it is not known.

    >>> image_tokens_of("openai", "gpt-4o-2024-11-20"), image_tokens_of("openai", "gpt-of-nobody")
    (1445, 0)
    """
    if provider == "openai":
        return _of_openai(_DATE.sub("", name))
    start, tokens = _BY_START.get(provider, ("", 0))
    return tokens if name.startswith(start) else 0


def _of_openai(name: str) -> int:
    if name in _TILED:
        base, tile = _TILED[name]
        return base + _TILES_MAX * tile
    return -(-_PATCHES_MAX * _PATCHED.get(name, 0) // 100)
