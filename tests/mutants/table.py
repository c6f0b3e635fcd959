"""The page of the docs about mutants, from what was measured."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from tests.mutants.mutant import Mutant

INTRO: Final = """\
# Mutants: does exploration find bugs?

Each line below is a fault that was put into the real core (`actors/`), one at a time, in its own process.
Then a fixed set of sessions (`tests/mutants/scenarios.py`) is explored with the default portfolio until a
rule is broken or {runs:,} runs were made; then with each scheduler alone. The rules are the
ready-made ones (`callboard.testing`), replay identity included. The core as it is passes all of them.

- **FIFO**: one run of each scenario, first come, first served, nothing failing.
- **Units**: the tests of `tests/actors`, without those marked slow, those that run whole sessions in random
  orders or disturbed at every point (`test_sessions.py`, `test_protocol.py`), and those that look at
  sizes, docs or the encoding of messages (`test_growth.py`, `test_states_page.py`, `test_codec.py`).
- **portfolio**: the run that found it, the median of three seeds. The columns after it: one scheduler alone,
  one seed, with a quarter of the runs, which is its share of the portfolio.
- \N{EN DASH}: not found in so many runs.

`make mutants` measures all of it again and writes this page.
"""


class Measured(NamedTuple):
    """A mutant, and what every measurement told."""

    mutant: Mutant
    told: Mapping[tuple[str, ...], Mapping[str, object]]

    def is_killed_by(self, task: str) -> bool:
        """By `fifo`, or by `units`."""
        return bool(self.told[(task,)]["killed"])

    @property
    def needs_exploration(self) -> bool:
        """Whether it passes FIFO and the unit tests."""
        return not self.is_killed_by("fifo") and not self.is_killed_by("units")

    def runs(self, scheduler: str) -> float:
        """Runs until it was found, the median over the seeds; infinity where it was not."""
        found = [told for task, told in self.told.items() if task[0] == "explore" and task[1] == scheduler]
        return median([_number(told) for told in found])

    @property
    def rule(self) -> str:
        """The rule that it broke: as the portfolio found it, else any other scheduler."""
        explored = [told for task, told in self.told.items() if task[0] == "explore"]
        return next((str(told["rule"]) for told in explored if told["killed"]), "")


def _number(told: Mapping[str, object]) -> float:
    runs = told["runs"]
    assert isinstance(runs, int)
    return runs if told["killed"] else float("inf")


def page(measured: Sequence[Measured], runs: int, rest: Sequence[Mutant] = ()) -> str:
    """The whole page. rest: mutants that were not measured yet."""
    schedulers = list(dict.fromkeys(task[1] for one in measured for task in one.told if task[0] == "explore"))
    main = schedulers[0]
    found = [one for one in measured if one.runs(main) <= runs]
    hard = [one for one in measured if one.needs_exploration]
    lines = [
        INTRO.format(runs=runs),
        f"{len(measured)} mutants, {len(found)} found by the {main} ({len(found) / len(measured):.1%}). "
        f"{len(hard)} pass FIFO and the unit tests; {len([one for one in hard if one in found])} of these "
        "are found.",
        "",
        "## Need exploration: they pass FIFO and the unit tests",
        "",
        *_rows(hard, schedulers),
        "",
        "## Found by FIFO or by a unit test too",
        "",
        *_rows([one for one in measured if one not in hard], schedulers),
        "",
        "## Not found",
        "",
        *(_survivors(measured, main, runs) or ["None."]),
        *_unmeasured(rest),
    ]
    return "\n".join(lines) + "\n"


def _rows(measured: Sequence[Measured], schedulers: Sequence[str]) -> Iterator[str]:
    yield f"| mutant | what it does | FIFO | units | {' | '.join(schedulers)} | rule |"
    yield f"|---|---|---|---|{'---:|' * len(schedulers)}---|"
    for one in measured:
        cells = [
            f"`{one.mutant.name}`",
            one.mutant.what,
            "found" if one.is_killed_by("fifo") else "",
            "found" if one.is_killed_by("units") else "",
            *(_count(one.runs(scheduler)) for scheduler in schedulers),
            one.rule,
        ]
        yield f"| {' | '.join(cells)} |"


def _unmeasured(rest: Sequence[Mutant]) -> Iterator[str]:
    if rest:
        yield from ("", "## Not measured yet", "", "| mutant | what it does |", "|---|---|")
        yield from (f"| `{mutant.name}` | {mutant.what} |" for mutant in rest)


def _count(runs: float) -> str:
    return "\N{EN DASH}" if runs == float("inf") else f"{runs:,.0f}"


def _survivors(measured: Sequence[Measured], main: str, runs: int) -> list[str]:
    lines = []
    for one in measured:
        if one.runs(main) > runs:
            lines.append(f"- `{one.mutant.name}`: {one.mutant.note or 'not explained yet'}")
    return lines
