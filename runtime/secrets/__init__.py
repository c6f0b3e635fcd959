"""Secrets: named, found in every text, and kept out of the log."""
