"""Tables that are drawn with characters: pipes, boxes, tabs and aligned columns."""

import itertools
import re
from collections.abc import Callable

from rich.cells import cell_len as width

from regreader.blocks import Grid
from regreader.numbering import caption_of, notes_of
from regreader.words import joined, plain

_BOX = str.maketrans(
    "┌┬┐├┼┤└┴┘╔╦╗╠╬╣╚╩╝─═━│║┃┏┳┓┣╋┫┗┻┛╒╤╕╞╪╡╘╧╛╓╥╖╟╫╢╙╨╜", "+" * 18 + "-" * 3 + "|" * 3 + "+" * 27
)
_PIPE_RULE = re.compile(r"\|?\s*:?-+:?\s*(?:[|+]\s*:?-+:?\s*)+\|?|\|\s*:?-+:?\s*\||:?-{2,}:?")
_GRID_RULE = re.compile(r"\+[-=+]+\+")
_RULE = re.compile(r"[-=─—━_]{2,}(?:\s+[-=─—━_]{2,})*")
_CELL = re.compile(r"\S+(?:\s\S+)*")
_LINE_MAX = 5_000  # characters
_FRAME = 3  # rules of a box that has one below its header and none between its rows
_HEADER_MAX = 3  # rows above the rule of an aligned table
_RETRIED_MAX = 100  # lines; a longer run that is no table is text, so that time stays linear


def grid_at(lines: list[str], at: int, is_below_caption: bool) -> tuple[Grid | None, int]:
    """Return the table that begins at a line, and how many lines were looked at: 0 if none can begin."""
    near = [one.strip() for one in lines[at : at + _HEADER_MAX + 1]]
    line, below = near[0], "".join(near[1:2])
    if _GRID_RULE.fullmatch(line.translate(_BOX)):
        run = _run(lines, at, lambda one: one.translate(_BOX)[:1] in ("+", "|"))
        return _boxed(run), len(run)
    is_under_rule = _RULE.fullmatch(line) and below.startswith("|")
    if line.startswith("|") or is_under_rule or (below and "|" in line and _PIPE_RULE.fullmatch(below)):
        run = _run(lines, at, lambda one: "|" in one or _PIPE_RULE.fullmatch(one) is not None)
        return _piped(run), len(run)
    if "\t" in line and "\t" in below:
        run = _run(lines, at, lambda one: "\t" in one)
        return Grid([_cells(row.split("\t")) for row in run]) if run else None, len(run)
    ruled = [bool(_RULE.fullmatch(one)) for one in near]
    texts = [one for one, is_rule in zip(near, ruled, strict=True) if not is_rule]
    first = next((one for one in texts if len(starts(one)) > 1), "") if ruled[0] else "".join(texts[:1])
    if len(starts(first)) < 2 or not (any(ruled) or is_below_caption):
        return None, 0
    run = _columns(lines, at, len(starts(first)))
    grid = _aligned([one for one in run if one])
    return grid, len(run) if grid or len(run) > _RETRIED_MAX else 0


def _run(lines: list[str], at: int, belongs: Callable[[str], bool]) -> list[str]:
    """Return the lines that belong to a table, up to a blank one or one that is too long for any."""
    rest = (lines[place].rstrip() for place in range(at, len(lines)))
    return list(itertools.takewhile(lambda one: 0 < len(one) < _LINE_MAX and belongs(one.strip()), rest))


def _columns(lines: list[str], at: int, count: int) -> list[str]:
    """Return the lines of aligned columns, with blank ones between them, without notes at the end."""
    run = _run(lines, at, lambda one: not caption_of(one))
    while (more := at + len(run) + 1) < len(lines) and count > 2 and not lines[more - 1].strip():
        if len(starts(lines[more])) != count or notes_of(lines[more].strip(), bool):
            break
        run += ["", *_run(lines, more, lambda one: not caption_of(one))]
    ends = [place for place, one in enumerate(run) if _RULE.fullmatch(one.strip())]
    below = "".join(run[ends[-1] + 1 : ends[-1] + 2]).strip() if len(ends) > 1 else ""
    if below and notes_of(below, bool) is not None:
        del run[ends[-1] + 1 :]  # notes below the last rule
    noted = (
        at
        for at, one in enumerate(run)
        if at > 1 and len(starts(one)) < 3 and notes_of(one.strip()) is not None
    )
    return run[: next(noted, len(run))]


def _cells(cells: list[str]) -> list[str]:
    return [plain(re.sub(r"<br\s*/?>", " ", cell.replace("\\|", "|"))).strip() for cell in cells]


def _piped(run: list[str]) -> Grid | None:
    """Read a table of Markdown. A cell `^^` repeats the one above."""
    lines = [line.strip() for line in run]
    rules = [at for at, line in enumerate(lines) if _PIPE_RULE.fullmatch(line)]
    texts = (one.removeprefix("|").removesuffix("|") for one in lines if not _PIPE_RULE.fullmatch(one))
    rows = [_cells(re.split(r"(?<!\\)\|", one)) for one in texts]
    header = next((at - before for before, at in enumerate(rules) if at > before), 0)
    return Grid(rows, header) if len(rows) > 1 or header else None


def _boxed(run: list[str]) -> Grid | None:
    """Read a table of `+---+`; a rule that leaves out a column lets its cell go on below."""
    lines = [line.strip().translate(_BOX) for line in run]
    ruled = [line for line in lines if _GRID_RULE.fullmatch(line)]
    cuts = sorted({width(line[:at]) for line in ruled for at, char in enumerate(line) if char == "+"})
    columns, is_framed = list(itertools.pairwise(cuts)), len(ruled) == _FRAME
    rows: list[list[str]] = []
    row: list[str] = []
    header = 0
    merged: dict[int, list[bool]] = {}  # of a row, the columns whose cell goes on from the row above
    for line in lines[1:]:
        if line.startswith("+") or "-+" in line or "+-" in line:
            rows += [row] if row else []
            is_whole = not header and _GRID_RULE.fullmatch(line)  # the first rule through all columns
            header = len(rows) if "=" in line or is_whole else header
            merged[len(rows)] = [not set(_cut(line, start + 1, end)) <= {"-", "="} for start, end in columns]
            row = _row_below(line, columns, rows, merged[len(rows)])
            continue
        cells = _cells_between(line, columns)
        if is_framed and header and row and cells[0]:
            rows.append(row)  # no rules between rows: each line with a first cell is one
            row = []
        held = zip(row or [""] * len(columns), cells, strict=True)
        row = [old if cell in old else joined([*filter(None, (old, cell))]) for old, cell in held]
    for at in range(len(rows) - 1, 0, -1):
        pairs = zip(rows[at - 1], rows[at], merged.get(at, [False] * len(columns)), strict=True)
        rows[at - 1] = [below if is_one else above for above, below, is_one in pairs]
    return Grid(rows, header or 1) if len(rows) > 1 else None


def _row_below(
    rule: str, columns: list[tuple[int, int]], rows: list[list[str]], going_on: list[bool]
) -> list[str]:
    """Begin the row below a rule with the cells that go on; a rule through no column ends no row."""
    if not rows or all(going_on):
        return rows.pop() if rows else []
    said = [_cut(rule, start + 1, end).strip() for start, end in columns]
    whole = (joined([*filter(None, pair)] or [""]) for pair in zip(rows[-1], said, strict=True))
    return [text if on else "" for text, on in zip(whole, going_on, strict=True)]


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
    return [start for start, _, _ in _spans(line)]


def _spans(line: str) -> list[tuple[int, int, str]]:
    """Return the cells of a line with the places, by width, at which they begin and end."""
    found = ((width(line[: one.start()]), one.group()) for one in _CELL.finditer(line[:_LINE_MAX]))
    return [(start, start + width(text), text) for start, text in found]


def _aligned(run: list[str]) -> Grid | None:
    """Read columns that are set apart by blanks; rules of dashes stand around the header."""
    rules = [place for place, line in enumerate(run) if _RULE.fullmatch(line.strip())]
    rows = [line for line in run if not _RULE.fullmatch(line.strip())]
    counts = [len(starts(row)) for row in rows]
    notes = sum(
        count < 2 and notes_of(row.strip(), bool) is not None for row, count in zip(rows, counts, strict=True)
    )
    if len(rows) < 2 or max(counts[:2]) < 2 or counts.count(1) - notes > 0.4 * len(rows):
        return None
    left = min(starts(row)[0] for row in rows)
    whole = [place for place in rules if place and starts(run[place])[0] <= left]  # through all columns
    header = min(max(sum(place not in rules for place in range(whole[0])) if whole else 1, 1), _HEADER_MAX)
    ruled = next((run[place] for place in rules if len(run[place].split()) > 1 and place in (0, *whole)), "")
    usual = max(sorted(set(counts[header:] or counts), reverse=True), key=counts[header:].count)
    columns = [width(ruled[: part.start()]) for part in re.finditer(r"\S+", ruled)]
    columns = columns or starts(rows[counts.index(usual)] if counts[0] < usual else rows[0])
    heads = _heads(rows[:header], columns, [run[place] for place in rules if place and place not in whole])
    return Grid([*heads, *_body(rows[header:], columns)], len(heads))


def _body(rows: list[str], columns: list[int]) -> list[list[str]]:
    """Return the rows below a header; cells that go on in the next line are one."""
    made: list[list[str]] = []
    for row in rows:
        cells = _cells_at(row, columns)
        count = len([*filter(None, cells)])
        is_rest = count < len(columns) - 1 if not cells[0] else count == 1 and starts(row)[0] > columns[0]
        if made and is_rest and len(columns) > 2 and len([*filter(None, made[-1])]) > 1:
            made[-1] = [" ".join(filter(None, pair)) for pair in zip(made[-1], cells, strict=True)]
        else:
            made.append(cells)
    return made


def _heads(rows: list[str], columns: list[int], rules: list[str]) -> list[list[str]]:
    """Return the header: two rows if a name, or the rule below it, spans several columns, else one."""
    heads = [_cells_at(row, columns) for row in rows]
    if len(rows) == 2 and len(starts(rows[0])) < len(columns):
        upper, drawn = _spans(rows[0]), [span for rule in rules for span in _spans(rule)]
        upper += [
            (*rule[:2], name)
            for rule in drawn
            for start, end, name in upper
            if rule[0] <= end >= start <= rule[1]
        ]
        lower = _spans(rows[1])
        for order, (start, end, _) in enumerate(lower):
            above = dict.fromkeys(
                name for left, right, name in upper if start <= right + 1 and end >= left - 1
            )
            at = order if len(lower) == len(columns) else _nearest(start, columns)
            heads[0][at] = " ".join(above)
        if len({*filter(None, heads[0])}) < len([*filter(None, heads[0])]):
            return heads
    return [[joined([*filter(None, names)] or [""]) for names in zip(*heads, strict=True)]]


def _cells_at(row: str, columns: list[int]) -> list[str]:
    """Cut a row into columns; each cell goes to the one that begins nearest."""
    whole = re.split(r"\s{2,}", row.strip())
    if len(whole) == len(columns):
        return whole
    cells = [""] * len(columns)
    for found in _CELL.finditer(row):
        nearest = _nearest(width(row[: found.start()]), columns)
        cells[nearest] = f"{cells[nearest]} {found.group()}".strip()
    return cells


def _nearest(place: int, columns: list[int]) -> int:
    return min(range(len(columns)), key=lambda at: abs(columns[at] - place))
