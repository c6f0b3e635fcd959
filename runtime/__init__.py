"""Act: the board, log stores, Pykka actors, ports, models, tools, Runtime and Session."""

if __name__ != "callboard.runtime":
    raise ImportError(
        "import callboard.runtime, not runtime: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )
