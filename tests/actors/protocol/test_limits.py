"""Limits: allowed values, defaults, and the narrower limits of a child."""

from typing import Any

import pytest
from hypothesis import given, settings

from callboard.actors.protocol.limits import (
    DEFAULTS,
    TABLE,
    WHOLE,
    Limits,
    fill,
    handed_down,
    micro,
    millis,
    narrow,
)
from tests.strategies import messages
from tests.tables import table

FIELDS = Limits.__struct_fields__
MAY_BE_ZERO = ("max_depth", "max_children", "tokens", "cost_usd", "cancel_grace_s")


@table("name", FIELDS)
@table("value", [-1, float("nan"), float("inf"), True, "3", 2**53, -0.5])
def test_an_invalid_bound_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"Limits\.{name} must be a"):
        Limits(**{name: value})  # type: ignore[arg-type]  # a wrong value on purpose


@pytest.mark.parametrize(
    ("name", "near"), [("max_token", "tokens"), ("max_child", "max_children"), ("deadline", "deadline_s")]
)
def test_an_unknown_limit_is_refused_with_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(TypeError, match=f"no argument '{name}'; did you mean '{near}'"):
        Limits(**{name: 1})


def test_an_unknown_limit_like_no_other_is_refused_with_all_names() -> None:
    with pytest.raises(TypeError, match=f"no argument 'zebra'; there are: {', '.join(FIELDS)}"):
        Limits(zebra=1)  # type: ignore[call-arg]  # an unknown name on purpose


@table("name", FIELDS)
def test_zero_is_allowed_only_where_it_leaves_work_possible(name: str) -> None:
    if name in MAY_BE_ZERO:
        assert getattr(Limits(**{name: 0}), name) == 0
    else:
        with pytest.raises(ValueError, match=name):
            Limits(**{name: 0})


@table("name", sorted(WHOLE))
def test_counts_are_whole_numbers(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Limits\.{name} must be a whole number"):
        Limits(**{name: 2.5})  # type: ignore[arg-type]  # a wrong value on purpose


def test_seconds_and_dollars_may_be_given_as_whole_numbers() -> None:
    limits = Limits(deadline_s=5, cost_usd=2)
    assert (type(limits.deadline_s), type(limits.cost_usd)) == (float, float)
    assert limits == Limits(deadline_s=5.0, cost_usd=2.0)


def test_the_documented_defaults_hold_for_unstated_limits() -> None:
    assert fill(Limits()) == DEFAULTS
    assert (DEFAULTS.max_depth, DEFAULTS.max_iterations, DEFAULTS.max_children) == (3, 30, 32)
    assert (DEFAULTS.max_agents, DEFAULTS.max_parallel_calls) == (1_000, 64)
    assert (DEFAULTS.max_report_attempts, DEFAULTS.max_model_attempts) == (5, 6)
    assert (DEFAULTS.tokens, DEFAULTS.cost_usd, DEFAULTS.deadline_s) == (None, None, None)
    assert (DEFAULTS.model_timeout_s, DEFAULTS.schema_timeout_s, DEFAULTS.tool_timeout_s) == (600, 5, 120)
    assert (DEFAULTS.cancel_grace_s, DEFAULTS.max_tool_output_chars) == (10, 50_000)
    assert (DEFAULTS.max_tool_calls, DEFAULTS.max_parallel_tools) == (128, 32)


def test_each_limit_is_one_row_with_its_meaning() -> None:
    assert tuple(TABLE) == FIELDS
    assert all(row.text for row in TABLE.values())
    assert {name for name in FIELDS if name not in WHOLE} == {
        name for name in FIELDS if name.endswith("_s") or name == "cost_usd"
    }


def test_a_child_shares_its_parents_scope_and_inherits_the_other_limits() -> None:
    limits = Limits(tokens=5, cost_usd=1.0, deadline_s=2.0, max_depth=1, tool_timeout_s=3.0)
    assert handed_down(limits) == Limits(max_depth=1, tool_timeout_s=3.0)
    unshared = Limits(max_depth=1)
    assert handed_down(unshared) is unshared


def test_stated_limits_stay_when_the_rest_is_filled_in() -> None:
    filled = fill(Limits(max_depth=0, tokens=5))
    assert (filled.max_depth, filled.tokens, filled.max_iterations) == (0, 5, 30)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(messages(Limits), messages(Limits), messages(Limits))
def test_narrowing_takes_the_lower_bound_of_each_field(one: Limits, two: Limits, three: Limits) -> None:
    both = narrow(one, two)
    for name in FIELDS:
        stated: list[Any] = [value for value in (getattr(one, name), getattr(two, name)) if value is not None]
        assert getattr(both, name) == min(stated, default=None)
    assert both == narrow(two, one)
    assert narrow(both, three) == narrow(one, narrow(two, three))
    assert narrow(one, one) == one
    assert narrow(one, Limits()) == one


def test_dollars_become_whole_micro_dollars_and_seconds_whole_milliseconds() -> None:
    assert [micro(dollars) for dollars in (None, 0.0, 0.1, 1e-6, 4e-7)] == [None, 0, 100_000, 1, 0]
    assert [millis(seconds) for seconds in (0.0, 0.0004, 0.5, 2.0)] == [1, 1, 500, 2_000]
    assert (millis(None), millis(None, 7)) == (0, 7)
