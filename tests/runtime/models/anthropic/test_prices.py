"""The table of list prices."""

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.usage import Usage, priced
from callboard.runtime.models.anthropic.model import AnthropicModel
from callboard.runtime.models.anthropic.prices import KNOWN, known_prices


def test_prices_are_used_only_when_asked_for() -> None:
    assert AnthropicModel("claude-opus-5").spec.prices is None
    prices = AnthropicModel("claude-opus-5", prices="known").spec.prices
    assert prices == Prices(5_000_000, 25_000_000, 500_000, 6_250_000)
    assert priced(Usage(1_000, 100, 10_000, 400), prices).cost == 5_000 + 2_500 + 5_000 + 2_500


def test_a_model_without_a_known_price_is_refused_with_a_way_out() -> None:
    with pytest.raises(MisuseError, match=r"claude-haiku-5-5.*prices=Prices"):
        AnthropicModel("claude-haiku-5-5", prices="known")


def test_a_cache_that_lasts_an_hour_costs_twice_the_input_to_write() -> None:
    assert known_prices("claude-sonnet-4-5", "1h").cache_write == 6_000_000


@pytest.mark.parametrize("name", KNOWN)
def test_every_price_has_the_proportions_of_the_published_table(name: str) -> None:
    prices = KNOWN[name]
    assert prices.output == 5 * prices.input
    assert prices.cache_write * 4 == 5 * prices.input
    assert prices.cache_read * 10 <= prices.input
