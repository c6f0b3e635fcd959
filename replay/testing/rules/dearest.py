"""The most that a call can cost with any model that its agent may use."""

from msgspec.structs import astuple, replace

from callboard.actors.protocol.limits import micro_usd
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.usage import Need, bound


def dearest_need(known: int, model: ModelSpec) -> Need:
    """Return the most that a call with so much input can use, with any of these models."""
    tokens, costs = [], [0]
    for one in model.all_specs:
        tokens.append(known + one.max_tokens)
        if one.prices is not None:
            # Any tier may be reached by then, and a tier without a beginning is one that every call reaches.
            flat = [replace(one.prices, tiers=())]
            flat += [Prices(*astuple(tier)[:4]) for tier in one.prices.tiers]
            costs += [bound(known, one.max_tokens, prices).micro_usd for prices in flat]
    return Need(max(tokens), max(costs))


def dearest_input_price(model: ModelSpec) -> int:
    """Return the highest price of input of any of these models, in micro-dollars for a million tokens."""
    known = [one.prices for one in model.all_specs if one.prices is not None]
    rates = [one for prices in known for one in (prices, *prices.tiers)]
    kinds = [(one.input_usd, one.cache_read_usd, one.cache_write_usd) for one in rates]
    return max((micro_usd(price) for three in kinds for price in three), default=0)
