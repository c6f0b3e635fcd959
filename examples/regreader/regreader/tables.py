"""Tables of regulations, put together from their grids on each page, and the notes that their cells mark."""

import itertools
import re

from regreader.blocks import Grid
from regreader.numbering import Heading, label_of, notes_of
from regreader.regulation import Place, note_of
from regreader.words import LINK, SUPER

_MARK = re.compile(r"\s*(?:[(（\[【]?\s*(?:注|(?:see\s+)?note\s*)(\d{1,2}|[a-z])\s*[)）\]】]?|([*†‡§¶#※]{1,4})|(?<!m(?=[²³]))([¹²³⁴⁵⁶⁷⁸⁹⁾]+)|(?<=\s)(\d{1,2}|[a-z])[)）]|[(（](\d{1,2}|[a-z])[)）]|([①-⑳])|(?<=\d)([a-h])|\[(\d{1,2}|[a-z])\])$", re.IGNORECASE)  # fmt: skip
_DITTO = ("^^", "〃", "″", "同上")


class Tables:
    """The tables of a regulation in their order. open: the one that notes and further parts belong to."""

    def __init__(self) -> None:
        self.made: list[Place] = []
        self.open: Place | None = None
        self._by_number: dict[str, Place] = {}
        self._unnumbered = 0

    def add(self, grid: Grid, caption: Heading | None, page: int, section: str, is_first: bool) -> None:
        """Take the grid of a page. is_first: nothing stands before it on its page."""
        rows, header = grid.rows, grid.rows[: grid.header]
        table = self._continued(caption, grid, is_first)
        if not header and len(rows) > 1 and (table is None or _is_header_of(rows[:1], table)):
            header = rows[:1]
        if table is None or (header and _is_header_of(header, table)):
            rows = rows[len(header) :]
        if table is None:
            title, number = (caption.title, caption.number) if caption else ("", "")
            self._unnumbered += not number
            number = number or f"unnumbered-{self._unnumbered}"
            table = Place("table", number, title, page, page, section, columns=columns_of(header))
            self.made.append(table)
            self._by_number[number] = table
        table.rows += [row for row in rows if any(row)]
        table.page_end, self.open = page, table
        self._take_note_rows(table, page)

    def _continued(self, caption: Heading | None, grid: Grid, is_first: bool) -> Place | None:
        """Return the table that a grid goes on with: by its caption, or as the first one on a new page."""
        last, header = self.open, grid.rows[: grid.header]
        if caption:
            before = self.made[-1] if self.made and caption.goes_on else None
            same = self._by_number.get(caption.number) if caption.number else before
            return same if same and (caption.goes_on or same is last) else None
        if last is None or last is not self.made[-1] or not is_first or not grid.rows:
            return None
        is_same = len(grid.rows[0]) == len(last.columns) and (not header or _is_header_of(header, last))
        return last if is_same else None

    def name(self, caption: Heading) -> bool:
        """Give the open table the caption that stands below it. Return False if it has one already."""
        table = self.open
        if table is None or not table.number.startswith("unnumbered") or table.title:
            return False
        table.number, table.title = caption.number, caption.title
        for note in table.notes:
            note.table = table.number
        self._by_number[caption.number] = table
        self._unnumbered -= 1
        return True

    def has_mark(self, label: str) -> bool:
        """Return True if a cell of the open table has this mark."""
        name = re.escape(label)
        tail = rf"|\d{name}$" if label.isalpha() else ""  # a superscript that has become plain
        mark = re.compile(rf"(?:\ue000|\s|[(（\[^]){name}(?:\ue001|[)）\]]){tail}")
        cells = itertools.chain(self.open.columns, *self.open.rows) if self.open else ()
        raised = label.translate(str.maketrans("1234567890", "¹²³⁴⁵⁶⁷⁸⁹⁰"))
        return any(mark.search(cell) or (label.isdigit() and cell.endswith(raised)) for cell in cells)

    def _take_note_rows(self, table: Place, page: int) -> None:
        """Take the last rows that are notes: one text over all columns."""
        texts = [row[0] if len({*row} - {""}) == 1 else "" for row in reversed(table.rows[1:])]
        last = list(itertools.takewhile(lambda text: text and notes_of(text, bool), texts))[::-1]
        if any(notes_of(text, self.has_mark) for text in last):
            del table.rows[-len(last) :]
            found = [note for text in last for note in notes_of(text, bool) or ()]
            table.notes += [note_of(label, text, page, table.parent, table.number) for label, text in found]

    def finish(self, loose: list[Place], labels: dict[str, str]) -> None:
        """Fill merged cells, take the notes that tables link to out of `loose`, and take marks out of the cells."""
        by_anchor = {note.anchor: note for note in loose}
        order = {anchor: at for at, anchor in enumerate(by_anchor)}
        for table in self.made:
            texts = itertools.chain([table.title], table.columns, *table.rows)
            targets = {target for text in texts for target, _ in LINK.findall(text)}
            for target in sorted(targets & by_anchor.keys(), key=order.__getitem__):
                note = by_anchor.pop(target)
                note.table, note.parent = table.number, table.parent
                table.notes.append(note)
            _finish(table, labels)
            for note in table.notes:
                note.title = table.title
        loose[:] = by_anchor.values()


def columns_of(header: list[list[str]]) -> list[str]:
    """Return the names of the columns; of several header rows, the names of a column joined."""
    return [" / ".join(dict.fromkeys(name for name in names if name)) for names in zip(*header, strict=False)]


def _is_header_of(header: list[list[str]], table: Place) -> bool:
    """Return True for the names of the columns, or the lower ones of their two header rows."""
    names = columns_of(header)
    pairs = zip(names, table.columns, strict=False)
    return len(names) == len(table.columns) and all(f" / {of}".endswith(f" / {name}") for name, of in pairs)


def _finish(table: Place, labels: dict[str, str]) -> None:
    above: list[str] = []
    known = {note.number for note in table.notes}
    for at, row in enumerate([table.columns, *table.rows], -1):
        row += [""] * (len(table.columns) - len(row))
        for place, cell in enumerate(row):
            if at > 0 and place < len(above) and (cell in _DITTO or (not cell and place == 0)):
                row[place] = above[place]
        above = [*row]
        for place, cell in enumerate(row):
            row[place], found = _without_marks(cell, known, labels)
            table.marks += [(at, place, label) for label in found]
    table.marks.sort(key=lambda mark: mark[0] < 0)  # those of columns come last
    table.title = _without_marks(table.title, known, labels)[0]


def _without_marks(cell: str, known: set[str], labels: dict[str, str]) -> tuple[str, list[str]]:
    """Return a cell without its marks, and their labels. known: the labels of the table's notes."""
    found = [labels.get(target, label_of(words or target)) for target, words in LINK.findall(cell)]
    cell = LINK.sub("", cell)
    for words in SUPER.findall(cell):
        names = [label_of(one) for one in re.split(r"[,，\s]+", words)]
        if known.issuperset(names):
            found += names
            cell = cell.replace(f"\ue000{words}\ue001", "")
    cell = SUPER.sub(r"\1", cell).strip()
    while (mark := _MARK.search(cell)) and cell[: mark.start()].strip():
        label = label_of(next(filter(None, mark.groups())))
        if label not in known:
            break
        found.insert(0, label)
        cell = cell[: mark.start()].strip()
    return cell, list(dict.fromkeys(found))
