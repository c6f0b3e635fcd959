"""Actors on an event loop: Pykka's actor class with an inbox and a run queue."""
