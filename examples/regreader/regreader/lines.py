"""Markdown and plain text: lines and page marks of a file, and the blocks of a page."""

import re
from collections.abc import Sequence

from rich.cells import cell_len as width

from regreader.blocks import Block, Break, Item, Para
from regreader.grids import grid_at, starts
from regreader.html_reader import read_html
from regreader.numbering import caption_of, heading_of, is_run_in, notes_of
from regreader.words import half_width, joined, plain

_HTML = re.compile(r"<(?:!--|/?(?:p|div|center|hr|h[1-6]|section|table|[uod]l|li)\b|(?:span|a|br)\b[^>]*(?:page|id=|break))", re.IGNORECASE)  # fmt: skip
_BOLD = re.compile(r"(?:\*\*|__)(.+?)(?:\*\*|__)[.:。：]?\s+([^\s*_].*)")
_CAPTION_LINES = 4  # fewer lines can be a caption
_LISTED = re.compile(r"[(（]?(?:\d{1,2}|[a-z]|[ivx]+|[一二三四五六七八九十]+)(?:[)）、]|\.(?!\d))\s*\S|[①-⑳]|[a-h]\s+[^\s\x00-\x7f]")  # fmt: skip


def lines_of(text: str) -> list[Item]:
    """Return the lines of a text; page marks and lines of HTML as blocks."""
    found: list[Item] = []
    lines = iter(text.replace("\f", "\n\f\n").split("\n"))
    for line in lines:
        bare = line.strip()
        if line == "\f" or re.fullmatch(r"(?i)\\(?:newpage|pagebreak)|\{\{?pagebreak\}?\}", bare):
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
            found.append("" if bare.startswith("```") else line.rstrip())
    return found


class TextReader:
    """Reads the lines of a file as blocks. items: of the whole file; they tell the width of its lines."""

    def __init__(self, items: Sequence[Item], is_markdown: bool) -> None:
        widths = sorted(width(one) for one in items if isinstance(one, str) and one)
        self._full = widths[len(widths) * 9 // 10] if widths else 80
        self._is_markdown = is_markdown
        self._signs: list[str] = []  # that underline headings, by their levels
        self._lines: list[str] = []
        self._held: list[str] = []  # lines of the open paragraph
        self._blocks: list[Block] = []

    def blocks_of(self, items: Sequence[Item]) -> list[Block]:
        """Return the blocks of a page."""
        self._lines, self._blocks = [one if isinstance(one, str) else "" for one in items], []
        at = 0
        while at < len(items):
            at += self._taken(at, items[at])
        self._end_paragraph()
        return self._blocks

    def _taken(self, at: int, item: Item) -> int:
        """Take a block, or the lines that begin here. Return how many they are."""
        if not isinstance(item, str) or not item.strip("> "):
            self._end_paragraph([] if isinstance(item, str) else [item])
            return 1
        marked, count = self._marked(at, item.strip())
        if not count:
            grid, count = grid_at(self._lines, at, self._is_below_caption())
            marked = [grid] if grid else []
        count = max(count, 1)
        if marked or (self._is_markdown and re.fullmatch(r"(?:[-*_]\s*){3,}", item.strip())):
            self._end_paragraph(marked)
        else:
            for line in self._lines[at : at + count]:
                if line.startswith("\u3000\u3000") and self._held and notes_of(self._held[0]) is None:
                    self._end_paragraph()  # Chinese paragraphs begin so
                self._text(line.strip())
        return count

    def _marked(self, at: int, line: str) -> tuple[list[Block], int]:
        """Return the heading or footnote that signs mark, and the number of its lines: 0 for other text."""
        if self._is_markdown and (found := re.fullmatch(r"(#{1,6})\s+(.*?)\s*#*", line)):
            return [Para(plain(found[2]), len(found[1]))], 1
        if self._is_markdown and (found := re.fullmatch(r"\[\^([^\]]+)\]:\s*(.*)", line)):
            return [Para(plain(found[2]), anchor=found[1])], 1
        is_held = bool(self._held) and not self._ended_early()
        level = 0 if is_held else self._level_by("".join(self._lines[at + 1 : at + 2]).strip(), line)
        return (
            ([Para(plain(line) if self._is_markdown else half_width(line), level)], 2) if level else ([], 0)
        )

    def _level_by(self, below: str, line: str) -> int:
        """Return the level of a heading that stands over a line of one sign; 0 for another line."""
        if len(below) < 3 or len(set(below)) > 1 or below[0] not in "=-*~^" or line[0] in "|+":
            return 0
        is_as_wide = 0.7 <= len(below) / width(line) <= 1.3 or heading_of(line, 0)
        if not is_as_wide or len(starts(line)) > 1:
            return 0
        self._signs += [below[0]] if below[0] not in self._signs else []
        return 1 + self._signs.index(below[0])

    def _is_below_caption(self) -> bool:
        if self._held:
            return len(self._held) < _CAPTION_LINES and caption_of(joined(self._held)) is not None
        if self._blocks and not isinstance(self._blocks[-1], Para):
            return False
        named = [caption_of(one.text) if isinstance(one, Para) else None for one in self._blocks[-2:]]
        return not named or named[-1] is not None or (named[0] is not None and not named[0].title)

    def _text(self, line: str) -> None:
        """Take a line of a paragraph; headings, captions and notes begin one of their own."""
        bold = _BOLD.fullmatch(line) if self._is_markdown else None
        if bold and is_run_in(bold[1]):
            self._end_paragraph([Para(half_width(bold[1]).rstrip(" .:。："))])
            line = bold[2]
        text = half_width(plain(line) if self._is_markdown else line)
        is_item = line.startswith(("- ", "> ")) and self._is_markdown
        heading, before = heading_of(text, 0), self._held[-1][-1:] if self._held else "."
        is_wrapped = (
            heading and before not in ".。;；:：" and re.match("[a-z的和及或、，]", heading.title)
        )  # "of\n5.3 and 5.4"
        is_named = (heading and not is_wrapped) or caption_of(text) is not None
        if is_item or is_named or notes_of(text) is not None or _LISTED.match(text) or self._ended_early():
            self._end_paragraph()
        if len(self._held) == 1 and re.fullmatch(r"(?:[A-Z]\.)?\d+(?:\.\d+)+", self._held[0]):
            text = f"{self._held.pop()} {text}"  # the title of a term stands below its number
        self._held.append(re.sub(r"^(?:[->]\s)+", "", text) if is_item else text)

    def _ended_early(self) -> bool:
        """Return True if the held line is a heading or caption that does not go on in the next line."""
        if len(self._held) != 1:
            return False
        heading, is_short = heading_of(self._held[0], 0), width(self._held[0]) < self._full * 0.75
        is_heading = heading is not None and not heading.goes_on
        return (is_heading and is_short) or caption_of(self._held[0]) is not None

    def _end_paragraph(self, following: Sequence[Block] = ()) -> None:
        self._blocks += [Para(joined(self._held))] if self._held else []
        self._blocks += following
        self._held = []
