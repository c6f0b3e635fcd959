"""The agent's decider: turns with a model, calls, delegations, reports."""
