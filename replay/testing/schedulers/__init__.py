"""The schedulers choose the next move: random, POS, PCT, delays, exhaustive, a portfolio, a schedule."""
