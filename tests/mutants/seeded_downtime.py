"""Mutants of the time without a process, which sleeps and timeouts of programs leave out.

The sessions of `scenarios_downtime` find them.
"""

from typing import Final

from tests.mutants.mutant import Mutant

LEFT_OUT: Final = (
    Mutant(
        "left-out-by-the-last-resume-only",
        "Of several stops, only the last one is left out.",
        "session.port_gate",
        "            self.left_out_ms += resumed.left_out_ms\n",
        "            self.left_out_ms = resumed.left_out_ms\n",
    ),
    Mutant(
        "left-out-never-told",
        "A program does not hear of the time that is left out.",
        "programs.model",
        "max(request.left_out_ms, run.left_out_ms)",
        "run.left_out_ms",
        folder="runtime",
    ),
    Mutant(
        "left-out-not-recorded",
        "A step does not record the time that it left out.",
        "programs.run",
        "            self._undeclared,\n            self.left_out_ms,\n",
        "            self._undeclared,\n            0,\n",
        folder="runtime",
    ),
    Mutant(
        "left-out-not-repeated",
        "A step that is executed again leaves nothing out.",
        "programs.replaying",
        "left_out_ms=head.left_out_ms)",
        "left_out_ms=0)",
        folder="runtime",
    ),
    Mutant(
        "left-out-by-every-timer",
        "A wait for a time of day is put off by the time that is left out.",
        "programs.loop",
        "(0 if isinstance(timer, ClockTimer) else self._left_out_ms / 1_000)",
        "self._left_out_ms / 1_000",
        folder="runtime",
    ),
    Mutant(
        "left-out-by-no-timer",
        "A sleep is due by the clock, however long the process was away.",
        "programs.loop",
        "(0 if isinstance(timer, ClockTimer) else self._left_out_ms / 1_000)",
        "0",
        folder="runtime",
    ),
    Mutant(
        "left-out-order-of-timers-kept",
        "After a stop, the deadlines stay in the order in which they were before it.",
        "programs.loop",
        "            self._timers = [(self._due(timer), number, timer) for _, number, timer in self._timers]\n",
        "",
        folder="runtime",
    ),
    Mutant(
        "left-out-before-the-run",
        "A run that begins after a stop leaves that stop out, too.",
        "programs.run",
        "            left_out_ms = self.left_out_ms - self._left_out_before\n",
        "            left_out_ms = self.left_out_ms\n",
        folder="runtime",
    ),
    Mutant(
        "left-out-of-the-day",
        "The time of day that a program reads leaves stops out.",
        "programs.context",
        "divmod(self._run.at, _SECOND_MS)",
        "divmod(self._run.at - self._run.left_out_ms, _SECOND_MS)",
        folder="runtime",
    ),
    Mutant(
        "left-out-of-sleep-until",
        "A wait for a time of day waits for so many seconds with a process.",
        "programs.run",
        "        timer = self.loop.call_by_clock(seconds, _reach, reached)\n",
        "        timer = self.loop.call_later(seconds, _reach, reached)\n",
        folder="runtime",
    ),
    Mutant(
        "left-out-of-new-sleeps",
        "A sleep that begins after a stop waits for that stop once more.",
        "programs.loop",
        "        return (self._ms - self._left_out_ms) / 1_000\n",
        "        return self._ms / 1_000\n",
        folder="runtime",
    ),
    Mutant(
        "left-out-wakes-by-its-own-time",
        "A deadline is told by the time of the loop, not by the clock.",
        "programs.run",
        "        return None if after is None else self._began_at + after\n",
        "        left_out = self.left_out_ms - self._left_out_before\n"
        "        return None if after is None else self._began_at + after - left_out\n",
        folder="runtime",
    ),
)
