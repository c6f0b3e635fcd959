"""`python -m regreader` is the command `regreader`."""

from regreader.cli import main

if __name__ == "__main__":
    main(prog_name="regreader")
