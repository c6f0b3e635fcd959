"""The page about the mutants, made from the measurements."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.mutants.mutant import Mutant

INTRO: Final = """\
# Mutants: does exploration find bugs?

Each line below is a fault that was put into the real core (`actors/`), one at a time, in its own process.
Then a fixed set of {scenarios} sessions (`tests/mutants/scenarios.py`) is explored, a run of each in turn,
until a rule is broken or {runs:,} runs were made: with the default portfolio, then with each
scheduler alone. The rules are the ready-made ones of `callboard.testing`
([rules](../../docs/rules.md)), replay identity included. The unchanged core passes all of them.

- **FIFO**: one run of each session, first come, first served, without faults. The number is the run in which
  a rule was broken.
- **Units**: the tests of `tests/actors`, without those marked slow, those that run whole sessions in random
  orders or disturbed at every point (`test_sessions.py`, `test_protocol.py`), and those that check
  sizes, docs or the encoding of messages (`test_growth.py`, `test_states_page.py`, `test_codec.py`).
- **portfolio**: the run that found it, with each of {seeds}. The columns after it: one scheduler
  alone, one seed, with a quarter of the runs, which is its share of the portfolio.
- \N{EN DASH}: not found in that many runs. "Found by the portfolio" means: found with every seed.

`make mutants` measures all of it again and writes this page.
"""

LATER: Final = "Measured later than the others, when the sessions or the core may have changed: "
"""The beginning of the line that names the mutants of which only the rows were made again."""

NOT: Final = "\N{EN DASH}"
NOT_EXPLAINED: Final = "not explained yet"


class Measured(NamedTuple):
    """A mutant and the results of all its measurements."""

    mutant: Mutant
    told: Mapping[tuple[str, ...], Mapping[str, object]]

    def is_killed_by(self, task: str) -> bool:
        """Return True if this task found the mutant. task: `fifo` or `units`."""
        return bool(self.told[(task,)]["killed"])

    @property
    def needs_exploration(self) -> bool:
        """Return True if the mutant passes FIFO and the unit tests."""
        return not self.is_killed_by("fifo") and not self.is_killed_by("units")

    def runs(self, scheduler: str) -> list[float]:
        """Return the runs until the mutant was found, by seed; infinity where it was not."""
        return [_number(told) for told in self._explored(scheduler)]

    def is_found_by(self, scheduler: str) -> bool:
        """Return True if every seed found the mutant."""
        return float("inf") not in self.runs(scheduler)

    def rule(self, scheduler: str) -> str:
        """Return the rule that the mutant broke: as this scheduler found it, else any other."""
        killed = [told for told in (*self._explored(scheduler), *self._explored("")) if told["killed"]]
        return str(killed[0]["rule"]) if killed else ""

    def _explored(self, scheduler: str) -> list[Mapping[str, object]]:
        """Return the results of this scheduler in the order of the seeds; of all schedulers for ""."""
        found = [(task, told) for task, told in self.told.items() if task[0] == "explore"]
        return [told for task, told in found if scheduler in ("", task[1])]


def _number(told: Mapping[str, object]) -> float:
    runs = told["runs"]
    assert isinstance(runs, int)
    return runs if told["killed"] else float("inf")


def page(measured: Sequence[Measured], runs: int, scenarios: int, later: Collection[str] = ()) -> str:
    """Render the whole page. runs: the most that the portfolio makes. scenarios: the number of sessions.

    later: the names of mutants that were measured after all others.
    """
    schedulers = list(dict.fromkeys(task[1] for one in measured for task in one.told if task[0] == "explore"))
    main, seeds = schedulers[0], len(measured[0].runs(schedulers[0]))
    found = [one for one in measured if one.is_found_by(main)]
    hard = [one for one in measured if one.needs_exploration]
    lines = [
        INTRO.format(runs=runs, scenarios=scenarios, seeds=f"{seeds} seeds" if seeds > 1 else "one seed"),
        f"{len(measured)} mutants, {len(found)} found by the {main} ({len(found) / len(measured):.1%}). "
        f"{len(hard)} pass FIFO and the unit tests; {len([one for one in hard if one in found])} of these "
        "are found.",
        "",
        *_later(later),
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
        *([_survivor(one) for one in measured if one not in found] or ["None."]),
    ]
    return "\n".join(lines) + "\n"


def _later(names: Collection[str]) -> list[str]:
    return [LATER + ", ".join(f"`{name}`" for name in sorted(names)) + ".", ""] if names else []


def later_of(written: str) -> set[str]:
    """Return the names of the mutants that a page names as measured later."""
    lines = [line for line in written.splitlines() if line.startswith(LATER)]
    return {name for line in lines for name in line.split("`")[1::2]}


def read_rows(written: str, mutants: Mapping[str, Mutant]) -> dict[str, Measured]:
    """Return what the rows of a page tell about these mutants, by name."""
    found, schedulers = {}, list[str]()
    for line in written.splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if cells[0] == "mutant":
            schedulers = cells[4:-1]
        elif line.startswith("| `") and (mutant := mutants.get(cells[0].strip("`"))):
            found[mutant.name] = Measured(mutant, _told(cells[2:], schedulers))
    return found


def _told(cells: Sequence[str], schedulers: Sequence[str]) -> dict[tuple[str, ...], dict[str, object]]:
    fifo, units, *explored, rule = cells
    told: dict[tuple[str, ...], dict[str, object]] = {
        ("fifo",): _read(fifo, rule),
        ("units",): {"killed": units != NOT},
    }
    for scheduler, cell in zip(schedulers, explored, strict=True):
        for seed, run in enumerate(cell.split(", ")):
            told["explore", scheduler, str(seed)] = _read(run, rule)
    return told


def _read(cell: str, rule: str) -> dict[str, object]:
    if cell == NOT:
        return {"killed": False, "runs": 0}
    return {"killed": True, "runs": int(cell.replace(",", "")), "rule": rule}


def _rows(measured: Sequence[Measured], schedulers: Sequence[str]) -> Iterator[str]:
    yield f"| mutant | what it does | FIFO | units | {' | '.join(schedulers)} | rule |"
    yield f"|---|---|---:|---|{'---:|' * len(schedulers)}---|"
    for one in measured:
        cells = [
            f"`{one.mutant.name}`",
            one.mutant.what,
            _count(_number(one.told[("fifo",)])),
            "found" if one.is_killed_by("units") else NOT,
            *(", ".join(map(_count, one.runs(scheduler))) for scheduler in schedulers),
            one.rule(schedulers[0]).split(":")[0].replace("|", "/"),
        ]
        yield f"| {' | '.join(cells)} |"


def _count(runs: float) -> str:
    return NOT if runs == float("inf") else f"{runs:,.0f}"


def _survivor(one: Measured) -> str:
    return f"- `{one.mutant.name}`: {one.mutant.note or NOT_EXPLAINED}"
