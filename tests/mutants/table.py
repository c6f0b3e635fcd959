"""The page about the mutants: written from measurements, and read again."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from tests.mutants.measured import MAIN, Measured
from tests.mutants.mutant import Mutant
from tests.mutants.parts import DRIVING, NAIVE, PARTS, Part

INTRO: Final = """\
# Mutants: does exploration find bugs?

Each row below is a fault that was put into the real core (`actors/`), or into the orchestrator
(`runtime/orchestrator/`), one at a time, in its own process.
Then the sessions of its part (`tests/mutants/parts.py`) are explored, a run of each in turn, until a rule is
broken or {runs:,} runs were made, with each of three seeds. The rules are the ready-made ones of
`callboard.testing` ([rules](../../docs/rules.md)), replay identity included; for orchestrators also one that
follows their routes. The unchanged core passes, with the same seeds, as many runs as the mutants needed.

- **fifo**: one run of each session, first come, first served, without faults. The number is the run in which
  a rule was broken.
- **portfolio**: the run in which the schedulers that `explore` uses by default, with faults, saw a rule
  broken, with each of the seeds.
- **rule**: the first rule that the portfolio saw broken.
- **measured at**: the commit of the measured code; with `+`, there were changes on top of it. Of rows that
  are older than this column, the commit that wrote their numbers.
- \N{EN DASH}: not found in that many runs. "Found" means: found by the portfolio with every seed. What passes
  FIFO needs other orders, or faults: those are the mutants that exploration is for.

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
    yield "| part | sessions | mutants | found | pass FIFO | of these found |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, part in PARTS.items():
        yield f"| {name} | {sessions[name]} | {_counts(rows, part.mutants)} |"
    yield f"| all | {sum(sessions.values())} | {_counts(rows, rows)} |"


def _counts(rows: Mapping[str, Measured], names: Collection[str]) -> str:
    here = [rows[name] for name in names if name in rows]
    hard = [one for one in here if one.fifo == inf]
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
    yield f"| group | mutant | what it does | fifo | {MAIN} | rule | measured at |"
    yield "|---|---|---|---:|---:|---|---|"
    for name, group in part.groups.items():
        for one in group:
            if one.name in rows:
                yield f"| {name} | `{one.name}` | {one.what} | {' | '.join(_cells(rows[one.name]))} |"


def _cells(one: Measured) -> list[str]:
    rule = one.rule.split(":")[0].replace("|", "/")
    return [_count(one.fifo), ", ".join(map(_count, one.runs)), rule, one.commit]


def _count(runs: float) -> str:
    return NOT if runs == inf else f"{runs:,.0f}"


def _survivor(one: Measured) -> str:
    return f"- `{one.mutant.name}`: {one.mutant.note or NOT_EXPLAINED}"


# --- reading ----------------------------------------------------------------------------


def read_rows(written: str, mutants: Mapping[str, Mutant]) -> dict[str, Measured]:
    """Return what the rows of a page tell about these mutants, by name."""
    found = {}
    for line in written.splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if len(cells) == 7 and (mutant := mutants.get(cells[1].strip("`"))):
            fifo, portfolio, rule, commit = cells[3:]
            told: dict[tuple[str, ...], dict[str, object]] = {("fifo",): _read(fifo, rule)}
            for seed, run in enumerate(portfolio.split(", ")):
                told["explore", MAIN, str(seed)] = _read(run, rule)
            found[mutant.name] = Measured(mutant, told, commit)
    return found


def _read(cell: str, rule: str) -> dict[str, object]:
    if cell == NOT:
        return {"killed": False, "runs": 0}
    return {"killed": True, "runs": int(cell.replace(",", "")), "rule": rule}
