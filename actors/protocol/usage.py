"""Usage of models and its bounds, in whole tokens and whole micro-dollars."""

from collections.abc import Iterable
from typing import ClassVar

from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.limits import micro_usd
from callboard.actors.protocol.near_names import NamedFields, unchecked
from callboard.actors.protocol.profiles import ModelSpec, Prices, Rates

# Whole numbers, because float sums differ between Python versions:
# sum([0.1] * 10) is 0.9999999999999999 on 3.11 and 1.0 on 3.12.
_MILLION = 1_000_000


class Need(Value, frozen=True):
    """An upper bound on what one model call can use."""

    tokens: int = 0
    micro_usd: int = 0


NOTHING = Need()


class Usage(Value, frozen=True, metaclass=NamedFields):
    """The usage of model calls: tokens by kind, millionths of a US dollar, and the number of calls.

    unknown_calls counts calls whose use was not reported: those that were lost are charged their full
    reservation, those that came whole nothing.
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
usage_of = unchecked(Usage)


def plus(one: Usage, other: Usage) -> Usage:
    """Add two usages."""
    return usage_of(
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
    return usage_of(
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
    rates = prices.rates_at(usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens)
    total = (
        usage.input_tokens * micro_usd(rates.input_usd)
        + usage.output_tokens * micro_usd(rates.output_usd)
        + usage.cache_read_tokens * micro_usd(rates.cache_read_usd)
        + usage.cache_write_tokens * micro_usd(rates.cache_write_usd)
    )
    return plus(usage, Usage(micro_usd=-(-total // _MILLION)))


def bound(input_tokens: int, max_tokens: int, prices: Prices | None) -> Need:
    """Return the most that a call with this much input can use, at the dearest prices that it can reach."""
    if prices is None:
        return Need(input_tokens + max_tokens)
    if not prices.tiers:  # without a list: this is asked every turn
        return Need(input_tokens + max_tokens, _cost(input_tokens, max_tokens, prices))
    costs = [_cost(input_tokens, max_tokens, rates) for rates in prices.reached(input_tokens)]
    return Need(input_tokens + max_tokens, max(costs))


def _cost(input_tokens: int, max_tokens: int, rates: Rates) -> int:
    total = input_tokens * _dearest(rates) + max_tokens * micro_usd(rates.output_usd)
    return -(-total // _MILLION)


def bound_of_any(input_tokens: int, specs: Iterable[ModelSpec], *, has_reply: bool = True) -> Need:
    """Return the most that so much input can add to a later call of any of these models.

    The rest of that call is not known yet, so each tier of prices counts as one that it can reach.
    has_reply: False for the input alone.
    """
    tokens, micro = 0, 0
    for spec in specs:
        most = spec.max_tokens if has_reply else 0
        tokens = max(tokens, input_tokens + most)
        for rates in _all_rates(spec.prices):
            micro = max(micro, _cost(input_tokens, most, rates))
    return Need(tokens, micro)


def dearest_input(prices: Prices) -> int:
    """Return the highest price of input in any tier, in micro-dollars for a million tokens."""
    return max(map(_dearest, _all_rates(prices)))


def _all_rates(prices: Prices | None) -> tuple[Rates, ...]:
    return () if prices is None else (prices, *prices.tiers)


def _dearest(rates: Rates) -> int:
    # The service decides which input comes from its cache, so all of it counts at the highest price.
    return max(micro_usd(rates.input_usd), micro_usd(rates.cache_read_usd), micro_usd(rates.cache_write_usd))
