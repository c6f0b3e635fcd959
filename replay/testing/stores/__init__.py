"""The contract of every event log, as a test suite for any store."""
