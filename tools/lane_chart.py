"""State diagrams as lane charts: a lane for each state, an arrow for each move, its messages beside it.

A graph of nine states and twenty labelled arrows cannot be laid out without crossings. Lanes never cross a
label, and the picture stays legible when a state is added.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from tools.svg import arrow, box, picture, text, width_of

Move = tuple[str, str, str]
"""State before, state after, and the messages that lead there."""

ROW: Final = 26
TOP: Final = 54
WRAPPED_CHARS: Final = 34


def lane_chart(title: str, moves: Iterable[Move], first: str = "") -> str:
    """Draw a state diagram. first: the state in which everything starts, drawn leftmost."""
    rows = list(moves)
    states = lanes(rows, first)
    at = _positions(states)
    right = max(at.values()) + 50
    parts: list[str] = []
    y = TOP + ROW
    for before, after, messages in rows:
        lines = wrapped(messages)
        parts.append(_arrow(at[before], at[after], y))
        parts += [text(right, y + 4 + 15 * n, line, "start", "small") for n, line in enumerate(lines)]
        y += ROW + 15 * (len(lines) - 1)
    rails = [f'<path class="rail" d="M{at[state]} {TOP - 12}V{y - 8}"/>' for state in states]
    heads = [part for state in states for part in _head(state, at[state])]
    longest = max(len(line) for _, _, messages in rows for line in wrapped(messages))
    width = right + 10 + 7 * longest
    return picture(title, width, y, [*rails, *heads, *parts])


def lanes(moves: Sequence[Move], first: str) -> list[str]:
    """List the states in the order in which the moves reach them."""
    found = dict.fromkeys([first] if first else [])
    for before, after, _ in moves:
        found |= dict.fromkeys((before, after))
    return list(found)


def wrapped(messages: str) -> list[str]:
    """Break a list of messages into lines."""
    lines = [""]
    for message in messages.split(", "):
        joined = f"{lines[-1]}, {message}" if lines[-1] else message
        if len(joined) > WRAPPED_CHARS and lines[-1]:
            lines[-1] += ","
            lines.append(message)
        else:
            lines[-1] = joined
    return lines


def _positions(states: Sequence[str]) -> dict[str, int]:
    """Give each lane its x, so that the heads of neighbours do not touch."""
    widths = [width_of(state) + 24 for state in states]
    x = widths[0] // 2 + 4
    found = {states[0]: x}
    for state, (left, right) in zip(states[1:], pairwise(widths), strict=True):
        x += max(70, (left + right) // 2 + 10)
        found[state] = x
    return found


def _head(state: str, x: int) -> list[str]:
    width = width_of(state) + 16
    return [box(x - width / 2, 12, width, 28), text(x, 31, state)]


def _arrow(start: int, end: int, y: int) -> str:
    if start == end:
        return arrow(f"M{start} {y - 7}h18v14h-18")
    # The tip ends beside the lane, or it would hide where it points to.
    inset = 3 if end > start else -3
    return arrow(f"M{start} {y}H{end - inset}")
