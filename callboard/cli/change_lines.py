"""The changes that an event made in a state, as lines and as JSON."""

from collections.abc import Sequence
from typing import Final

import msgspec
from rich.text import Text

from callboard.cli.folding import Folding
from callboard.replay.state_changes import Change

_SHOWN: Final = 40
_VALUE_CHARS: Final = 300


def heading(at: int, actor: str, *, has_changes: bool) -> str:
    """Return a line that names the decision: the event that was decided on, and the actor."""
    if not actor:
        return "no actor decides on this event"
    return f"the decision of {actor} on event {at} changed{':' if has_changes else ' nothing'}"


def change_lines(changes: Sequence[Change], fold: Folding) -> list[Text]:
    """Return three lines for each change: the field, its value before, its value after."""
    head, left, tail = fold.ends(changes, _SHOWN, 0)
    lines = [line for one in (*head, *tail) for line in _lines(one, fold)]
    return [*lines, fold.gap(left, "fields", "  ")] if left else lines


def _lines(one: Change, fold: Folding) -> list[Text]:
    before, after = fold.pair(_json(one.before), _json(one.after), _VALUE_CHARS)
    return [
        Text(f"  {fold.line(one.path, 200)}", style="bold"),
        Text(f"    - {before}", style="red"),
        Text(f"    + {after}", style="green"),
    ]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
