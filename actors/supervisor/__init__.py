"""The supervisor's decider: asks, delegations, budgets, admission, endings."""
