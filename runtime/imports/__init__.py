"""Sessions made of the traffic of programs that callboard does not run."""
