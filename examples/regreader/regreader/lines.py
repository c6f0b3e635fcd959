"""Markdown and plain text as blocks: paragraphs, headings, page marks, and tables in four forms."""

import itertools
import re
import unicodedata
from collections.abc import Callable
from typing import Final

from regreader.blocks import Block, Break, Grid, Para
from regreader.html_reader import read_html
from regreader.numbering import caption_of, heading_of, notes_of
from regreader.pages import PAGE_COMMENT
from regreader.words import half_width, has_han

_BOX: Final = str.maketrans("┌┬┐├┼┤└┴┘╔╦╗╠╬╣╚╩╝─═━│║┃┏┳┓┣╋┫┗┻┛", "+" * 18 + "-" * 3 + "|" * 3 + "+" * 9)
_HASH: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*")
_FOOTNOTE: Final = re.compile(r"\[\^([^\]]+)\]:\s*(.*)")
_PIPE_RULE: Final = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?|\|\s*:?-+:?\s*\||:?-{2,}:?")
_GRID_RULE: Final = re.compile(r"\+[-=+]+\+")
_RULE: Final = re.compile(r"[-=─—━_]{2,}(?:\s+[-=─—━_]{2,})*")
_HR: Final = re.compile(r"(?:[-*_]\s*){3,}")
_BREAK_WORD: Final = re.compile(
    r"\\(?:newpage|pagebreak)|\{\{?pagebreak\}?\}|<!--\s*page-?break\s*-->", re.IGNORECASE
)
_EMPHASIS: Final = re.compile(r"(?<![\w*])(\*\*|__)(?=\S)(.+?)(?<=\S)\1(?![\w*])")


def read_lines(text: str, is_markdown: bool) -> list[Block]:
    """Read a text whose page marks are lines of pages.py."""
    return _Lines(text, is_markdown).read()


class _Lines:
    def __init__(self, text: str, is_markdown: bool) -> None:
        self.lines = [line.rstrip() for line in text.split("\n")]
        self.is_markdown = is_markdown
        self.at = 0
        self.blocks: list[Block] = []
        self.held: list[str] = []
        self.signs: list[str] = []  # that underline headings, by their levels
        widths = sorted(_width(line) for line in self.lines if line.strip())
        self.full = widths[len(widths) * 9 // 10] if widths else 80  # of a line that goes on in the next one

    def read(self) -> list[Block]:
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if not line:
                self._end_paragraph()
                self.at += 1
            elif not (self._mark(line) or self._heading(line) or self._table()):
                self._text(line)
                self.at += 1
        self._end_paragraph()
        return self.blocks

    # --- kinds of lines -----------------------------------------------------------------

    def _mark(self, line: str) -> bool:
        if line[0] == "\x00":  # a page mark, see pages.py
            self._end_paragraph()
            number = line[2:]
            self.blocks.append(Break(int(number) if number else None, line[1] == "t"))
        elif comment := PAGE_COMMENT.fullmatch(line):
            self._end_paragraph()
            self.blocks.append(Break(int(comment[1])))
        elif _BREAK_WORD.fullmatch(line):
            self._end_paragraph()
            self.blocks.append(Break(None))
        elif line.startswith("<!--") and line.endswith("-->"):
            self._end_paragraph()
        else:
            return False
        self.at += 1
        return True

    def _heading(self, line: str) -> bool:
        found = _HASH.fullmatch(line) if self.is_markdown else None
        if found is None and self.is_markdown and (note := _FOOTNOTE.fullmatch(line)):
            self._end_paragraph()
            self.blocks.append(Para(_plain(note[2]), anchor=note[1]))
        elif found:
            self._end_paragraph()
            self.blocks.append(Para(_plain(found[2]), len(found[1])))
        elif not self.held and (level := self._underlined(line)):
            self.blocks.append(Para(_plain(line) if self.is_markdown else line, level))
            self.at += 1
        elif self.is_markdown and _HR.fullmatch(line):
            self._end_paragraph()
        elif self.is_markdown and re.match(
            r"<(?:p|div|span|a|hr|section|br)\b[^>]*(?:page|id=|break)", line, re.IGNORECASE
        ):
            self._end_paragraph()
            self.blocks += read_html(line)
        else:
            return False
        self.at += 1
        return True

    def _underlined(self, line: str) -> int:
        """Return the level of a heading that stands over a line of one sign; 0 for another line."""
        below = self._peek(1)
        is_rule = len(below) > 2 and len(set(below)) == 1 and below[0] in "=-*~^" and line[0] not in "|+\x00"
        if not is_rule or not 0.7 <= len(below) / _width(line) <= 1.3 or len(_starts(line)) > 1:
            return 0
        if below[0] not in self.signs:
            self.signs.append(below[0])
        return 1 + self.signs.index(below[0])

    def _text(self, line: str) -> None:
        """Take a line of a paragraph; headings, captions and notes begin one of their own."""
        text = half_width(_plain(line) if self.is_markdown else line)
        is_item = line.startswith(("- ", "> ")) and self.is_markdown
        if (self.held and (is_item or _begins(text))) or (self.held and self._ended_early()):
            self._end_paragraph()
        self.held.append(re.sub(r"^(?:[->]\s)+", "", text) if is_item else text)

    def _ended_early(self) -> bool:
        """Return True if the held line is a heading or caption that does not go on in the next line."""
        if len(self.held) > 1:
            return False
        first = self.held[0]
        if caption_of(first):
            return True
        heading = heading_of(first, 0)
        return heading is not None and not heading.is_clause and _width(first) < self.full * 0.75

    def _end_paragraph(self) -> None:
        if self.held:
            self.blocks.append(Para(_joined(self.held)))
            self.held = []

    # --- tables -------------------------------------------------------------------------

    def _table(self) -> bool:
        line = self.lines[self.at].strip()
        if line.lower().startswith("<table"):
            return self._html_table()
        boxed = line.translate(_BOX)
        if _GRID_RULE.fullmatch(boxed):
            return self._take(self._run(lambda one: one.translate(_BOX)[:1] in ("+", "|")), _grid)
        if line.startswith("|") or (self._peek(1) and _PIPE_RULE.fullmatch(self._peek(1)) and "|" in line):
            run = self._run(lambda one: "|" in one)
            return self._take(run, _pipes)
        if "\t" in line:
            run = self._run(lambda one: "\t" in one)
            return len(run) > 1 and self._take(
                run, lambda rows: Grid([_cells(row.split("\t")) for row in rows])
            )
        return self._aligned()

    def _peek(self, ahead: int) -> str:
        return self.lines[self.at + ahead].strip() if self.at + ahead < len(self.lines) else ""

    def _run(self, belongs: Callable[[str], bool]) -> list[str]:
        end = self.at
        while end < len(self.lines) and self.lines[end].strip() and belongs(self.lines[end].strip()):
            end += 1
        return self.lines[self.at : end]

    def _take(self, run: list[str], build: Callable[[list[str]], Grid | None]) -> bool:
        grid = build(run)
        if grid is None:
            return False
        self._end_paragraph()
        self.blocks.append(grid)
        self.at += len(run)
        return True

    def _html_table(self) -> bool:
        self._end_paragraph()
        end = self.at
        while end < len(self.lines) and "</table>" not in self.lines[end].lower():
            end += 1
        self.blocks += read_html("\n".join(self.lines[self.at : end + 1]))
        self.at = end + 1
        return True

    def _aligned(self) -> bool:
        """Read columns that are set apart by blanks, with a rule of dashes, or below a caption."""
        run = self._run(lambda one: not one.startswith("\x00") and not caption_of(one))
        while run and notes_of(run[-1].strip(), lambda label: run[-1].strip()[0] in "([（") is not None:
            run.pop()
        rules = [place for place, line in enumerate(run) if _RULE.fullmatch(line.strip())]
        if run and not rules and not self._is_below_caption():
            return False
        rows = [line for place, line in enumerate(run) if place not in rules]
        if (
            len(rows) < 2
            or len(_starts(rows[0])) < 2
            or sum(len(_starts(row)) > 1 for row in rows) < 0.6 * len(rows)
        ):
            return False
        ruled = next((run[place] for place in rules if len(run[place].split()) > 1), rows[0])
        after = [place for place in rules if place > 0]
        header = len([line for line in run[: after[0]] if line in rows]) if after else 1
        return self._take(run, lambda given: Grid(_columns(rows, ruled), min(max(header, 1), 3)))

    def _is_below_caption(self) -> bool:
        if self.held:
            return caption_of(_joined(self.held)) is not None
        last = [one for one in self.blocks[-2:] if isinstance(one, Para | Break)]
        return bool(last) and (isinstance(last[-1], Break) or caption_of(last[-1].text) is not None)


def _begins(text: str) -> bool:
    return (
        heading_of(text, 0) is not None
        or caption_of(text) is not None
        or notes_of(text) is not None
        or re.match(r"[(（]?(?:\d{1,2}|[a-z]|[ivx]+|[一二三四五六七八九十]+)[)）.、]\s*\S|[①-⑳]", text)
        is not None
    )


def _joined(lines: list[str]) -> str:
    text = lines[0]
    for line in lines[1:]:
        text += line if has_han(text[-1:]) or text[-1:] in "，。；：、）" or has_han(line[:1]) else f" {line}"
    return text


def _plain(text: str) -> str:
    text = _EMPHASIS.sub(r"\2", text)
    text = re.sub(r"\[([^\]^]+)\]\((?!#fn)[^)\s]*\)", r"\1", text)
    text = re.sub(r"<sup>(.*?)</sup>|\^([^\s^]{1,3})\^(?!\^)", "\ue000\\1\\2\ue001", text)
    return re.sub(r"</?(?:b|i|em|strong|u|span|br)\b[^>]*>|\\(?=[*_#|\\\[\]])", "", text)


def _cells(cells: list[str]) -> list[str]:
    return [_plain(re.sub(r"<br\s*/?>", " ", cell.replace("\\|", "|"))).strip() for cell in cells]


def _pipes(run: list[str]) -> Grid | None:
    """Read a table of Markdown. A cell `^^` repeats the one above, `||` the one to its left."""
    rows: list[list[str]] = []
    header = 0
    for line in run:
        if _PIPE_RULE.fullmatch(line.strip()):
            header = header or len(rows)
            continue
        rows.append(_cells(re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))))
    if len(rows) < 2 and not header:
        return None
    width = max(map(len, rows))
    return Grid([row + [""] * (width - len(row)) for row in rows], header)


def _grid(run: list[str]) -> Grid | None:
    """Read a table of `+---+`; a rule that leaves out a column lets its cell go on below."""
    lines = [line.strip().translate(_BOX) for line in run]
    ruled = [line for line in lines if _GRID_RULE.fullmatch(line)]
    cuts = sorted({_width(line[:at]) for line in ruled for at, char in enumerate(line) if char == "+"})
    columns = list(itertools.pairwise(cuts))
    rows: list[list[str]] = []
    open_row: list[str] | None = None
    header = 0
    for line in lines[1:]:
        if line.startswith("+") or "-+" in line or "+-" in line:
            if open_row is not None:
                rows.append(open_row)
            if "=" in line:
                header = len(rows)
            going_on = [
                not set(_cut(line, start + 1, end)) <= {"-", "="} and bool(rows) for start, end in columns
            ]
            open_row = [rows[-1][at] if going_on[at] else "" for at in range(len(columns))] if rows else None
            if open_row is not None and all(going_on):
                open_row = rows.pop()
            continue
        open_row = open_row or [""] * len(columns)
        for at, cell in enumerate(_cells_between(line, columns)):
            if cell and cell not in open_row[at]:
                open_row[at] = _joined([open_row[at], cell]) if open_row[at] else cell
    return Grid(rows, header or 1) if len(rows) > 1 else None


def _cells_between(line: str, columns: list[tuple[int, int]]) -> list[str]:
    """Return a cell for each column; a cell over several columns stands in each of them."""
    found: list[str] = []
    start = columns[0][0]
    spans: list[int] = []
    for at, (_, end) in enumerate(columns):
        spans.append(at)
        if _cut(line, end, end + 1) == "|" or at == len(columns) - 1:
            found += [_plain(_cut(line, start + 1, end)).strip()] * len(spans)
            start, spans = end, []
    return found


def _starts(line: str) -> list[int]:
    """Return the places, by width, at which the cells of a line begin: after two blanks or more."""
    return [_width(line[: found.start()]) for found in re.finditer(r"\S+(?:\s\S+)*", line)]


def _columns(rows: list[str], ruled: str) -> list[list[str]]:
    """Cut rows into columns; each cell goes to the one that begins nearest."""
    starts = _starts(ruled)
    if ruled in rows:
        starts = max((_starts(row) for row in rows), key=len) if len(starts) < 2 else starts
    made = []
    for row in rows:
        cells = [""] * len(starts)
        for found in re.finditer(r"\S+(?:\s\S+)*", row):
            place = _width(row[: found.start()])
            nearest = min(range(len(starts)), key=lambda at: abs(starts[at] - place))
            cells[nearest] = f"{cells[nearest]} {found.group()}".strip()
        whole = re.split(r"\s{2,}", row.strip())
        made.append(whole if len(whole) == len(starts) else cells)
    return made


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _cut(line: str, start: int, end: int) -> str:
    """Return the part of a line between two places, by width."""
    found, at = [], 0
    for char in line:
        if start <= at < end:
            found.append(char)
        at += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return "".join(found)
