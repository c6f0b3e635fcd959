"""Checks that find what went wrong in a session, each with the event and the next command."""
