# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.actors.session.budget_scope import BudgetState as BudgetState
from callboard.runtime.budgets import BudgetReport as BudgetReport
from callboard.runtime.budgets import UnloggedCharge as UnloggedCharge

__all__ = [
    "BudgetReport",
    "BudgetState",
    "UnloggedCharge",
]
