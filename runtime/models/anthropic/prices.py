"""List prices of Anthropic's models with one price for each kind of token.

Read in 2026 from https://platform.claude.com/docs/en/about-claude/pricing and the model pages beside it.
Prices change, so they are used only on request (`prices="known"`), and they go into the log with the session.
"""

from typing import Final

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.profiles import Prices
from callboard.runtime.models.anthropic.request import Cache

_OPUS: Final = Prices(input=5_000_000, output=25_000_000, cache_read=500_000, cache_write=6_250_000)
_SONNET: Final = Prices(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
_HAIKU: Final = Prices(input=1_000_000, output=5_000_000, cache_read=100_000, cache_write=1_250_000)

# Left out: Haiku 5.5, whose price depends on the prompt's length; Sonnet 5.5, whose cache price changed
# within ten days of its release; batch, fast-mode and regional prices.
# Micro-dollars per million tokens: input, output, cache read, cache write that lasts five minutes.
KNOWN: Final = {
    "claude-fable-5-1": Prices(10_000_000, 50_000_000, 250_000, 12_500_000),
    "claude-fable-5": Prices(10_000_000, 50_000_000, 1_000_000, 12_500_000),
    "claude-opus-5": _OPUS,
    **{f"claude-opus-4-{minor}": _OPUS for minor in ("8", "7", "6", "5", "5-20251101")},
    "claude-sonnet-5": Prices(2_000_000, 10_000_000, 200_000, 2_500_000),
    **dict.fromkeys(("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"), _SONNET),
    **dict.fromkeys(("claude-haiku-4-5", "claude-haiku-4-5-20251001"), _HAIKU),
}


def known_prices(name: str, cache: Cache) -> Prices:
    """Return the list prices of a model by its exact name. Raises MisuseError for a model not in the table.

    cache: entries that last an hour ("1h") cost twice the input, for every model.
    """
    prices = KNOWN.get(name)
    if prices is None:
        raise MisuseError(
            f"the price of {name!r} is not known; pass prices=Prices(input=..., output=..., cache_read=..., "
            "cache_write=...) in micro-dollars per million tokens, or leave prices out"
        )
    if cache != "1h":
        return prices
    return Prices(prices.input, prices.output, prices.cache_read, 2 * prices.input)
