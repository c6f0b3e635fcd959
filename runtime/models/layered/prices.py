"""List prices from genai-prices, as they were when that package was made. Nothing is fetched."""

import importlib.util
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from callboard.actors.protocol.errors import MissingExtra, MisuseError
from callboard.actors.protocol.near_names import near_names
from callboard.actors.protocol.profiles import Prices, PriceTier

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

_NAMES = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


def known_prices(provider: str, name: str) -> Prices:
    """Return the list prices of a model, those of today where they depend on the date.

    Raises MisuseError for a model whose price is not known, or depends on more than tokens.
    """
    if importlib.util.find_spec("genai_prices") is None:
        raise MissingExtra("prices=\"known\" needs genai-prices: pip install 'callboard[models]'")
    from datetime import UTC, datetime

    from genai_prices.data_snapshot import get_snapshot

    try:
        _, found = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        raise _unknown(name, f"is not known{near_names(name, names_of(provider))}") from None
    return _prices(name, found.get_prices(datetime.now(UTC)))


def names_of(provider: str) -> Iterator[str]:
    """Yield the names of a service's models; none for a service that is not listed, or without the list."""
    if importlib.util.find_spec("genai_prices") is None:
        return
    from genai_prices.data_snapshot import get_snapshot

    for each in get_snapshot().providers:
        if each.id == provider:
            yield from (model.id for model in each.models)


def _prices(name: str, prices: "ModelPrice") -> Prices:
    fields = [getattr(prices, field) for field in _NAMES]
    if None in fields[:2]:
        raise _unknown(name, "depends on more than the number of tokens")
    usual = fields[0]  # a service without a price for its cache takes that of input
    known = [usual if field is None else field for field in fields]
    return Prices(*_at(known, 0), tiers=tuple(_tiers(known)))


def _tiers(prices: "list[Decimal | TieredPrices]") -> Iterator[PriceTier]:
    starts = {tier.start for price in prices for tier in getattr(price, "tiers", ())}
    for start in sorted(starts):
        yield PriceTier(*_at(prices, start), above_tokens=start)


def _at(prices: "list[Decimal | TieredPrices]", tokens: int) -> tuple[float, float, float, float]:
    """Return the prices of input, output, cache reads and cache writes above so many tokens."""
    usd, output, read, written = (_price(price, tokens) for price in prices)
    return usd, output, read, written


def _price(price: "Decimal | TieredPrices", tokens: int) -> float:
    if isinstance(price, Decimal):
        return float(price)
    reached = [tier.price for tier in price.tiers if 0 < tier.start <= tokens]
    return float(reached[-1] if reached else price.base)


def _unknown(name: str, why: str) -> MisuseError:
    return MisuseError(
        f"the price of {name!r} {why}; pass prices=Prices(input_usd=..., output_usd=..., "
        "cache_read_usd=..., cache_write_usd=...) in US dollars per million tokens, or leave prices out"
    )
