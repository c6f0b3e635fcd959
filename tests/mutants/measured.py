"""The measurements of one mutant: a row of the page."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tests.mutants.mutant import Mutant

MAIN: Final = "portfolio"
"""The scheduler that has to find every mutant, with every seed."""

Told = Mapping[tuple[str, ...], Mapping[str, object]]


class Measured(NamedTuple):
    """A mutant and the results of its measurements. commit: of the code that they were made with."""

    mutant: Mutant
    told: Told
    commit: str

    def is_killed_by(self, task: str) -> bool | None:
        """Return True if this task found the mutant, None if it was not run. task: `fifo` or `units`."""
        told = self.told.get((task,))
        return None if told is None else bool(told["killed"])

    @property
    def needs_exploration(self) -> bool:
        """Return True if the mutant passes FIFO and the unit tests."""
        return self.is_killed_by("fifo") is False and self.is_killed_by("units") is False

    def runs(self, scheduler: str) -> list[float]:
        """Return the runs until the mutant was found, by seed; infinity where it was not."""
        return [number(told) for told in self._explored(scheduler)]

    @property
    def is_found(self) -> bool:
        """Return True if the portfolio found the mutant with every seed."""
        return float("inf") not in self.runs(MAIN)

    @property
    def rule(self) -> str:
        """Return the rule that the mutant broke: as the portfolio found it, else any other scheduler."""
        killed = [told for told in (*self._explored(MAIN), *self._explored("")) if told["killed"]]
        return str(killed[0]["rule"]) if killed else ""

    def _explored(self, scheduler: str) -> Sequence[Mapping[str, object]]:
        """Return the results of this scheduler in the order of the seeds; of all schedulers for ""."""
        found = [(task, told) for task, told in self.told.items() if task[0] == "explore"]
        return [told for task, told in found if scheduler in ("", task[1])]


def number(told: Mapping[str, object]) -> float:
    """Return the run that found the mutant; infinity if none did."""
    runs = told["runs"]
    assert isinstance(runs, int)
    return runs if told["killed"] else float("inf")
