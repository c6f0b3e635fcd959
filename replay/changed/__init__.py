"""Replay of a recording with changed agents: the first request and the first decision that differ."""
