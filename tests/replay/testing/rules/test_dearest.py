"""The most that a call can cost, for the books of the rules."""

from callboard.actors.protocol.profiles import ModelSpec, Prices, PriceTier
from callboard.replay.testing.rules.dearest import dearest_input_price, dearest_need

TIERED = Prices(3, 15, tiers=(PriceTier(6, 20, above_tokens=200_000),))
SMALL = ModelSpec("small", max_tokens=100, prices=Prices(1, 5, cache_read_usd=0.1, cache_write_usd=1.25))
LARGE = ModelSpec("large", max_tokens=300, prices=TIERED, fallback=(SMALL,))


def test_a_call_may_reach_each_tier_of_any_of_its_models() -> None:
    need = dearest_need(1_000, LARGE)
    assert need.tokens == 1_300
    assert need.micro_usd == 6 * 1_000 + 20 * 300
    assert dearest_need(1_000, SMALL).tokens == 1_100
    assert dearest_need(1_000, ModelSpec("free", max_tokens=10)).micro_usd == 0


def test_the_dearest_price_of_input_is_that_of_any_kind_and_tier() -> None:
    assert dearest_input_price(LARGE) == 6_000_000
    assert dearest_input_price(SMALL) == 1_250_000
    assert dearest_input_price(ModelSpec("free")) == 0
