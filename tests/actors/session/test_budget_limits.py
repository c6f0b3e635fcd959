"""Budgets, their patterns, and the scopes that bind a session."""

from collections.abc import Mapping
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.session.budget_limits import Budget, checked_patterns, pattern_of, scopes_of
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
