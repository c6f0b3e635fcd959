"""Ports: the edges to the world. Each takes posted requests and posts one answer for each."""
