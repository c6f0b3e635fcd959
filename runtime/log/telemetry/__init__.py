"""Telemetry: pure functions from the events of a session to spans, metrics and log records."""
