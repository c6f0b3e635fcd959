"""Tools: from a typed function to a checked, bounded call."""
