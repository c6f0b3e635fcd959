"""Telemetry of a running process: log records, OpenTelemetry and metrics, made of durable events."""
