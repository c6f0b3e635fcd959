"""Blocks put together to a regulation: its pages and sections, with their tables and notes."""

import re
from collections.abc import Sequence

from regreader.blocks import Block, Break, Grid, Para
from regreader.numbering import Heading, caption_of, heading_of, label_of, note_in
from regreader.regulation import Place, Regulation, free_id, note_of

_DEPTHS = {"annex": 1, "schedule": 1, "part": 1, "chapter": 2, "article": 9, "rule": 9}
_CLAUSES = 20  # the level of numbered paragraphs below declared headings
_FIRST_MAX = 3  # a dotted number above it does not begin a list of sections
_STEP_MAX = 5  # some numbers are left out
_ALONE_MAX = 80  # characters of a title on a line of its own
_OPEN_ENDS = (",", ";", ":", "，", "；", "：", " and", " or")
_MARK = re.compile(
    r"\s*(?:[(\[（]?\s*(?:注|(?:see\s+)?note\s*)(\d{1,2}|[a-z])\s*[)\]）]?|([*†‡§¶#]{1,4})|([¹²³⁴⁵⁶⁷⁸⁹]+)"
    r"|(?<=\s)(\d{1,2}|[a-z])\)|\[(\d{1,2}|[a-z])\])$",
    re.IGNORECASE,
)
_RAISED = str.maketrans("¹²³⁴⁵⁶⁷⁸⁹", "123456789")
_DITTO = ("^^", "〃", "同上")
_CONTENTS = re.compile(r"(?:\s*[.…·_]){3,60}\s*[\divx]+\s*$")  # dots to the page of an entry of the contents


def regulation_of(name: str, title: str, source: str, form: str, blocks: Sequence[Block]) -> Regulation:
    """Put the blocks of a file together. form: the form that they were read as."""
    builder = _Builder(Regulation(name, title, source, form), blocks)
    for block in blocks:
        builder.add(block)
    return builder.end()


class _Builder:
    def __init__(self, made: Regulation, blocks: Sequence[Block]) -> None:
        self.made, self.is_text = made, made.form == "text"
        first = next((one for one in blocks if isinstance(one, Break)), None)
        self.page = 0 if first is None else max((first.number or 2) - 1, 1)
        self.is_page_used = False
        self.path: list[Place] = []
        self.ids: set[str] = set()
        self.captions = 0
        self.caption: Heading | None = None
        self.table: Place | None = None  # the one that notes belong to
        self.declared, (self.indent, self.next_number) = _declared_depth(blocks), _outer_numbers(blocks)

    def add(self, block: Block) -> None:
        """Take the next block."""
        if isinstance(block, Break):
            self._turn(block)
        elif isinstance(block, Grid):
            self._grid(block)
        elif block.text.strip():
            self._para(block)

    def end(self) -> Regulation:
        """Return the regulation."""
        self.made.last_page = self.page
        for table in self.made.tables:
            _finish(table)
        self.made.link()
        return self.made

    def _turn(self, mark: Break) -> None:
        """Begin a page. A mark before all text names the first page."""
        self.page = mark.number or self.page + self.is_page_used
        self.is_page_used = False

    def _para(self, block: Para) -> None:
        text = block.text.strip()
        if self._is_caption(block) or self._is_note(text):
            pass
        elif heading := self._heading(block):
            self._open(heading, block)
        elif block.level and not self.made.sections and self.made.title in ("", text):
            self.made.title = text
        elif block.level:
            self._start(Place("heading", text, text), _level(block, self.is_text, "heading", ""))
        elif not _CONTENTS.search(text):
            self._add(text)
        self.is_page_used = True

    # --- sections ---------------------------------------------------------------------

    def _heading(self, block: Para) -> Heading | None:
        """Return the heading that a paragraph is: a declared one, a clause, or a line of a text."""
        text = block.text
        found = heading_of(text)
        if found is None or block.level:
            return found
        if block.is_alone and len(found.text) <= _ALONE_MAX and not found.text.endswith(_OPEN_ENDS):
            found = found._replace(title=found.title or found.text.rstrip(".。"), text="")
        if _CONTENTS.search(text):
            return None
        if found.is_named:
            is_heading = self.is_text and block.is_alone and not found.text
            return (
                found
                if is_heading
                or found.kind in ("article", "rule")
                or (text[0] in "§第" and found.title + found.text)
                else None
            )
        if found.number.count(".") <= self.declared:
            return None  # headings of this depth are declared: it is an item of a list, or of the contents
        if "." in found.number:
            return found if self._follows(found.number) else None
        is_outer = self.is_text and block.indent == self.indent and self._comes_next(found.number)
        return found if is_outer else None

    def _comes_next(self, number: str) -> bool:
        """Return True if a plain number counts on, or begins."""
        if number == self.next_number:
            self.next_number = str(_value(number) + 1)
            return True
        return False

    def _follows(self, number: str) -> bool:
        """Return True if a dotted number is the next one of an open section, or the first one below it."""
        parts = _parts(number)
        for one in reversed(self.path):
            last = _parts(one.number)
            if one.kind not in ("section", "annex", "chapter"):
                continue
            if len(parts) <= len(last) and parts[:-1] == last[: len(parts) - 1]:
                return 0 < _value(parts[-1]) - _value(last[len(parts) - 1]) <= _STEP_MAX
            if parts[:-1] == last:
                return _value(parts[-1]) <= _FIRST_MAX
        return not any("." in one.number for one in self.made.sections) or parts[0].isalpha()

    def _open(self, heading: Heading, block: Para) -> None:
        kind, number = heading.kind, heading.number
        chapter = next((one for one in reversed(self.path) if one.kind == "chapter"), None)
        if kind == "section" and block.text.startswith("第") and chapter and number.isdigit():
            number = f"{chapter.number}.{number}"  # 第二节 of chapter 3
        self._start(Place(kind, number, heading.title), _level(block, self.is_text, kind, number))
        self._add(heading.text)

    def _start(self, section: Place, level: int) -> None:
        while self.path and (self.path[-1].level >= level or self.path[-1].kind == "front"):
            self.path.pop()
        section.level, section.parent = level, self._where()
        section.page = section.page_end = self.page
        section.id = free_id(section, self.ids)
        self.table, self.caption = None, None
        self.path.append(section)
        self.made.sections.append(section)
        self._reach()

    def _add(self, text: str) -> None:
        """Add a paragraph to the open section."""
        if not text:
            return
        if not self.path:
            self._start(Place("front", "0", ""), 1)
        self.path[-1].text.append((self.page, text))
        self.table = None
        self._reach()

    def _reach(self) -> None:
        for one in self.path:
            one.page_end = self.page

    def _where(self) -> str:
        return self.path[-1].id if self.path else ""

    # --- tables and notes -------------------------------------------------------------

    def _is_caption(self, block: Para) -> bool:
        """Hold the caption of a table, which the next table takes."""
        caption = caption_of(block.text.strip())
        if caption is None or (self.is_text and not block.is_alone):
            return False
        self.caption = caption
        return True

    def _grid(self, block: Grid) -> None:
        title = block.caption.strip()
        caption = caption_of(title) or (Heading("table", "", title) if title else self.caption)
        self.caption = None
        number = caption.number if caption else ""
        same = next((one for one in self.made.tables if number and one.number == number), None)
        if same is not None:
            same.rows += block.rows[block.header :]
            table = same
        else:
            self.captions += not number
            title = caption.title if caption else ""
            table = Place("table", number or f"unnumbered-{self.captions}", title, self.page, self.page)
            table.parent, table.columns = self._where(), _columns(block.rows[: block.header])
            table.rows = block.rows[block.header :]
            self.made.tables.append(table)
        table.page_end, self.table = self.page, table
        self._reach()
        self.is_page_used = True

    def _is_note(self, text: str) -> bool:
        """Take a note of the table before it. Return True for such a note."""
        found = note_in(text)
        if found is None or self.table is None:
            return False
        note = note_of(*found, self.page, self.table.parent, self.table.number)
        self.table.notes.append(note)
        return True


def _level(block: Para, is_text: bool, kind: str, number: str) -> int:
    """Return the depth of a section: as its markup declares it, else by its kind and number."""
    if block.level and not (is_text and number):
        return block.level
    depth = _DEPTHS.get(kind, 3 + number.count("."))
    return depth if is_text else depth + _CLAUSES


def _declared_depth(blocks: Sequence[Block]) -> int:
    """Return the most points in the number of a declared heading, such as 1 for "4.2"; -1 without numbers."""
    paras = (one for one in blocks if isinstance(one, Para) and one.level)
    heads = [head for one in paras if (head := heading_of(one.text)) and head.kind == "section"]
    return max((head.number.count(".") for head in heads if not head.is_named), default=-1)


def _outer_numbers(blocks: Sequence[Block]) -> tuple[int, str]:
    """Return the indentation of the sections with plain numbers in a text, and the first number.

    Lists stand further in: of the indentations at which numbers count from 0 or 1, it is the smallest.
    """
    runs: dict[int, list[str]] = {}
    for one in blocks:
        if isinstance(one, Para) and one.indent >= 0 and not one.level:
            found = heading_of(one.text)
            run = runs.get(one.indent, [])
            if found and not found.is_named and found.number in (str(len(run)), str(len(run) + 1), *run[:0]):
                first = int(run[0]) if run else int(found.number)
                if found.number == str(first + len(run)) and first <= 1:
                    runs[one.indent] = [*run, found.number]
    long = {indent: run for indent, run in runs.items() if len(run) > 1}
    return (min(long), long[min(long)][0]) if long else (-2, "")


def _parts(number: str) -> list[str]:
    return number.replace("-", ".").split(".")


def _value(part: str) -> int:
    digits = re.sub(r"\D", "", part)[:9]
    return int(digits) if digits else ord(part[:1] or "\0") - 64


def _columns(header: list[list[str]]) -> list[str]:
    """Return the names of the columns; of several header rows, the names of a column joined."""
    return [" / ".join(dict.fromkeys(name for name in names if name)) for names in zip(*header, strict=False)]


def _finish(table: Place) -> None:
    """Fill the merged cells of a table, and take the marks of its notes out of them."""
    known, above = {note.number for note in table.notes}, list[str]()
    for at, row in enumerate([table.columns, *table.rows], -1):
        row += [""] * (len(table.columns) - len(row))
        row[:] = [above[place] if at > 0 and cell in _DITTO else cell for place, cell in enumerate(row)]
        above = [*row]
        for place, cell in enumerate(row):
            row[place], found = _without_marks(cell, known)
            table.marks += [(at, place, label) for label in found]
    table.marks.sort(key=lambda mark: mark[0] < 0)  # those of columns come last


def _without_marks(cell: str, known: set[str]) -> tuple[str, list[str]]:
    """Return a cell without its marks, and their labels. known: the labels of the table's notes."""
    found: list[str] = []
    while (mark := _MARK.search(cell)) and cell[: mark.start()].strip():
        label = label_of(next(filter(None, mark.groups())).translate(_RAISED))
        if label not in known:
            break
        found.insert(0, label)
        cell = cell[: mark.start()].strip()
    return cell, found
