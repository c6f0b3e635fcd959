"""Counts of work instead of times: calls of functions, of Python and of C, that a thread makes.

The same work has the same count on any machine, however busy it is. The work within one call of C is not
counted: its time is measured in `benchmarks/`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_CALLS = frozenset({"call", "c_call"})


class Steps:
    """The calls so far."""

    def __init__(self) -> None:
        self.made = 0

    def note(self, frame: FrameType, event: str, arg: object) -> None:
        """Count a call."""
        if event in _CALLS:
            self.made += 1


@contextmanager
def counting() -> Iterator[Steps]:
    """Count the calls of this thread."""
    steps, before = Steps(), sys.getprofile()
    sys.setprofile(steps.note)
    try:
        yield steps
    finally:
        sys.setprofile(before)


def steps_of(work: Callable[[], object]) -> int:
    """Return the number of calls that some work makes."""
    with counting() as steps:
        work()
    return steps.made
