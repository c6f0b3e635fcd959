"""Loaded by Python in each process that a test starts: it looks for garbage once, at its end.

Most of these processes are short and hold little but modules. Python would look through them a hundred times
while they are loaded, and three times at the end: a third of the CPU of such a process.
"""

import atexit
import gc
import sys


def _end() -> None:
    gc.collect()  # Python then reports open files and unfinished coroutines, as it does without this module
    gc.freeze()


gc.set_threshold(200_000)  # more than the objects of all modules of callboard
if not sys.warnoptions:  # a process with `-W error` is also asked about what its modules hold until the end
    atexit.register(_end)
