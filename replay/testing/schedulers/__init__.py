"""Who chooses the next move: random, POS, PCT, delays, exhaustive, a portfolio of them, or a schedule."""
