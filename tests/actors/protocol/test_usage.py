"""Usage: whole tokens, whole micro-dollars, and bounds that hold."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.profiles import ModelSpec, Prices, PriceTier
from callboard.actors.protocol.usage import (
    ZERO,
    Need,
    Usage,
    bound,
    bound_of_any,
    dearest_input,
    minus,
    plus,
    priced,
)
from tests.strategies import messages
from tests.strategies import prices as prices_of_models
from tests.tables import table

COUNTS = st.integers(0, 10**7)
TIERED = Prices(3, 15, 0.3, 3.75, tiers=(PriceTier(6, 22, 0.6, 7.5, above_tokens=200_000),))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(messages(Usage), messages(Usage), messages(Usage))
def test_adding_is_a_sum_of_every_field(one: Usage, two: Usage, three: Usage) -> None:
    assert plus(one, two) == plus(two, one)
    assert plus(plus(one, two), three) == plus(one, plus(two, three))
    assert plus(one, ZERO) == one
    assert minus(plus(one, two), two) == one
    assert plus(one, two).tokens == one.tokens + two.tokens


def test_the_bound_of_any_model_is_that_of_the_one_that_may_use_most() -> None:
    small, large = ModelSpec("small", 10), ModelSpec("large", 500)
    assert bound_of_any(1_000, [large, small]) == Need(1_500, 0)
    assert bound_of_any(1_000, [small, large], has_reply=False) == Need(1_000, 0)


def test_all_kinds_of_tokens_count_against_a_budget() -> None:
    assert Usage(1, 20, 300, 4_000, 50_000, micro_usd=7, calls=1, unknown_calls=1).tokens == 54_321


def test_the_dearest_input_is_that_of_any_tier_and_of_any_kind() -> None:
    prices = Prices(3, 15, 0.3, 3.75, tiers=(PriceTier(6, 22.5, 0.6, 7.5, above_tokens=200_000),))
    assert dearest_input(prices) == 7_500_000


def test_a_call_without_known_prices_has_no_known_cost() -> None:
    usage = Usage(10, 20)
    assert priced(usage, None) == usage
    assert bound(10, 20, None) == Need(30, 0)


def test_the_cost_of_a_call_is_rounded_up_to_a_micro_dollar() -> None:
    prices = Prices(input_usd=3, output_usd=15, cache_read_usd=0.3, cache_write_usd=3.75)
    assert priced(Usage(1_000, 100, 10, 1), prices).micro_usd == 3_000 + 1_500 + 3 + 4
    assert priced(Usage(input_tokens=1), Prices(1e-06, 0)).micro_usd == 1
    assert priced(ZERO, prices).micro_usd == 0
    assert Usage(micro_usd=1_500_000).cost_usd == 1.5


@settings(max_examples=80, deadline=None, derandomize=True)
@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, prices_of_models)
def test_no_call_costs_more_than_its_bound(
    fresh: int, read: int, written: int, output: int, spare: int, prices: Prices
) -> None:
    usage = priced(Usage(fresh, output, read, written), prices)
    need = bound(fresh + read + written, output + spare, prices)
    assert usage.tokens <= need.tokens
    assert usage.micro_usd <= need.micro_usd


@settings(max_examples=80, deadline=None, derandomize=True)
@given(COUNTS, COUNTS, COUNTS, COUNTS, prices_of_models)
def test_no_later_call_costs_more_than_what_was_kept_for_it(
    known: int, more: int, output: int, spare: int, prices: Prices
) -> None:
    spec = ModelSpec("m", output + spare, prices=prices)
    kept = bound_of_any(known, [spec]), bound_of_any(more, [spec], has_reply=False)
    need = bound(known + more, output, prices)
    assert need.micro_usd <= sum(one.micro_usd for one in kept)
    assert need.tokens <= sum(one.tokens for one in kept)


def test_a_long_prompt_is_charged_at_the_prices_of_its_tier_cached_tokens_included() -> None:
    assert priced(Usage(200_000, 1_000), TIERED).micro_usd == 600_000 + 15_000
    assert priced(Usage(200_001, 1_000), TIERED).micro_usd == 1_200_006 + 22_000
    assert priced(Usage(1, 1_000, 200_000), TIERED).micro_usd == 6 + 22_000 + 120_000
    assert priced(Usage(1, 1_000, 0, 200_000), TIERED).micro_usd == 6 + 22_000 + 1_500_000


def test_a_reservation_takes_the_dearest_tier_that_the_need_reaches() -> None:
    assert bound(200_000, 1_000, TIERED).micro_usd == 200_000 * 3.75 + 15_000
    assert bound(200_001, 1_000, TIERED).micro_usd == 1_500_008 + 22_000
    cheaper = Prices(3, 15, tiers=(PriceTier(1, 1, above_tokens=10),))
    assert bound(20, 10, cheaper).micro_usd == 20 * 3 + 10 * 15  # a shorter prompt may still be the dearest


@table(
    "make",
    [
        lambda: PriceTier(1, 1, above_tokens=-1),
        lambda: PriceTier(1, 1, above_tokens=cast(Any, 1.5)),
        lambda: Prices(1, 1, tiers=(PriceTier(1, 1, above_tokens=2), PriceTier(1, 1, above_tokens=2))),
        lambda: Prices(1, 1, tiers=cast(Any, [PriceTier(1, 1, above_tokens=2)])),
        lambda: Prices(1, 1, tiers=cast(Any, (2,))),
    ],
)
def test_tiers_that_cannot_be_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="PriceTier"):
        make()


def test_prices_without_tiers_are_written_as_before() -> None:
    assert msgspec.json.encode(Prices(3, 15)) == b'{"input_usd":3.0,"output_usd":15.0}'
    assert msgspec.json.decode(msgspec.json.encode(TIERED), type=Prices) == TIERED
