"""Tables that are drawn with characters: pipes, boxes, tabs and aligned columns."""

import itertools
import re
from collections.abc import Callable
from typing import Final

from rich.cells import cell_len as width

from regreader.blocks import Grid
from regreader.numbering import caption_of, notes_of
from regreader.words import joined, plain

_BOX: Final = str.maketrans("┌┬┐├┼┤└┴┘╔╦╗╠╬╣╚╩╝─═━│║┃┏┳┓┣╋┫┗┻┛", "+" * 18 + "-" * 3 + "|" * 3 + "+" * 9)
_PIPE_RULE: Final = re.compile(r"\|?\s*:?-+:?\s*(?:[|+]\s*:?-+:?\s*)+\|?|\|\s*:?-+:?\s*\||:?-{2,}:?")
_GRID_RULE: Final = re.compile(r"\+[-=+]+\+")
_RULE: Final = re.compile(r"[-=─—━_]{2,}(?:\s+[-=─—━_]{2,})*")
_CELL: Final = re.compile(r"\S+(?:\s\S+)*")
_FRAME: Final = 3  # rules of a box that has one below its header and none between its rows
_HEADER_MAX: Final = 3  # rows above the rule of an aligned table
_RETRIED_MAX: Final = 100  # lines; a longer run that is no table is text, so that time stays linear


def grid_at(lines: list[str], at: int, is_below_caption: bool) -> tuple[Grid | None, int]:
    """Return the table that begins at a line, and how many lines were looked at: 0 if none can begin there.

    is_below_caption: aligned columns are a table without a rule, too.
    """
    line = lines[at].strip()
    below = lines[at + 1].strip() if at + 1 < len(lines) else ""
    if _GRID_RULE.fullmatch(line.translate(_BOX)):
        run = _run(lines, at, lambda one: one.translate(_BOX)[:1] in ("+", "|"))
        return _boxed(run), len(run)
    if line.startswith("|") or (below and "|" in line and _PIPE_RULE.fullmatch(below)):
        run = _run(lines, at, lambda one: "|" in one or _PIPE_RULE.fullmatch(one) is not None)
        return _piped(run), len(run)
    if "\t" in line and "\t" in below:
        run = _run(lines, at, lambda one: "\t" in one)
        return Grid([_cells(row.split("\t")) for row in run]), len(run)
    near = [one.strip() for one in lines[at : at + _HEADER_MAX + 1]]
    is_ruled = any(_RULE.fullmatch(one) for one in near)
    first = next((one for one in near if not _RULE.fullmatch(one)), "")
    if len(starts(first)) < 2 or not (is_ruled or is_below_caption):
        return None, 0
    run = _columns(lines, at, first)
    grid = _aligned([one for one in run if one])
    return grid, len(run) if grid or len(run) > _RETRIED_MAX else 0


def _columns(lines: list[str], at: int, first: str) -> list[str]:
    """Return the lines of aligned columns, with blank ones between them, without notes at the end."""
    run = _run(lines, at, lambda one: not caption_of(one))
    count = len(starts(first))
    while (more := at + len(run) + 1) < len(lines) and count > 2 and not lines[more - 1].strip():
        if len(starts(lines[more])) != count or notes_of(lines[more].strip(), _is_any):
            break
        run += ["", *_run(lines, more, lambda one: not caption_of(one))]
    ends = [place for place, one in enumerate(run) if _RULE.fullmatch(one.strip())]
    if len(ends) > 1 and ends[-1] + 1 < len(run) and notes_of(run[ends[-1] + 1].strip(), _is_any):
        del run[ends[-1] + 1 :]  # notes below the last rule
    while run and notes_of(run[-1].strip(), lambda label: run[-1].strip()[0] in "([（") is not None:
        run.pop()
    return run


def _is_any(label: str) -> bool:
    return True


def _run(lines: list[str], at: int, belongs: Callable[[str], bool]) -> list[str]:
    rest = (lines[place] for place in range(at, len(lines)))
    return list(itertools.takewhile(lambda one: bool(one.strip()) and belongs(one.strip()), rest))


def _cells(cells: list[str]) -> list[str]:
    return [plain(re.sub(r"<br\s*/?>", " ", cell.replace("\\|", "|"))).strip() for cell in cells]


def _piped(run: list[str]) -> Grid | None:
    """Read a table of Markdown. A cell `^^` repeats the one above."""
    rows: list[list[str]] = []
    header = 0
    for line in run:
        if _PIPE_RULE.fullmatch(line.strip()):
            header = header or len(rows)
        else:
            rows.append(_cells(re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))))
    return Grid(rows, header) if len(rows) > 1 or header else None


def _boxed(run: list[str]) -> Grid | None:
    """Read a table of `+---+`; a rule that leaves out a column lets its cell go on below."""
    lines = [line.strip().translate(_BOX) for line in run]
    ruled = [line for line in lines if _GRID_RULE.fullmatch(line)]
    cuts = sorted({width(line[:at]) for line in ruled for at, char in enumerate(line) if char == "+"})
    columns = list(itertools.pairwise(cuts))
    rows: list[list[str]] = []
    row: list[str] | None = None
    header = 0
    for line in lines[1:]:
        if line.startswith("+") or "-+" in line or "+-" in line:
            rows += [row] if row is not None else []
            header = len(rows) if "=" in line or (len(ruled) == _FRAME and not header) else header
            row = _row_below(line, columns, rows)
        else:
            cells = _cells_between(line, columns)
            if len(ruled) == _FRAME and header and row and cells[0]:
                rows.append(row)  # no rules between rows: each line with a first cell is one
                row = None
            row = row or [""] * len(columns)
            for at, cell in enumerate(cells):
                if cell and cell not in row[at]:
                    row[at] = joined([row[at], cell]) if row[at] else cell
    return Grid(rows, header or 1) if len(rows) > 1 else None


def _row_below(rule: str, columns: list[tuple[int, int]], rows: list[list[str]]) -> list[str] | None:
    """Begin the row below a rule with the cells that go on; a rule through no column ends no row."""
    if not rows:
        return None
    going_on = [not set(_cut(rule, start + 1, end)) <= {"-", "="} for start, end in columns]
    return rows.pop() if all(going_on) else [rows[-1][at] if on else "" for at, on in enumerate(going_on)]


def _cells_between(line: str, columns: list[tuple[int, int]]) -> list[str]:
    """Return a cell for each column; a cell over several columns stands in each of them."""
    parts = line.strip("|").split("|")
    if len(parts) == len(columns):
        return [plain(part).strip() for part in parts]  # also where wide characters move the bars
    found: list[str] = []
    start = columns[0][0]
    for at, (_, end) in enumerate(columns, 1):
        if _cut(line, end, end + 1) == "|" or at == len(columns):
            found += [plain(_cut(line, start + 1, end)).strip()] * (at - len(found))
            start = end
    return found


def _cut(line: str, start: int, end: int) -> str:
    """Return the part of a line between two places, by width."""
    begins = itertools.accumulate(map(width, line), initial=0)
    return "".join(char for char, at in zip(line, begins, strict=False) if start <= at < end)


def starts(line: str) -> list[int]:
    """Return the places, by width, at which the cells of a line begin: after two blanks or more."""
    return [width(line[: found.start()]) for found in _CELL.finditer(line)]


def _aligned(run: list[str]) -> Grid | None:
    """Read columns that are set apart by blanks; rules of dashes stand around the header."""
    rules = [place for place, line in enumerate(run) if _RULE.fullmatch(line.strip())]
    rows = [line for place, line in enumerate(run) if place not in set(rules)]
    wide = sum(len(starts(row)) > 1 for row in rows)
    if len(rows) < 2 or len(starts(rows[0])) < 2 or wide < 0.6 * len(rows):
        return None
    ruled = [run[place] for place in rules if len(run[place].split()) > 1]
    parts = re.finditer(r"\S+", ruled[0]) if ruled else ()
    columns = [width(ruled[0][: part.start()]) for part in parts] or starts(rows[0])
    header = next((place - rules.index(place) for place in rules if place > 0), 1)
    made: list[list[str]] = []
    for cells in (_cells_at(row, columns) for row in rows):
        filled = [at for at, cell in enumerate(cells) if cell]
        if len(made) > header and len(columns) > 2 and len(filled) == 1 and filled[0]:
            made[-1][filled[0]] += f" {cells[filled[0]]}"  # a cell that goes on in the next line
        else:
            made.append(cells)
    return Grid(made, min(max(header, 1), _HEADER_MAX))


def _cells_at(row: str, columns: list[int]) -> list[str]:
    """Cut a row into columns; each cell goes to the one that begins nearest."""
    whole = re.split(r"\s{2,}", row.strip())
    if len(whole) == len(columns):
        return whole
    cells = [""] * len(columns)
    for found in _CELL.finditer(row):
        place = width(row[: found.start()])
        nearest = min(range(len(columns)), key=lambda at: abs(columns[at] - place))
        cells[nearest] = f"{cells[nearest]} {found.group()}".strip()
    return cells
