"""Checks of recorded runs against a program as it is now. Nothing is asked, and nothing is written."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.runtime.failure_text import located_text
from callboard.runtime.programs.history import last_run, runs_before
from callboard.runtime.programs.program import Program
from callboard.runtime.programs.replaying import ProgramDiverged, repeat, what_of
from callboard.runtime.programs.run import ProgramRun

Verdict: TypeAlias = Literal["ok", "diverged", "missing"]
"""`missing`: the given agents hold no program of that name."""


class RunCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """The check of an agent's last run. steps: the recorded ones.

    step, recorded, now: of a divergence, the step, its recorded asks, and those of the program today.
    """

    address: str
    program: str
    result: Verdict
    steps: int = 0
    step: int = 0
    recorded: str = ""
    now: str = ""

    def line(self) -> str:
        """Return the check as a line of text."""
        head = f"{self.address} ({self.program})"
        if self.result == "missing":
            return f"{head}: there is no program {self.program!r} any more"
        if self.result == "ok":
            return f"{head}: {self.steps} steps as recorded"
        return f"{head}: step {self.step} differs; recorded: {self.recorded}; now: {self.now}"


def check_run(found: Program[object] | None, name: str, address: str, messages: Sequence[Json]) -> RunCheck:
    """Execute the last run of a conversation again, and compare each step.

    found: the program of today, None for a name that is gone. name: of the recorded program.
    address: of its agent.
    """
    if found is None:
        return RunCheck(address, name, "missing")
    recorded = last_run(len(messages), messages.__getitem__)
    if recorded is None or not recorded.steps:
        return RunCheck(address, name, "ok")
    steps = len(recorded.steps)
    before = partial(runs_before, recorded.place, messages.__getitem__)
    run = ProgramRun(found.model.main_of(recorded.prompt, before), recorded.steps[0].step.head.run)
    for one in recorded.steps:
        try:
            repeat(run, one)
        except ProgramDiverged as error:
            return RunCheck(address, name, "diverged", steps, error.step, error.recorded, error.now)
        except SystemExit as error:
            at, did = one.step.head.step, what_of(one.step)
            return RunCheck(address, name, "diverged", steps, at, did, f"raised {located_text(error)}")
    run.stop()
    return RunCheck(address, name, "ok", steps)
