"""What a campaign found, as lines for a terminal.

Rules
  - A counterexample is: the rule in one sentence, the chart of the small run, which step overtook which, and
    the command that shows it again. Nothing else is needed to understand it.
  - A campaign that found nothing says how much it tried, and how likely it would have found something.
  - Pure functions from data to lines.
"""

from collections.abc import Callable, Iterator

from callboard.replay.testing.chart import WIDTH, chart
from callboard.replay.testing.explore import Counterexample, Explored
from callboard.replay.testing.statistics import Figures, injected

COVERAGE_LINES = 20


def _no_command(text: str) -> str:
    return f"schedule {text}"


def counterexample_lines(
    found: Counterexample, width: int = WIDTH, command: Callable[[str], str] = _no_command
) -> list[str]:
    """Return the lines of one counterexample. command: prints the command for a schedule's text."""
    at = found.violation.at
    where = f"after step {at}" if at else "at the start"
    marked = {step for pair in found.races for step in pair}
    small = "the smallest found" if found.is_minimal else "not shrunk to the end (a smaller one may be there)"
    return [
        f"broken {where}: {found.violation.rule}",
        "",
        *chart(found.steps, width, marked),
        "",
        *_overtakings(found),
        f"{len(found.steps)} steps, {small}; found in run {found.run} by {found.scheduler} "
        f"with {len(found.found.strands)} steps, seed {found.seed}",
        *([f"found in {found.conditions}"] if found.conditions else []),
        command(found.text),
    ]


def _overtakings(found: Counterexample) -> Iterator[str]:
    """Describe which move overtook which, and whether that alone decides."""
    steps = found.steps
    for early, late in found.races:
        first, second = steps[early - 1], steps[late - 1]
        decides = (early, late) in found.decided_by
        yield f"step {early} ({first.label}) came before step {late} ({second.label}){';' * decides}"
        if decides:
            yield "  the other way round the rule is not broken"


def lines(explored: Explored, width: int = WIDTH, command: Callable[[str], str] = _no_command) -> list[str]:
    """Return the lines of a campaign."""
    found: list[str] = []
    for one in explored.counterexamples:
        found += [*counterexample_lines(one, width, command), ""]
    found += [f"never reached: {goal}" for goal in explored.unmet_goals]
    if explored.is_without_end and not explored.counterexamples:
        found.append("no run came to rest, so no rule about the end was looked at")
    return found + figures_lines(explored)


def figures_lines(explored: Explored) -> list[str]:
    """Return the lines that say how much was tried."""
    figures = explored.figures
    rate = f" ({figures.runs / explored.seconds:,.0f}/s)" if explored.seconds > 0 else ""
    every = "all there are within the bounds" if figures.unfinished else "all there are"
    extent = every if explored.is_exhausted else f"seed {explored.seed}"
    found = [
        f"{_count(figures.runs, 'run')}{rate} by {explored.scheduler}, {extent}; "
        f"{figures.steps:,} steps, {figures.longest} at most",
        f"{_count(figures.orders, 'partial order', figures.orders_at_least)}, "
        f"{_count(figures.ends, 'end state', figures.ends_at_least)} "
        f"of {_count(figures.at_rest, 'run')} at rest",
    ]
    if figures.unfinished:
        found.append(_unfinished(figures))
    if figures.coverage:
        found.append(
            f"{_count(len(figures.coverage), 'situation')} (role, state, message) "
            "in the runs looked at closely"
        )
    faults = [f"{name.removeprefix('fault: ')} {n:,}" for name, n in injected(figures.faults).items()]
    if faults:
        found.append("faults: " + ", ".join(faults))
    return found if explored.is_exhausted else [*found, _bound(figures)]


def _unfinished(figures: Figures) -> str:
    """Return the line about runs that a bound ended; each has the most steps that a run may have."""
    were = "run was" if figures.unfinished == 1 else "runs were"
    return (
        f"{figures.unfinished:,} {were} cut after {figures.longest:,} steps and not at rest: "
        "give more (--steps, steps=), or find what does not end"
    )


def _count(number: int, noun: str, is_at_least: bool = False) -> str:
    return f"{'at least ' if is_at_least else ''}{number:,} {noun}{'' if number == 1 else 's'}"


def _bound(figures: Figures) -> str:
    chances = ", ".join(f"d={depth} 1/{1 / bound:,.0f}" for depth, bound in enumerate(figures.bounds, 1))
    return (
        f"a run of pct finds a bug of depth d with p >= {chances} "
        f"(width {figures.widest}, {figures.strands} strands, {figures.longest} steps)"
    )
