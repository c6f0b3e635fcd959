"""Text that comes in pieces, broken at words for a terminal.

A word is written when its end is known, because its first letters alone do not tell if it fits the line.
Wide characters take two columns, and a line may break between any two of them.
A word longer than a line, such as a link, is left to the terminal, so that it can be copied.
"""

import re
import shutil
from typing import Final

from rich.cells import cell_len

_TAB: Final = 8
_RELEASED_CHARS: Final = 40
_JOINED: Final = "\u0300-\u036f\u200d\u20d0-\u20ff\ufe00-\ufe0f\U0001f3fb-\U0001f3ff"
"""Marks, joiners, variants and tones, which belong to the character before."""

_WIDE: Final = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
_EMOJI: Final = "\U0001f300-\U0001faff\U00020000-\U0003fffd"
_CLOSING: Final = (
    "\u3001\u3002\uff0c\uff0e\u30fb\uff1a\uff1b\uff1f\uff01\u300d\u300f\uff09"
    "\uff3d\uff5d\u3009\u300b\u3011\u3015\u30fc\u3005"
)
"""Characters that never begin a line."""

_OPENING: Final = "\u300c\u300e\uff08\uff3b\uff5b\u3008\u300a\u3010\u3014"
"""Characters that never end a line."""

_ONE_WIDE: Final = f"[{_WIDE}{_EMOJI}](?:[{_JOINED}]|(?<=\u200d)[{_WIDE}{_EMOJI}])*"
_PART: Final = rf"\n|[ \t]+|[{_OPENING}]*{_ONE_WIDE}[{_CLOSING}]*|[^\n \t{_WIDE}{_EMOJI}]+[{_CLOSING}]*"


class WordWrap:
    """A stream of text for one terminal: `add` returns the text to write now, `flush` the rest.

    is_line_open: text stands on the last line, or is still to be written there.
    """

    def __init__(self) -> None:
        self._column = 0
        self._space = ""
        self._word = ""
        self._released = ""  # the end of the word that is written in part

    @property
    def is_line_open(self) -> bool:
        """Return whether the last line has no line break yet."""
        return bool(self._column or self._space or self._word)

    def add(self, text: str, width: int) -> str:
        """Return the whole words up to now, with line breaks. width: of the terminal, in columns."""
        # Compiled here, at the first text: it takes 5 ms, for which most commands need not wait.
        *parts, self._word = [*re.findall(_PART, self._word + text), ""]
        if parts and not parts[-1].isspace():
            self._word = parts.pop()
        return "".join(self._placed(part, width) for part in parts) + self._begun(width)

    def release(self, width: int) -> str:
        """Return the beginning of a word whose end has not come for a while; its rest follows it directly."""
        word, self._word = self._word, ""
        begun = (self._released + word if self._goes_on(word) else word)[-_RELEASED_CHARS:]
        written = self._placed(word, width)
        self._released = begun
        return written

    def flush(self, width: int) -> str:
        """Return the last word. The text ends here."""
        written = self.release(width)
        self._released = ""
        return written

    def _begun(self, width: int) -> str:
        """Return the beginning of a word that is too long for any line already, or more of such a word."""
        is_more = bool(self._word and self._released) and self._goes_on(self._word)
        return self.release(width) if is_more or cell_len(self._word) > width else ""

    def _goes_on(self, word: str) -> bool:
        """Return whether this belongs to the word that is written in part."""
        return not word or bool(self._released and re.fullmatch(_PART, self._released + word))

    def _placed(self, part: str, width: int) -> str:
        if part == "\n":
            self._column, self._space, self._released = 0, "", ""
            return part
        if part.isspace():
            self._space, self._released = self._space + part, ""
            return ""
        return self._word_placed(part, width) if part else ""

    def _word_placed(self, word: str, width: int) -> str:
        """Return a word behind its space, or behind a line break."""
        space, self._space = self._space, ""
        begin, taken = self._behind(space), cell_len(word)
        if not self._column and taken <= width < begin + taken:
            space, begin = "", 0  # the word fills the line that it begins
        fits = begin + taken <= width or taken > width or self._goes_on(word) or not self._column
        self._column, self._released = _end(word, begin if fits else 0, width), ""
        return (space if fits else "\n") + word

    def _behind(self, space: str) -> int:
        """Return the column behind spaces and tabs."""
        column = self._column
        for one in space:
            column += 1 if one == " " else _TAB - column % _TAB
        return column


def _end(word: str, column: int, width: int) -> int:
    """Return the column behind a word, which a terminal breaks where a line is full."""
    if column + cell_len(word) <= width:
        return column + cell_len(word)
    for one in word:
        column = column + cell_len(one) if column + cell_len(one) <= width else cell_len(one)
    return column


def wrapped(text: str, width: int) -> str:
    """Break a whole text at words.

    >>> wrapped("Where is the stage?", 8)
    'Where is\\nthe\\nstage?'
    """
    wrap = WordWrap()
    return wrap.add(text, width) + wrap.flush(width)


def terminal_width() -> int:
    """Return the columns of the terminal as it is now, 80 if it does not say."""
    return shutil.get_terminal_size().columns
