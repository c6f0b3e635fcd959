"""Brains: agents of other frameworks, as programs whose model and tool calls go through the session."""
