"""Limits and budgets as a command line states them."""

from collections.abc import Callable

import pytest

from callboard import Budget
from callboard.actors.protocol.limits import TABLE, Limits
from callboard.cli.amounts import parse_budgets, parse_limits
from callboard.cli.errors import USAGE, Failure
from tests.tables import table


def refusal(read: Callable[[list[str]], object], pairs: list[str]) -> str:
    """Return the message of the refusal of some pairs."""
    with pytest.raises(Failure) as caught:
        read(pairs)
    assert caught.value.exit_code == USAGE
    return caught.value.message


def test_limits_are_written_by_name() -> None:
    assert parse_limits(["tokens=200_000", "cost_usd=0.5", "max_depth=2"]) == Limits(
        tokens=200_000, cost_usd=0.5, max_depth=2
    )
    assert parse_limits([]) == Limits()


def test_whole_numbers_may_be_written_in_thousands_and_millions() -> None:
    assert parse_limits(["tokens=200k"]).tokens == 200_000
    assert parse_limits(["tokens=2M"]).tokens == 2_000_000


def test_an_unknown_limit_is_answered_with_the_names_there_are() -> None:
    told = refusal(parse_limits, ["token=3"])
    assert told == f"--limit 'token=3': write NAME=VALUE; names: {', '.join(TABLE)}"


@table(
    ("pair", "advice"),
    [
        ("tokens=many", "the value must be a whole number"),
        ("tokens=1.5", "the value must be a whole number"),
        ("tokens=", "the value must be a whole number"),
        ("deadline_s=soon", "the value must be a number"),
        ("deadline_s=5k", "the value must be a number"),
        ("tokens", "write NAME=VALUE"),
    ],
)
def test_a_limit_that_is_no_number_is_refused_by_name(pair: str, advice: str) -> None:
    assert refusal(parse_limits, [pair]).startswith(f"--limit {pair!r}: {advice}")


@pytest.mark.parametrize("pair", ["max_depth=-1", "deadline_s=nan", "deadline_s=0"])
def test_a_limit_out_of_bounds_is_refused_with_the_bounds(pair: str) -> None:
    told = refusal(parse_limits, [pair])
    assert f"Limits.{pair.split('=')[0]} must be" in told


def test_budgets_are_written_by_pattern() -> None:
    stated = ["tenant:*=20usd/day", "*=5_000_000tokens", "*=0.5 USD", "a=b=2m tokens/month"]
    assert parse_budgets(stated) == {
        "tenant:*": Budget(cost_usd=20, per="day"),
        "*": Budget(tokens=5_000_000, cost_usd=0.5),
        "a=b": Budget(tokens=2_000_000, per="month"),
    }
    assert parse_budgets([]) is None


@table(
    ("pairs", "advice"),
    [
        (["20usd"], "--budget '20usd': write PATTERN=AMOUNT"),
        (["*=20"], "--budget '*=20': write PATTERN=AMOUNT"),
        (["*=20usd/week"], "--budget '*=20usd/week': write PATTERN=AMOUNT"),
        (["*=-1usd"], "--budget '*=-1usd': write PATTERN=AMOUNT"),
        (["*=1.5tokens"], "--budget '*=1.5tokens': the value must be a whole number"),
        (["*=1kusd"], "--budget '*=1kusd': the value must be a number"),
        (["*=0usd"], "--budget: Budget: cost_usd=0.0; give a number of US dollars above 0"),
        (["ten*=1usd"], "--budget: budgets has the pattern 'ten*'; use a tag"),
        (["*=1usd", "*=2usd"], "--budget '*=2usd': '*' has a budget in this unit already"),
        (["*=1usd", "*=2tokens/day"], "--budget '*=2tokens/day': the budgets of '*' have different periods"),
    ],
)
def test_a_budget_that_cannot_be_read_is_refused(pairs: list[str], advice: str) -> None:
    assert refusal(parse_budgets, pairs).startswith(advice)
