"""Processes of tests, each of them ended and its pipes closed when the test leaves it, also by a failure."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ENDS_WITHIN_S: Final = 100
"""For faults only: less than the time limit of a test, and far more than a start takes on a busy machine."""

_CHILDREN: Final = Path(__file__).parent / "children"


def import_path(*folders: Path | str) -> str:
    """Return a PYTHONPATH of these folders and `children/`, for a process that looks for garbage once."""
    return os.pathsep.join(map(str, (_CHILDREN, *folders)))


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
