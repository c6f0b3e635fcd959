"""The page about the mutants: written from measurements, and read again."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tests.mutants.measured import MAIN, Measured, number
from tests.mutants.mutant import Mutant
from tests.mutants.parts import DRIVING, NAIVE, PARTS, Part

SCHEDULERS: Final = (MAIN, "random", "pos", "pct", "delays")
COLUMNS: Final = ("fifo", "units", *SCHEDULERS)

INTRO: Final = """\
# Mutants: does exploration find bugs?

Each row below is a fault that was put into the real core (`actors/`), or into the orchestrator
(`runtime/orchestrator/`), one at a time, in its own process.
Then the sessions of its part (`tests/mutants/parts.py`) are explored, a run of each in turn, until a rule is
broken or {runs:,} runs were made: with the default portfolio, then with each scheduler alone. The rules are
the ready-made ones of `callboard.testing` ([rules](../../docs/rules.md)), replay identity included; for
orchestrators also one that follows their routes. The unchanged core passes, with the same seeds, as many runs
as the mutants needed.

- **fifo**: one run of each session, first come, first served, without faults. The number is the run in which
  a rule was broken.
- **units**: the tests of `tests/actors`, without those marked slow, those that run whole sessions in random
  orders or disturbed at every point (`test_sessions.py`, `test_protocol.py`), and those that check
  sizes, docs or the encoding of messages (`test_growth.py`, `test_states_page.py`, `test_codec.py`).
- **portfolio**: the run that found it, with each of the seeds. The columns after it: one scheduler
  alone, one seed, with a quarter of the runs, which is its share of the portfolio.
- **rule**: the rule that the portfolio saw broken.
- **measured at**: the commit of the measured code; with `+`, there were changes on top of it. Of rows that
  are older than this column, the commit that wrote their numbers.
- \N{EN DASH}: not found in that many runs. An empty cell: not measured. "Found" means: found by the portfolio
  with every seed.

`make mutants` measures all of it again and writes this page.
"""

NOT: Final = "\N{EN DASH}"
NOT_EXPLAINED: Final = "not explained yet"
NONE: Final = "None."


def page(rows: Mapping[str, Measured], runs: int, sessions: Mapping[str, int]) -> str:
    """Render the whole page. runs: the most that the portfolio makes. sessions: their number in each part."""
    lines = [INTRO.format(runs=runs), *_summary(rows, sessions), "", *_driving(rows)]
    for part in PARTS.values():
        lines += ["", f"## {part.subject}", "", *_rows(rows, part)]
    missed = [_survivor(one) for one in rows.values() if not one.is_found]
    lines += ["", "## Not found", "", *(missed or [NONE])]
    return "\n".join(lines) + "\n"


def _summary(rows: Mapping[str, Measured], sessions: Mapping[str, int]) -> Iterator[str]:
    yield "| part | sessions | mutants | found | pass FIFO and the unit tests | of these found |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, part in PARTS.items():
        yield f"| {name} | {sessions[name]} | {_counts(rows, part.mutants)} |"
    yield f"| all | {sum(sessions.values())} | {_counts(rows, rows)} |"


def _counts(rows: Mapping[str, Measured], names: Collection[str]) -> str:
    here = [rows[name] for name in names if name in rows]
    if not all(one.is_killed_by("units") in (True, False) for one in here):
        return f"{len(here)} | {_found(here)} |  | "
    hard = [one for one in here if one.needs_exploration]
    return f"{len(here)} | {_found(here)} | {len(hard)} | {_found(hard)}"


def _found(rows: Sequence[Measured]) -> int:
    return len([one for one in rows if one.is_found])


def _driving(rows: Mapping[str, Measured]) -> Iterator[str]:
    """Yield the count of the mutants about the newer ways to drive a session, group by group."""
    yield "Newer ways to drive a session:"
    yield ""
    yield "| group | mutants | found |"
    yield "|---|---:|---:|"
    groups = {name: group for part in PARTS.values() for name, group in part.groups.items()}
    mutants = [one for name in DRIVING for one in groups[name]]
    for name, group in {**{name: groups[name] for name in DRIVING}, "all": mutants}.items():
        here = [rows[one.name] for one in group if one.name in rows]
        yield f"| {name} | {len(here)} | {_found(here)} |"
    naive = [rows[name] for name in NAIVE if name in rows]
    yield ""
    names = ", ".join(f"`{name}`" for name in NAIVE)
    yield f"{_found(naive)} of the {len(NAIVE)} naive rules among them are found: {names}."


def _rows(rows: Mapping[str, Measured], part: Part) -> Iterator[str]:
    yield f"| group | mutant | what it does | {' | '.join(COLUMNS)} | rule | measured at |"
    yield f"|---|---|---|---:|---|{'---:|' * len(SCHEDULERS)}---|---|"
    for name, group in part.groups.items():
        for one in group:
            if one.name in rows:
                yield f"| {name} | `{one.name}` | {one.what} | {' | '.join(_cells(rows[one.name]))} |"


def _cells(one: Measured) -> list[str]:
    fifo, units = one.told.get(("fifo",)), one.is_killed_by("units")
    return [
        _count(number(fifo)) if fifo else "",
        {True: "found", False: NOT, None: ""}[units],
        *(", ".join(map(_count, one.runs(scheduler))) for scheduler in SCHEDULERS),
        one.rule.split(":")[0].replace("|", "/"),
        one.commit,
    ]


def _count(runs: float) -> str:
    return NOT if runs == float("inf") else f"{runs:,.0f}"


def _survivor(one: Measured) -> str:
    return f"- `{one.mutant.name}`: {one.mutant.note or NOT_EXPLAINED}"


# --- reading ----------------------------------------------------------------------------


def read_rows(written: str, mutants: Mapping[str, Mutant]) -> dict[str, Measured]:
    """Return what the rows of a page tell about these mutants, by name."""
    found = {}
    for line in written.splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if len(cells) > len(COLUMNS) and (mutant := mutants.get(cells[1].strip("`"))):
            *told, rule, commit = cells[3:]
            found[mutant.name] = Measured(mutant, _told(told, rule), commit)
    return found


def _told(cells: Sequence[str], rule: str) -> dict[tuple[str, ...], dict[str, object]]:
    fifo, units, *explored = [cell.strip() for cell in cells]
    told: dict[tuple[str, ...], dict[str, object]] = {}
    if fifo:
        told["fifo",] = _read(fifo, rule)
    if units:
        told["units",] = {"killed": units != NOT}
    for scheduler, cell in zip(SCHEDULERS, explored, strict=True):
        for seed, run in enumerate(cell.split(", ") if cell else []):
            told["explore", scheduler, str(seed)] = _read(run, rule)
    return told


def _read(cell: str, rule: str) -> dict[str, object]:
    if cell == NOT:
        return {"killed": False, "runs": 0}
    return {"killed": True, "runs": int(cell.replace(",", "")), "rule": rule}
