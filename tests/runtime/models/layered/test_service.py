"""List prices: known, unknown, and those that depend on more than the number of tokens."""

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.profiles import Prices, PriceTier
from callboard.runtime.models.layered.openai import OpenAIModel
from callboard.runtime.models.layered.service import known_prices


def test_a_known_price_is_that_of_the_source() -> None:
    assert known_prices("openai", "gpt-4o-mini") == Prices(0.15, 0.6, 0.075, 0.15)


@pytest.mark.parametrize("name", ["gpt-of-nobody", ""])
def test_an_unknown_price_says_what_to_pass(name: str) -> None:
    with pytest.raises(MisuseError, match="pass prices=Prices"):
        known_prices("openai", name)


def test_an_unknown_price_names_the_near_models_of_the_same_service() -> None:
    with pytest.raises(
        MisuseError, match=r"^the price of 'gtp-5' is not known; did you mean 'gpt-5'.*; pass"
    ):
        known_prices("openai", "gtp-5")
    with pytest.raises(MisuseError, match=r"^the price of 'gtp-5' is not known; pass"):
        known_prices("nowhere", "gtp-5")


def test_a_price_by_the_length_of_the_prompt_has_a_tier() -> None:
    prices = known_prices("google", "gemini-2.5-pro")
    assert prices.rates_at(200_000) == prices
    assert prices.rates_at(200_001) == PriceTier(2.5, 15, 0.25, 2.5, above_tokens=200_000)
    assert (prices.input_usd, prices.output_usd, prices.cache_read_usd) == (1.25, 10, 0.125)


def test_a_model_takes_the_list_price_on_request_and_an_own_one_always() -> None:
    assert OpenAIModel("gpt-4o-mini").spec.prices is None
    assert OpenAIModel("gpt-4o-mini", prices="known").spec.prices == Prices(0.15, 0.6, 0.075, 0.15)
    assert OpenAIModel("gpt-of-nobody", prices=Prices(1, 2)).spec.prices == Prices(1, 2)
