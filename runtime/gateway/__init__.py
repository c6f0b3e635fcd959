"""A gateway on loopback that records the traffic of another program while it runs."""
