"""Usage of models and its bounds, in whole tokens and whole micro-dollars."""

from typing import ClassVar

from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.limits import micro_usd
from callboard.actors.protocol.profiles import Prices

# Whole numbers, because float sums differ between Python versions:
# sum([0.1] * 10) is 0.9999999999999999 on 3.11 and 1.0 on 3.12.
_MILLION = 1_000_000


class Need(Value, frozen=True):
    """An upper bound on what one model call can use."""

    tokens: int = 0
    micro_usd: int = 0


NOTHING = Need()


class Usage(Value, frozen=True):
    """The use of some model calls: tokens by kind, millionths of a US dollar, and the number of calls.

    unknown_calls counts calls whose use was not reported; they are charged their full reservation.
    """

    also: ClassVar[tuple[str, ...]] = ("tokens", "cost_usd")

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    charged_tokens: int = 0
    micro_usd: int = 0
    calls: int = 0
    unknown_calls: int = 0

    @property
    def tokens(self) -> int:
        """Return all tokens that count against a budget."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
            + self.charged_tokens
        )

    @property
    def cost_usd(self) -> float:
        """Return the cost in US dollars."""
        return self.micro_usd / _MILLION


ZERO = Usage()


def plus(one: Usage, other: Usage) -> Usage:
    """Add two usages."""
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cache_read_tokens + other.cache_read_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
        one.charged_tokens + other.charged_tokens,
        one.micro_usd + other.micro_usd,
        one.calls + other.calls,
        one.unknown_calls + other.unknown_calls,
    )


def minus(one: Usage, other: Usage) -> Usage:
    """Subtract the other usage from the first."""
    return Usage(
        one.input_tokens - other.input_tokens,
        one.output_tokens - other.output_tokens,
        one.cache_read_tokens - other.cache_read_tokens,
        one.cache_write_tokens - other.cache_write_tokens,
        one.charged_tokens - other.charged_tokens,
        one.micro_usd - other.micro_usd,
        one.calls - other.calls,
        one.unknown_calls - other.unknown_calls,
    )


def priced(usage: Usage, prices: Prices | None) -> Usage:
    """Add its cost to the usage of one call, rounded up to a micro-dollar."""
    if prices is None:
        return usage
    total = (
        usage.input_tokens * micro_usd(prices.input_usd)
        + usage.output_tokens * micro_usd(prices.output_usd)
        + usage.cache_read_tokens * micro_usd(prices.cache_read_usd)
        + usage.cache_write_tokens * micro_usd(prices.cache_write_usd)
    )
    return plus(usage, Usage(micro_usd=-(-total // _MILLION)))


def bound(input_tokens: int, max_tokens: int, prices: Prices | None) -> Need:
    """Return the most that a call with this much input can use."""
    if prices is None:
        return Need(input_tokens + max_tokens)
    total = input_tokens * dearest_input(prices) + max_tokens * micro_usd(prices.output_usd)
    return Need(input_tokens + max_tokens, -(-total // _MILLION))


def dearest_input(prices: Prices) -> int:
    """Return the highest price of input, in micro-dollars for a million tokens."""
    # The service decides which input comes from its cache, so all of it counts at the highest price.
    return max(
        micro_usd(prices.input_usd), micro_usd(prices.cache_read_usd), micro_usd(prices.cache_write_usd)
    )
