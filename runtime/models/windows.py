"""The most tokens of a request and its answer together, by the name of a model, as far as they are known.

The figures are those of genai-prices in November 2026, and its names without dates. A model that is not
listed has no known window: give its model `context_tokens`.
"""

import re
from typing import Final

_WINDOWS: Final[tuple[tuple[str, int], ...]] = (
    (r"claude-(fable|mythos)-5", 1_000_000),
    (r"claude-haiku-5", 1_000_000),
    (r"claude-(opus|sonnet)-(4-[6-9]|5)", 1_000_000),
    (r"claude-", 200_000),
    (r"gpt-4o", 128_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-5\.[56]|gpt-6", 1_000_000),
    (r"gpt-5\.4(-pro)?$", 1_050_000),
    (r"gpt-5(\.[1-4])?(-mini|-nano|-pro|-codex)?$", 400_000),
    (r"(o1|o3|o4-mini)(-pro|-mini)?$", 200_000),
    (r"gemini-(2\.[05]|3|3\.\d)-(pro|flash)", 1_000_000),
)
_DATE: Final = re.compile(r"-20\d\d-?\d\d-?\d\d$")


def window_of(name: str) -> int:
    """Return the tokens of the window of a model with this name at its service; 0 if it is not known.

    >>> window_of("claude-sonnet-4-5"), window_of("my-own-model")
    (200000, 0)
    """
    name = _DATE.sub("", name)
    return next((tokens for pattern, tokens in _WINDOWS if re.match(pattern, name)), 0)
