"""Programs: agents that are ordinary async functions, executed again from their recorded steps."""
