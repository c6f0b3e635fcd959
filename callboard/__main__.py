"""`python -m callboard`."""

from callboard.cli.main import main

if __name__ == "__main__":
    main()
