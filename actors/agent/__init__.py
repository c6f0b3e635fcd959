"""The decider of an agent: turns with a model, tool calls, delegations, reports."""
