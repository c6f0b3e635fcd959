"""Money in texts: dollars, exact to the millionth."""

from callboard.actors.protocol.money import in_dollars
from tests.tables import table


@table(
    ("micro_usd", "text"),
    [
        (0, "$0"),
        (1, "$0.000001"),
        (1_000, "$0.0010"),
        (15_100, "$0.0151"),
        (15_123, "$0.015123"),
        (999_999, "$0.999999"),
        (1_000_000, "$1.00"),
        (12_345_678, "$12.345678"),
        (5_000_000_000, "$5,000.00"),
    ],
)
def test_an_amount_is_exact_with_at_least_the_digits_that_people_expect(micro_usd: int, text: str) -> None:
    assert in_dollars(micro_usd) == text
