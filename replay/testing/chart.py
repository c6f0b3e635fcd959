"""A run as a message-sequence chart in plain text: a lane for each actor, a line for each step.

Rules
  - A step is drawn where its message is handled: an arrow from the lane of the sender to that of the
    recipient, a circle for a message that an actor sends itself, an x at the head for a fault. The text names
    the message or fault.
  - 80 columns where possible: lanes become narrower down to 6, names that do not fit are numbered and listed
    below. Beyond that there are no lanes, and each line names sender and recipient.
  - Pure functions from steps to lines.
"""

from collections.abc import Collection, Sequence

from callboard.replay.testing.world import Step

WIDTH = 80
LANE_MIN, LANE_MAX = 6, 14
TEXT_MIN = 24
NUMBER = 5
"""Columns of the step's number and mark."""


def chart(steps: Sequence[Step], width: int = WIDTH, marked: Collection[int] = ()) -> list[str]:
    """Draw the lines of the chart. marked: steps to point at."""
    if not steps:
        return ["(no step was made)"]
    names = list(dict.fromkeys(name for step in steps for name in (step.sender, step.recipient)))
    room = (width - NUMBER - TEXT_MIN) // len(names)
    lane = min(room, max(LANE_MIN, min(LANE_MAX, max(map(len, names)) + 3)))
    if lane < LANE_MIN:
        return [_plain(step, marked) for step in steps]
    titles, legend = _titles(names, lane)
    text = width - NUMBER - lane * len(names) - 1
    lines = [" " * NUMBER + "".join(title.center(lane) for title in titles).rstrip()]
    lines += [_line(step, names, lane, text, marked) for step in steps]
    return lines + legend


def _titles(names: Sequence[str], lane: int) -> tuple[list[str], list[str]]:
    """Return the titles of the lanes, and the lines below the chart that explain them."""
    titles, legend = [], []
    for number, name in enumerate(names, 1):
        if len(name) < lane:
            titles.append(name)
        else:
            titles.append(f"({number})")
            legend.append(f"({number}) {name}")
    return titles, legend


def _head(step: Step, marked: Collection[int]) -> str:
    return f"{step.seq:>{NUMBER - 2}}{'*' if step.seq in marked else ' '} "


def _plain(step: Step, marked: Collection[int]) -> str:
    return f"{_head(step, marked)}{step.sender} > {step.recipient}: {step.label}"


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
    return f"{_head(step, marked)}{''.join(cells)} {_short(_text(step), text)}".rstrip()


def _text(step: Step) -> str:
    """Return the label without the words that the arrow repeats."""
    return (
        step.label.removeprefix(f"{step.recipient} ")
        .removeprefix("handles ")
        .removesuffix(f" from {step.sender}")
    )


def _short(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 1] + "…"
