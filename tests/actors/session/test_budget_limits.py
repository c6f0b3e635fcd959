"""Budgets, their patterns, and the scopes that bind a session."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.session.budget_limits import (
    Budget,
    Per,
    checked_patterns,
    end_of,
    is_period_of,
    pattern_of,
    period_at,
    scopes_of,
)
from tests.tables import table

SOME = Budget(tokens=5)


@table("pattern", ["batch", "a b", "tenant:*", "user:eu:*", "*", "=", "tenant:*".replace("*", "")])
def test_a_tag_a_prefix_and_a_star_are_patterns(pattern: str) -> None:
    assert checked_patterns({pattern: SOME}) == {pattern: SOME}


@table("pattern", ["", ":*", "tenant*", "*:x", "a*b", "a:*:*", "**", "tenant:*x", "a\nb", 5, None])
def test_anything_else_is_refused_and_named(pattern: object) -> None:
    with pytest.raises(MisuseError, match="budgets has"):
        checked_patterns({pattern: SOME})  # type: ignore[dict-item]  # wrong on purpose


@pytest.mark.parametrize("budgets", [[("*", SOME)], "batch", {"*": 5}, {"*": {"tokens": 5}}])
def test_budgets_that_are_not_budgets_by_pattern_are_refused(budgets: Mapping[str, Budget]) -> None:
    with pytest.raises(MisuseError, match=r"give (budgets by pattern, )?\{'tenant:\*'"):
        checked_patterns(budgets)


@table(
    ("fields", "words"),
    [
        ({}, "give an amount"),
        ({"tokens": 0}, "whole number"),
        ({"tokens": True}, "whole number"),
        ({"tokens": 1.5}, "whole number"),
        ({"cost_usd": 0}, "US dollars"),
        ({"cost_usd": -1.0}, "US dollars"),
        ({"cost_usd": float("nan")}, "US dollars"),
        ({"cost_usd": float("inf")}, "US dollars"),
        ({"cost_usd": "20"}, "US dollars"),
        ({"cost_usd": 10**12}, "US dollars"),
        ({"tokens": 5, "per": "week"}, "'day', 'month'"),
    ],
)
def test_an_amount_that_bounds_nothing_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(MisuseError, match=words):
        Budget(**fields)  # type: ignore[arg-type]  # wrong on purpose


@table(
    "fields",
    [
        {"tokens": 1},
        {"cost_usd": 1},
        {"cost_usd": 1e-6},
        {"cost_usd": 10**12 - 1},
        {"tokens": 2, "per": "month"},
    ],
)
def test_the_smallest_and_the_greatest_amounts_are_taken(fields: dict[str, Any]) -> None:
    budget = Budget(**fields)
    assert {name: getattr(budget, name) for name in fields} == fields


def test_amounts_are_whole_numbers_of_tokens_and_micro_dollars() -> None:
    budget = Budget(cost_usd=20.5, tokens=7, per="day")
    assert (budget.limit("tokens"), budget.limit("micro_usd")) == (7, 20_500_000)
    assert SOME.limit("micro_usd") is None


@table(
    ("patterns", "tags", "scopes"),
    [
        ([], ["a"], ()),
        (["*"], [], ("*",)),
        (["batch"], ["nightly"], ()),
        (["batch"], ["batch", "nightly"], ("batch",)),
        (["t:*"], ["t:a", "t:b", "t", "tt:a"], ("t:*=t:a", "t:*=t:b")),
        (["t:*"], ["t:"], ("t:*=t:",)),
        (["t:*", "t:a", "*"], ["t:a"], ("*", "t:*=t:a", "t:a")),
        (["t:*", "t:a:*"], ["t:a:b"], ("t:*=t:a:b", "t:a:*=t:a:b")),
        (["t:*"], ["t:*", "*"], ("t:*=t:*",)),
        (["a=b:*"], ["a=b:*=c"], ("a=b:*=a=b:*=c",)),
    ],
)
def test_every_pattern_that_matches_a_tag_binds_its_session(
    patterns: list[str], tags: list[str], scopes: tuple[str, ...]
) -> None:
    assert scopes_of(patterns, tags) == scopes
    assert {pattern_of(scope) for scope in scopes} <= set(patterns)


TIMES = st.datetimes(datetime(1960, 1, 1), datetime(2400, 1, 1), timezones=st.just(UTC))


def ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@given(TIMES)
def test_a_period_is_the_day_or_month_of_its_time(moment: datetime) -> None:
    assert period_at("day", ms(moment)) == f"{moment:%Y-%m-%d}"
    assert period_at("month", ms(moment)) == f"{moment:%Y-%m}"
    assert period_at(None, ms(moment)) == ""


@given(TIMES)
def test_a_period_ends_where_the_next_begins(moment: datetime) -> None:
    pers: tuple[Per, ...] = ("day", "month")
    for per in pers:
        end = end_of(per, ms(moment))
        assert end is not None
        assert period_at(per, end - 1) == period_at(per, ms(moment)) < period_at(per, end)
    assert end_of(None, ms(moment)) is None


@table("year", [1969, 1970, 1999, 2000, 2001, 2003, 2004, 2100, 2399, 2400])
def test_every_day_of_a_year_has_its_name(year: int) -> None:
    first, last = date(year, 1, 1), date(year, 12, 31)
    for day in range(first.toordinal(), last.toordinal() + 1):
        begins = (day - date(1970, 1, 1).toordinal()) * 86_400_000
        name = date.fromordinal(day).isoformat()
        assert period_at("day", begins) == period_at("day", begins + 86_399_999) == name


def test_the_names_of_one_kind_are_not_those_of_another() -> None:
    names: dict[Per, str] = {"day": "2026-11-28", "month": "2026-11", None: ""}
    for per, name in names.items():
        kinds = [one for one in names if is_period_of(one, name)]
        assert kinds == [per]
