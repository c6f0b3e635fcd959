"""Commands as processes that end with their caller."""
