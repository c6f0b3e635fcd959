"""Amounts spent: the budgets of a runtime, the charges that no log holds, and the usage of sessions."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "actors.session.budget_scope": ("BudgetState",),
    "runtime.budgets": ("BudgetReport", "UnloggedCharge"),
    "runtime.log.spending": ("UsageRow",),
    "runtime.sessions.usage": ("UsageBy", "UsageLine", "UsageReport"),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
