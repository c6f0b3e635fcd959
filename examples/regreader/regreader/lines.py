"""Markdown and plain text: lines and page marks of a file, and the blocks of a page."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len as width

from regreader.blocks import Block, Break, Item, Para
from regreader.grids import grid_at, starts
from regreader.html_reader import read_html
from regreader.numbering import caption_of, heading_of, notes_of
from regreader.words import half_width, joined, plain

_HASH: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*")
_FOOTNOTE: Final = re.compile(r"\[\^([^\]]+)\]:\s*(.*)")
_HR: Final = re.compile(r"(?:[-*_]\s*){3,}")
_BREAK_WORD: Final = re.compile(r"\\(?:newpage|pagebreak)|\{\{?pagebreak\}?\}", re.IGNORECASE)
_HTML: Final = re.compile(
    r"<(?:!--|/?(?:p|div|center|hr|h[1-6]|section|table|[uod]l|li)\b|(?:span|a|br)\b[^>]*(?:page|id=|break))",
    re.IGNORECASE,
)
_CAPTION_LINES: Final = 4  # fewer lines can be a caption
_LISTED: Final = re.compile(r"[(（]?(?:\d{1,2}|[a-z]|[ivx]+|[一二三四五六七八九十]+)[)）.、]\s*\S|[①-⑳]")


def lines_of(text: str) -> list[Item]:
    """Return the lines of a text; page marks and lines of HTML as blocks."""
    found: list[Item] = []
    lines = iter(text.replace("\f", "\n\f\n").split("\n"))
    for line in lines:
        bare = line.strip()
        if line == "\f" or _BREAK_WORD.fullmatch(bare):
            found.append(Break())
        elif _HTML.match(bare):
            part = [bare]
            while bare[:6].lower() == "<table" and "</table>" not in part[-1].lower():
                part.append(next(lines, "</table>"))
            marks = read_html("\n".join(part))
            while marks and isinstance(marks[0], Break) and found and found[-1] in ("", Break()):
                found.pop()  # a form feed and the page mark below it are one break
            found += marks
        else:
            found.append(line.rstrip())
    return found


@dataclass
class Style:
    """How a file is written. full: the width of a line that goes on in the next one."""

    is_markdown: bool
    full: int
    signs: list[str] = field(default_factory=list)  # that underline headings, by their levels


def style_of(items: Sequence[Item], is_markdown: bool) -> Style:
    """Return the style of a file."""
    widths = sorted(width(one) for one in items if isinstance(one, str) and one)
    return Style(is_markdown, widths[len(widths) * 9 // 10] if widths else 80)


def blocks_of(items: Sequence[Item], style: Style) -> list[Block]:
    """Return the blocks of a page, whose lines are read."""
    found: list[Block] = []
    for is_text, run in itertools.groupby(items, lambda one: isinstance(one, str)):
        if is_text:
            _Lines([one for one in run if isinstance(one, str)], style, found).read()
        else:
            found += [one for one in run if not isinstance(one, str)]
    return found


class _Lines:
    """The lines of a run of text. blocks: those before it on its page, to which its own are added."""

    def __init__(self, lines: list[str], style: Style, blocks: list[Block]) -> None:
        self.lines, self.style, self.blocks = lines, style, blocks
        self.at = 0
        self.held: list[str] = []  # lines of the open paragraph

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if not line:
                self._end_paragraph()
                self.at += 1
            elif not (self._heading(line) or self._table()):
                self._text(line)
                self.at += 1
        self._end_paragraph()

    def _heading(self, line: str) -> bool:
        block: Para | None = None
        if self.style.is_markdown and (found := _HASH.fullmatch(line)):
            block = Para(plain(found[2]), len(found[1]))
        elif self.style.is_markdown and (found := _FOOTNOTE.fullmatch(line)):
            block = Para(plain(found[2]), anchor=found[1])
        elif not self.held and (level := self._underlined(line)):
            block = Para(plain(line) if self.style.is_markdown else line, level)
            self.at += 1
        elif not (self.style.is_markdown and _HR.fullmatch(line)):
            return False
        self._end_paragraph()
        self.blocks += [block] if block else []
        self.at += 1
        return True

    def _underlined(self, line: str) -> int:
        """Return the level of a heading that stands over a line of one sign; 0 for another line."""
        below = self.lines[self.at + 1].strip() if self.at + 1 < len(self.lines) else ""
        if len(below) < 3 or len(set(below)) > 1 or below[0] not in "=-*~^" or line[0] in "|+":
            return 0
        if not 0.7 <= len(below) / width(line) <= 1.3 or len(starts(line)) > 1:
            return 0
        signs = self.style.signs
        if below[0] not in signs:
            signs.append(below[0])
        return 1 + signs.index(below[0])

    def _table(self) -> bool:
        grid, count = grid_at(self.lines, self.at, self._is_below_caption())
        if grid:
            self._end_paragraph()
            self.blocks.append(grid)
        else:
            for line in self.lines[self.at : self.at + count]:
                self._text(line.strip())
        self.at += count
        return count > 0

    def _is_below_caption(self) -> bool:
        if self.held:
            return len(self.held) < _CAPTION_LINES and caption_of(joined(self.held)) is not None
        last = self.blocks[-1] if self.blocks else None
        return last is None or (isinstance(last, Para) and caption_of(last.text) is not None)

    def _text(self, line: str) -> None:
        """Take a line of a paragraph; headings, captions and notes begin one of their own."""
        text = half_width(plain(line) if self.style.is_markdown else line)
        is_item = line.startswith(("- ", "> ")) and self.style.is_markdown
        if self.held and (is_item or _begins(text) or self._ended_early()):
            self._end_paragraph()
        self.held.append(re.sub(r"^(?:[->]\s)+", "", text) if is_item else text)

    def _ended_early(self) -> bool:
        """Return True if the held line is a heading or caption that does not go on in the next line."""
        if len(self.held) > 1:
            return False
        heading = heading_of(self.held[0], 0)
        is_short = width(self.held[0]) < self.style.full * 0.75
        return caption_of(self.held[0]) is not None or (
            heading is not None and not heading.is_clause and is_short
        )

    def _end_paragraph(self) -> None:
        if self.held:
            self.blocks.append(Para(joined(self.held)))
            self.held = []


def _begins(text: str) -> bool:
    is_named = heading_of(text, 0) is not None or caption_of(text) is not None
    return is_named or notes_of(text) is not None or _LISTED.match(text) is not None
