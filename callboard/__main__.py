"""`python -m callboard`, and the program `callboard`."""

import gc
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit."""
    # What modules make stays to the end: looking through it for garbage took a sixth of the CPU of a start.
    gc.disable()  # until the module of the command is loaded
    from callboard.cli.main import main

    main()


if __name__ == "__main__":
    main()
