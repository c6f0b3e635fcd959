"""The session around the deciders: one step, the port gate, recovery from a log."""
