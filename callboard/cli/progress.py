"""The progress of a campaign, and Ctrl-C: the first ends the campaign, the second the process."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Final, TextIO

from callboard.cli.output import console_on, is_terminal, talk
from callboard.replay.formats import counted, duration
from callboard.replay.testing.statistics import CampaignProgress, Statistics, Stopwatch

_DRAWN_EVERY_S: Final = 0.2
_PRINTED_EVERY_S: Final = 10.0  # off a terminal, so that a build log shows progress
_STOPPING: Final = "stopping after the current run or shrink; press Ctrl-C again to leave at once"


class Progress:
    """The line that shows the progress. runs_max: of how many runs. is_stopped: set after Ctrl-C."""

    def __init__(self, out: TextIO | None = None, runs_max: int | None = None) -> None:
        self._out = out or sys.stderr
        self._runs_max = runs_max
        self.is_live = is_terminal(self._out)
        self.is_stopped = False
        self._watch = Stopwatch()
        self._every_s = _DRAWN_EVERY_S if self.is_live else _PRINTED_EVERY_S
        self._shown_at = 0.0
        self._is_drawn = False

    def begins(self, found: Statistics | CampaignProgress) -> bool:
        """Show the progress before a run, if it is time to. Return False to end the campaign.

        found: the statistics of one process, or the sums of several.
        """
        if self._watch.seconds - self._shown_at >= self._every_s:
            self._show(CampaignProgress.at(found) if isinstance(found, Statistics) else found)
        return not self.is_stopped

    def _show(self, glance: CampaignProgress) -> None:
        self._shown_at = self._watch.seconds
        line = self.line(glance, self._watch.seconds)
        if not self.is_live:
            talk(line)
            return
        self._out.write(f"\r{line[: console_on(self._out).width - 1]}\x1b[K")
        self._out.flush()
        self._is_drawn = True

    def line(self, glance: CampaignProgress, seconds: float) -> str:
        """Format the progress in one line, the most important figures first."""
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
        """Erase the line."""
        if self._is_drawn:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._is_drawn = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C. Raises KeyboardInterrupt the second time."""
        if self.is_stopped:
            raise KeyboardInterrupt
        self.is_stopped = True
        wiped = "\r\x1b[K" if self._is_drawn else ""
        with contextlib.suppress(OSError, ValueError):
            # Not through the stream: the signal may have come in the middle of one of its writes.
            os.write(self._out.fileno(), f"{wiped}{_STOPPING}\n".encode())


@contextlib.contextmanager
def reporting(progress: Progress) -> Iterator[Progress]:
    """Show the progress and handle Ctrl-C while the body runs. The output of runs goes to stderr."""
    before = signal.signal(signal.SIGINT, progress.stop)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield progress
    finally:
        signal.signal(signal.SIGINT, before)
        progress.clear()
