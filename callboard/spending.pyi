# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.actors.session.budget_scope import BudgetState as BudgetState
from callboard.runtime.budgets import BudgetReport as BudgetReport
from callboard.runtime.budgets import UnloggedCharge as UnloggedCharge
from callboard.runtime.log.spending import UsageRow as UsageRow
from callboard.runtime.sessions.usage import UsageBy as UsageBy
from callboard.runtime.sessions.usage import UsageLine as UsageLine
from callboard.runtime.sessions.usage import UsageReport as UsageReport

__all__ = [
    "BudgetReport",
    "BudgetState",
    "UnloggedCharge",
    "UsageBy",
    "UsageLine",
    "UsageReport",
    "UsageRow",
]
