"""Secrets: named, found wherever they turn up, and kept out of the log."""
