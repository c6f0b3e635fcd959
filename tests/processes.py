"""Processes of tests, each of them ended and its pipes closed when the test leaves it, also by a failure."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

ENDS_WITHIN_S: Final = 100
"""For faults only: less than the time limit of a test, and far more than a start takes on a busy machine."""


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Start a process. Kill it at the end, if it still runs, and close its pipes.

    `with Popen(...)` alone waits for the end instead: a test that fails beside a process without end hangs.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
