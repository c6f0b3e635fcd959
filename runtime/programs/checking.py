"""Checks of recorded runs against a program as it is now. Nothing is asked, and nothing is written."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs.history import last_run, runs_before
from callboard.runtime.programs.program import Program

Verdict: TypeAlias = Literal["ok", "diverged", "missing"]
"""`missing`: the given agents hold no program of that name."""


class RunCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """The check of an agent's last run. steps: the recorded ones.

    step, recorded, now: of a divergence, the step, its recorded asks, and those of the program today, from
    the first place that differs. by_chance: the same code executed twice does two different things.
    """

    address: str
    program: str
    result: Verdict
    steps: int = 0
    step: int = 0
    recorded: str = ""
    now: str = ""
    by_chance: bool = False

    def line(self) -> str:
        """Return the check as a line of text."""
        head = f"{self.address} ({self.program})"
        if self.result == "missing":
            return f"{head}: there is no program {self.program!r} any more"
        if self.result == "ok":
            return f"{head}: {self.steps} steps as recorded"
        chance = "; it depends on chance: executed twice, it does two things" if self.by_chance else ""
        return f"{head}: step {self.step} differs; recorded: {self.recorded}; now: {self.now}{chance}"


class RecordedAgent(msgspec.Struct, frozen=True):
    """A program's agent of a session: its place, its program's name, and its conversation."""

    address: str
    program: str
    messages: tuple[Json, ...]


def programs_of(states: Mapping[str, object], *, only_running: bool = False) -> list[RecordedAgent]:
    """Return the agents of a session that are programs: those that run, or all if none runs.

    states: of the actors, by address. only_running: True for none if none runs.
    """
    found = [
        state
        for state in states.values()
        if isinstance(state, AgentState) and state.prefix is not None and state.model.is_program
    ]
    running = [one for one in found if one.phase != "idle"]
    return [
        RecordedAgent(one.address, one.prefix.profile.name, tuple(one.history.values()))
        for one in (running if running or only_running else found)
        if one.prefix is not None
    ]


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
    run = recorded.steps[0].step.head.run
    before = partial(runs_before, recorded.place, messages.__getitem__)
    error = found.model.divergence_in(recorded, run, before)
    if error is None:
        return RunCheck(address, name, "ok", steps)
    told = (error.step, error.recorded, error.now, error.by_chance)
    return RunCheck(address, name, "diverged", steps, *told)
