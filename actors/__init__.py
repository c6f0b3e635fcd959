"""Decide: the functional core. Messages, events, deciders and policy; no I/O, no clock, no chance."""

if __name__ != "callboard.actors":
    raise ImportError(
        "import callboard.actors, not actors: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )
