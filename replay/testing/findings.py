"""The findings of a campaign or a run, as lines for a terminal.

A counterexample is: the rule in one sentence, the chart of the small run, which step overtook which, and the
command that shows it again. A campaign that found nothing says how likely it would have.

A chart has a lane for each actor, and a step where its message is handled: an arrow from the lane of the
sender to that of the recipient, a circle for a message that an actor sends itself, an x for a fault. Beside
it stands the message: of a session its words, cut to the column.
Lanes become narrower down to 6; names that do not fit are numbered; beyond that each line names both actors.
"""

from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from unicodedata import east_asian_width

from callboard.replay.testing.explore import Counterexample, Explored
from callboard.replay.testing.statistics import Figures, injected
from callboard.replay.testing.world import Step, Violation

WIDTH = 80
LANE_MIN, LANE_MAX = 6, 14
TEXT_MIN = 24
NUMBER = 5
"""Columns of the step's number and mark."""


_BEFORE = "Nothing had happened yet: the rule is wrong, or your code keeps state (setup= resets it)."


def no_command(text: str) -> str:
    """Return the text of a schedule, where no command repeats it."""
    return f"schedule {text}"


def counterexample_lines(
    found: Counterexample, width: int = WIDTH, command: Callable[[str], str] = no_command
) -> list[str]:
    """Return the lines of one counterexample. command: prints the command for a schedule's text."""
    marked = set[int]().union(*found.races)
    small = "the smallest found" if found.is_minimal else "not shrunk to the end (a smaller one may be there)"
    return [
        broken_line(found.violation),
        *([] if found.violation.at else [_BEFORE]),
        "",
        *chart(found.steps, width, marked, found.unneeded),
        "",
        *_overtakings(found),
        *_left_out(found.unneeded),
        f"{len(found.steps)} steps, {small}; found in run {found.run} by {found.scheduler} "
        f"with {len(found.found.strands)} steps, seed {found.seed}",
        *([f"found in {found.conditions}"] if found.conditions else []),
        command(found.text),
    ]


def broken_line(violation: Violation) -> str:
    """Return the line that says which rule is broken, and where."""
    where = f"after step {violation.at}" if violation.at else "before the first step"
    return f"broken {where}: {violation.rule}" + f" ({violation.place})" * bool(violation.place)


def _overtakings(found: Counterexample) -> Iterator[str]:
    """Describe which move overtook which, and whether that alone decides."""
    steps = found.steps
    for early, late in found.races:
        first, second = steps[early - 1], steps[late - 1]
        decides = (early, late) in found.decided_by
        yield f"step {early} ({first.label}) came before step {late} ({second.label}){';' * decides}"
        if decides:
            yield "  the other way round the rule is not broken"


def _left_out(unneeded: Sequence[int]) -> list[str]:
    if not unneeded:
        return []
    steps = ", ".join(map(str, unneeded))
    noun, verb = ("steps", "they do") if len(unneeded) > 1 else ("step", "it does")
    return [f"{noun} {steps}: not shown; the rule is broken without what {verb}"]


def lines(
    explored: Explored,
    width: int = WIDTH,
    command: Callable[[str], str] = no_command,
    details: Callable[[str, str], list[str]] = lambda schedule, rule: [],
) -> list[str]:
    """Return the lines of a campaign. details: of a schedule, by the rule that it breaks."""
    found = [*_unstable_lines(explored, command)]
    for one in explored.counterexamples:
        found += [*counterexample_lines(one, width, command), ""]
    found += [f"never reached: {goal}" for goal in explored.unmet_goals]
    if explored.is_without_end and not explored.counterexamples:
        found.append("no run came to rest, so no rule about the end was looked at")
    told = [line for one in explored.counterexamples for line in details(one.text, one.violation.rule)]
    return [*found, *figures_lines(explored), *(["in detail:", *told] if told else [])]


def _unstable_lines(explored: Explored, command: Callable[[str], str]) -> Iterator[str]:
    """Yield the lines about a run that was not the same when it was made again."""
    unstable = explored.unstable
    if unstable is None:
        return
    yield f"your code keeps state between runs: run {unstable.run}, made again, is another run"
    yield f"  {unstable.difference}"
    yield "Look for a list, a counter or a file that a policy, tool, fake or rule changes, and reset it in"
    yield "setup=, which is called before each run; or for a clock or randomness. Until then no other result"
    yield "of this campaign is reliable."
    yield command(unstable.schedule.text(explored.scenario))
    yield ""


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


# --- charts -----------------------------------------------------------------------------


def chart(
    steps: Sequence[Step],
    width: int = WIDTH,
    marked: Collection[int] = (),
    left_out: Collection[int] = (),
) -> list[str]:
    """Draw the lines of the chart. marked: steps to point at. left_out: steps that it does not show."""
    steps = [step for step in steps if step.seq not in left_out]
    if not steps:
        return ["(no step was made)"]
    names = list(dict.fromkeys(name for step in steps for name in (step.sender, step.recipient)))
    room = (width - NUMBER - TEXT_MIN) // len(names)
    lane = min(room, max(LANE_MIN, min(LANE_MAX, max(map(len, names)) + 3)))
    if lane < LANE_MIN:
        return [_cut(_plain(step, marked), width) for step in steps]
    titles = [name if len(name) < lane else f"({number})" for number, name in enumerate(names, 1)]
    legend = [f"{title} {name}" for title, name in zip(titles, names, strict=True) if title != name]
    text = width - NUMBER - lane * len(names) - 1
    lines = [" " * NUMBER + "".join(title.center(lane) for title in titles).rstrip()]
    lines += [_line(step, names, lane, text, marked) for step in steps]
    return lines + legend


def _head(step: Step, marked: Collection[int]) -> str:
    return f"{step.seq:>{NUMBER - 2}}{'*' if step.seq in marked else ' '} "


def _plain(step: Step, marked: Collection[int]) -> str:
    return f"{_head(step, marked)}{step.sender} > {step.recipient}: {step.about or step.label}"


def _line(step: Step, names: Sequence[str], lane: int, text: int, marked: Collection[int]) -> str:
    cells = list((" " * (lane // 2) + "|" + " " * (lane - lane // 2 - 1)) * len(names))
    start = names.index(step.sender) * lane + lane // 2
    end = names.index(step.recipient) * lane + lane // 2
    if start == end:
        cells[end] = "o"
    else:
        toward = 1 if end > start else -1
        cells[start + toward : end : toward] = "-" * (abs(end - start) - 1)
        cells[end - toward] = ">" if toward == 1 else "<"
    if step.kind == "fault":
        cells[end] = "x"
    return f"{_head(step, marked)}{''.join(cells)} {_text(step, text)}".rstrip()


def _text(step: Step, columns: int) -> str:
    """Return the caption, or the label without the words that the arrow repeats, cut to size."""
    label = step.label.removeprefix(f"{step.recipient} ").removeprefix("handles ")
    return _cut(step.about or label.removesuffix(f" from {step.sender}"), columns)


def _cut(text: str, columns: int) -> str:
    """Cut a text to so many columns of a terminal."""
    ends = list(accumulate(2 if east_asian_width(one) in "WF" else 1 for one in text))
    if not ends or ends[-1] <= columns:
        return text
    return text[: bisect(ends, columns - 1)] + "…"
