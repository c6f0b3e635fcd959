"""A simulated cluster of up to 1,000 workers and 10 million sessions, on the real rules."""
