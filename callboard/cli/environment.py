"""All environment variables that callboard reads by a name of its own."""

from types import MappingProxyType
from typing import Final

VARIABLES: Final = MappingProxyType(
    {
        "CALLBOARD_LOG": "the log file of commands without `--log`",
        "CALLBOARD_KEY_FILE": "the file with the key of the log's digests",
        "CALLBOARD_ENCRYPTION_KEY_FILE": "the file with the log's encryption key",
        "CALLBOARD_UVLOOP": "`0` keeps `run_sync` and the command line from using uvloop",
        "CALLBOARD_RUNS": "the number of runs of an exploration",
        "CALLBOARD_SEED": "the seed of an exploration",
        "CALLBOARD_JOBS": "the number of processes of `callboard explore`",
        "CALLBOARD_SECONDS": "the longest time of an exploration by pytest, in seconds",
        "CALLBOARD_SCHEDULER": "the scheduler of an exploration by pytest",
        "CALLBOARD_CHECK_DETERMINISM": "any value lets an exploration make each run twice",
    }
)
"""Variable -> its use. A test compares the names with those that the code reads."""
