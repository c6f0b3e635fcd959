"""How far a campaign is, and Ctrl-C: once ends it with what it has found, twice leaves the process.

On a terminal one line is drawn over itself a few times a second; anywhere else a line is printed now and
then, so that a build log shows that something happens.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Final, TextIO

from callboard.cli.formats import counted, duration
from callboard.cli.output import console_on, is_terminal, talk
from callboard.replay.testing.shards import Glance
from callboard.replay.testing.statistics import Seen
from callboard.replay.testing.stopwatch import Stopwatch

_DRAWN_EVERY_S: Final = 0.2
_PRINTED_EVERY_S: Final = 10.0
_STOPPING: Final = "stopping with the run or the shrinking that is under way; Ctrl-C again leaves at once"


class Progress:
    """Shows glances. is_stopped: Ctrl-C was pressed. runs_max: shown beside the runs, if it is known."""

    def __init__(self, out: TextIO | None = None, runs_max: int | None = None) -> None:
        self._out = out or sys.stderr
        self._runs_max = runs_max
        self.is_live = is_terminal(self._out)
        self.is_stopped = False
        self._watch = Stopwatch()
        self._every_s = _DRAWN_EVERY_S if self.is_live else _PRINTED_EVERY_S
        self._shown_at = 0.0
        self._is_drawn = False

    def begins(self, seen: Seen) -> bool:
        """Before a run: show how far it is, if it is time to. False: stop here."""
        if self._watch.seconds - self._shown_at >= self._every_s:
            self._show(Glance.at(seen))
        return not self.is_stopped

    def glance(self, glance: Glance) -> bool:
        """The same for what several processes have done."""
        if self._watch.seconds - self._shown_at >= self._every_s:
            self._show(glance)
        return not self.is_stopped

    def _show(self, glance: Glance) -> None:
        self._shown_at = self._watch.seconds
        line = self.line(glance, self._watch.seconds)
        if not self.is_live:
            talk(line)
            return
        self._out.write(f"\r{line[: console_on(self._out).width - 1]}\x1b[K")
        self._out.flush()
        self._is_drawn = True

    def line(self, glance: Glance, seconds: float) -> str:
        """A glance in one line, what matters most first."""
        of = f" of {self._runs_max:,}" if self._runs_max else ""
        parts = [
            f"{glance.runs:,}{of} runs",
            f"{glance.runs / seconds:,.0f}/s" if seconds else "",
            duration(round(1_000 * seconds)),
            counted(glance.orders, "order"),
            counted(glance.situations, "situation"),
            f"{counted(glance.faults, 'fault')} of {counted(glance.kinds, 'kind')}" if glance.faults else "",
        ]
        return ", ".join(part for part in parts if part)

    def clear(self) -> None:
        """Wipe the line away."""
        if self._is_drawn:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._is_drawn = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C. Raises KeyboardInterrupt the second time."""
        if self.is_stopped:
            raise KeyboardInterrupt
        self.is_stopped = True
        wiped = "\r\x1b[K" if self._is_drawn else ""
        with contextlib.suppress(
            OSError, ValueError
        ):  # past the stream, which may be in the middle of a line
            os.write(self._out.fileno(), f"{wiped}{_STOPPING}\n".encode())


@contextlib.contextmanager
def reporting(progress: Progress) -> Iterator[Progress]:
    """Show it, and take Ctrl-C, while the body runs. What runs print goes to stderr."""
    before = signal.signal(signal.SIGINT, progress.stop)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield progress
    finally:
        signal.signal(signal.SIGINT, before)
        progress.clear()
