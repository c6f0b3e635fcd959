"""Usage: whole tokens, whole micro-dollars, and bounds that hold."""

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.usage import ZERO, Need, Usage, bound, minus, plus, priced
from tests.strategies import messages

COUNTS = st.integers(0, 10**7)
PRICES = st.builds(Prices, *[st.floats(0, 1_000) | st.integers(0, 100)] * 4)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(messages(Usage), messages(Usage), messages(Usage))
def test_adding_is_a_sum_of_every_field(one: Usage, two: Usage, three: Usage) -> None:
    assert plus(one, two) == plus(two, one)
    assert plus(plus(one, two), three) == plus(one, plus(two, three))
    assert plus(one, ZERO) == one
    assert minus(plus(one, two), two) == one
    assert plus(one, two).tokens == one.tokens + two.tokens


def test_all_kinds_of_tokens_count_against_a_budget() -> None:
    assert Usage(1, 20, 300, 4_000, 50_000, micro_usd=7, calls=1, unknown_calls=1).tokens == 54_321


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
@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, PRICES)
def test_no_call_costs_more_than_its_bound(
    fresh: int, read: int, written: int, output: int, spare: int, prices: Prices
) -> None:
    usage = priced(Usage(fresh, output, read, written), prices)
    need = bound(fresh + read + written, output + spare, prices)
    assert usage.tokens <= need.tokens
    assert usage.micro_usd <= need.micro_usd
