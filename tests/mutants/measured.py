"""The measurements of one mutant: a row of the page."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tests.mutants.mutant import Mutant

MAIN: Final = "portfolio"
"""The schedulers that have to find every mutant, with every seed."""

Told = Mapping[tuple[str, ...], Mapping[str, object]]


class Measured(NamedTuple):
    """A mutant and the results of its measurements. commit: of the code that they were made with."""

    mutant: Mutant
    told: Told
    commit: str

    @property
    def fifo(self) -> float:
        """Return the run without faults and with one order that found the mutant; infinity if none did."""
        return number(self.told["fifo",])

    @property
    def runs(self) -> list[float]:
        """Return the runs until the portfolio found the mutant, by seed; infinity where it did not."""
        return [number(told) for told in self._explored]

    @property
    def is_found(self) -> bool:
        """Return True if the portfolio found the mutant with every seed."""
        return float("inf") not in self.runs

    @property
    def rule(self) -> str:
        """Return the rule that the portfolio saw broken; "" if it found nothing."""
        return next((str(told["rule"]) for told in self._explored if told["killed"]), "")

    @property
    def _explored(self) -> Sequence[Mapping[str, object]]:
        """Return the results of the portfolio in the order of the seeds."""
        return [told for task, told in self.told.items() if task[0] == "explore"]


def number(told: Mapping[str, object]) -> float:
    """Return the run that found the mutant; infinity if none did."""
    runs = told["runs"]
    assert isinstance(runs, int)
    return runs if told["killed"] else float("inf")
