"""Look back: recordings and their verification. Nothing in here can act."""

if __name__ != "callboard.replay":
    raise ImportError(
        "import callboard.replay, not replay: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )
