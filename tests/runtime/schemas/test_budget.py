import pytest

from callboard.runtime.schemas.acceptance import TooMuch
from callboard.runtime.schemas.budget import Budget


def test_a_budget_is_spent_to_the_last_step_and_not_further() -> None:
    budget = Budget(3)
    budget.spend(3)
    with pytest.raises(TooMuch):
        budget.spend(1)


def test_a_refilled_budget_starts_anew() -> None:
    budget = Budget(0)
    budget.refill(5)
    budget.spend(5)


def test_no_bound_is_no_bound() -> None:
    Budget().spend(10**30)
