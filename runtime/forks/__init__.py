"""Forks: sessions that go on from an event of another one, with its recorded answers."""
