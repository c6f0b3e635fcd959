"""Amounts spent: the budgets of a runtime, and the charges that no log holds."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "actors.session.budget_scope": ("BudgetState",),
    "runtime.budgets": ("BudgetReport", "UnloggedCharge"),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
