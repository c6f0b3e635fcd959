"""The check of the figures names every bound that is broken or out of date."""

import pytest

from tools.check_figures import Bound, Limit, breaches, read_limits


def limit(goal: str, held: str | None = None) -> Limit:
    return Limit(Bound.parse(goal), Bound.parse(held) if held else None)


def test_a_figure_within_its_goal_is_no_breach() -> None:
    assert not list(breaches({"verb": 60}, {"verb": limit(">= 60")}))


def test_a_figure_beyond_its_goal_is_named_with_the_goal() -> None:
    (sentence,) = breaches({"odd": 0.6}, {"odd": limit("<= 0.5")})
    assert sentence == "odd is 0.6, must be <= 0.5 (goal <= 0.5)"


def test_a_held_bound_stands_in_for_the_goal_until_the_goal_is_met() -> None:
    limits = {"odd": limit("<= 0.5", "<= 12")}
    assert not list(breaches({"odd": 11}, limits))
    assert list(breaches({"odd": 13}, limits)) == ["odd is 13, must be <= 12 (goal <= 0.5)"]
    assert list(breaches({"odd": 0.4}, limits)) == [
        "odd is 0.4 and meets its goal <= 0.5: delete its line `held`"
    ]


def test_a_bound_without_a_figure_is_named() -> None:
    (sentence,) = breaches({}, {"charm": limit(">= 1")})
    assert sentence == "charm: no such figure; delete it from bounds.toml"


def test_a_bound_that_cannot_be_read_says_how_to_write_it() -> None:
    with pytest.raises(ValueError, match="write a bound as"):
        Bound.parse("< 5")


def test_a_figure_without_a_bound_is_named() -> None:
    assert list(breaches({"charm": 1}, {})) == ["charm has no bound; give it one in bounds.toml"]


def test_the_table_can_be_read_and_its_held_bounds_are_looser_than_the_goals() -> None:
    for name, one in read_limits().items():
        assert one.held is None or not one.goal.holds(one.held.value), name
