"""Long output: folded by default, whole with `--full`. The command says on stderr how much it folded."""

from collections.abc import Sequence
from typing import Final, TypeVar

from rich.text import Text

from callboard.actors.protocol.events import Event
from callboard.cli.output import talk
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import counted
from callboard.replay.steps import essential

T = TypeVar("T")
FIRST_MESSAGES: Final = 2
LAST_MESSAGES: Final = 8
"""Messages at each end of a long conversation."""

BLOCK_LINES: Final = 20
BLOCK_CHARS: Final = 2_000
_SLACK: Final = 80  # a text that is longer by less than the line that says so is shown
_BEFORE_CHARS = 40  # of two texts, before the place where they differ


class Folding:
    """Cuts texts and lists, and counts how many. is_full: cuts nothing. whole: what shows all of it."""

    def __init__(self, *, is_full: bool, whole: str = "--full") -> None:
        self.is_full = is_full
        self._whole = whole
        self._texts = 0
        self._lines = 0

    def line(self, text: str, longest: int) -> str:
        """Return a text as one safe line of at most so many characters."""
        whole = safe_line(text)
        if self.is_full or len(whole) <= longest:
            return whole
        self._texts += 1
        return whole[: longest - 1] + "…"

    def pair(self, one: str, other: str, longest: int) -> tuple[str, str]:
        """Return two texts as safe lines of at most so many characters, from before where they differ."""
        one, other = safe_line(one), safe_line(other)
        ends = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
        same = next(ends, min(len(one), len(other)))
        start = same - _BEFORE_CHARS if same > longest // 2 and not self.is_full else 0
        cut = "…" if start else ""
        self._texts += bool(start)
        return self.line(cut + one[start:], longest), self.line(cut + other[start:], longest)

    def block(self, text: str) -> str:
        """Return the first lines of a text, and how much is left out."""
        kept = "\n".join(text[: BLOCK_CHARS + _SLACK].split("\n")[:BLOCK_LINES])
        left = len(text) - min(len(kept), BLOCK_CHARS)
        if self.is_full or left <= _SLACK:
            return text
        self._texts += 1
        return f"{kept[:BLOCK_CHARS]}\n… {left:,} more characters"

    def ends(self, items: Sequence[T], first: int, last: int) -> tuple[Sequence[T], int, Sequence[T]]:
        """Return the first and the last items, and between them the number of those left out."""
        left = len(items) - first - last
        if self.is_full or left <= 1:  # the line that says so would take as much room
            return items, 0, ()
        self._lines += left
        return items[:first], left, items[len(items) - last :]

    def essential(self, events: Sequence[Event], most: int) -> list[Event | int]:
        """Return the events to show, and between them the numbers of those left out. See `essential`."""
        shown = events if self.is_full else essential(events, most)
        found: list[Event | int] = []
        place = 0
        for event in shown:
            begun = place
            while events[place] is not event:
                place += 1
            left = place - begun
            found += [left] * (left > 1) + list(events[begun:place]) * (left == 1) + [event]
            self._lines += left if left > 1 else 0
            place += 1
        return found

    def lines(self, lines: Sequence[Text], first: int, last: int = 0) -> list[Text]:
        """Return the first and the last lines, and between them a line that says how many are left out."""
        head, left, tail = self.ends(lines, first, last)
        middle = [self.gap(left, "lines", "       ")] if left else []
        return [*head, *middle, *tail]

    def gap(self, left: int, what: str, indent: str = "") -> Text:
        """Return a line that says how many items are left out."""
        return Text(f"{indent}… {left:,} more {what}; {self._whole} shows them", style="dim")

    def note(self, texts: int) -> None:
        """Count texts that were cut elsewhere."""
        self._texts += texts

    def say(self) -> None:
        """Say on stderr how much was folded; nothing if all was shown."""
        counts = ((self._texts, "long text"), (self._lines, "line"))
        found = [counted(count, noun) for count, noun in counts if count]
        if found:
            talk(f"folded: {', '.join(found)}; {self._whole} shows all of it")
