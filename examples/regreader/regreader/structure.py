"""Pages of blocks put together to a regulation: sections, tables over pages, notes and their marks."""

import re
from collections.abc import Sequence
from typing import Final

from regreader.blocks import Block, Grid, Note, Para, Regulation, Section, Table
from regreader.numbering import Heading, caption_of, heading_of, label_of, notes_of, plain_title, without_unit
from regreader.words import half_width

_LINK: Final = re.compile(r"\[\^([^\]\ue002]+)(?:\ue002([^\]]*))?\]")
_TITLED: Final = ("chapter", "part", "annex", "schedule")
_SUPER: Final = re.compile(r"\ue000([^\ue001]*)\ue001")
_MARK: Final = re.compile(
    r"\s*(?:[(（\[]?\s*(?:注|note\s*)(?P<note>\d{1,2}|[a-z])\s*[)）\]]?|(?P<sign>[*†‡§¶#]{1,4})|(?P<sup>[¹²³⁴⁵⁶⁷⁸⁹]+)"
    r"|(?<=\s)(?P<item>\d{1,2}|[a-z])[)）]|[(（](?P<paren>\d{1,2}|[a-z])[)）]|(?P<ring>[①-⑳])|\[(?P<box>\d{1,2}|[a-z])\])$",
    re.IGNORECASE,
)
_DITTO: Final = ("^^", "〃", "″", "同上")


def regulation_of(name: str, title: str, source: str, pages: Sequence[tuple[int, list[Block]]]) -> Regulation:
    """Put the blocks of all pages together."""
    return _Builder(Regulation(name, title, source), pages).build()


class _Builder:
    def __init__(self, made: Regulation, pages: Sequence[tuple[int, list[Block]]]) -> None:
        self.made, self.pages = made, pages
        self.path: list[Section] = []
        self.open: Table | None = None  # the table that notes and further parts belong to
        self.is_first = False  # nothing but the caption stood on this page before
        self.caption: tuple[str, str, bool] | None = None
        self.labels: dict[str, str] = {}  # the words of links to notes, by the id they lead to
        self.loose: list[Note] = []
        self.has_title = False
        self.is_noting = False
        marked = [one for _, part in pages for one in part if isinstance(one, Para) and one.level]
        self.is_marked = sum(heading_of(half_width(one.text), one.level) is not None for one in marked) > 2

    def build(self) -> Regulation:
        for _, blocks in self.pages:
            for block in blocks:
                self._note_links(block)
        for number, blocks in self.pages:
            self.is_first = True
            shown = []
            for at, block in enumerate(blocks):
                if isinstance(block, Grid):
                    shown.append(self._grid(block, number))
                elif isinstance(block, Para):
                    shown.append(self._para(block, number, blocks[at + 1 :]))
            self.made.pages[number] = "\n".join(text for text in shown if text)
        self._end()
        return self.made

    def _note_links(self, block: Block) -> None:
        texts = [block.text] if isinstance(block, Para) else []
        texts += [cell for row in block.rows for cell in row] if isinstance(block, Grid) else []
        for text in texts:
            for target, words in _LINK.findall(text):
                if not isinstance(block, Para) or not text.startswith(f"[^{target}"):
                    self.labels.setdefault(target, label_of(words or target))

    # --- paragraphs -----------------------------------------------------------------------

    def _para(self, block: Para, page: int, rest: list[Block]) -> str:
        text = half_width(block.text)
        if block.anchor in self.labels and not block.level:
            return self._linked_note(block.anchor, text, page)
        if (caption := caption_of(text)) and (block.level or self._is_caption(rest)):
            self.caption = caption
            return _shown(text)
        if self.open is not None and not self.is_first:
            found = notes_of(text, self._is_label)
            if found is not None and (heading := heading_of(text, block.level)) and text[0] not in "nN注备":
                found = None if block.level or self._fits(heading) else found
            if found is not None:
                return self._table_notes(found, text, page)
        elif (
            (found := notes_of(text)) and text[0] in "nN注" and re.match(r"(?:note|注)", text, re.IGNORECASE)
        ):
            self._lone_notes(found, page)
        if (
            self.caption
            and not self.caption[1]
            and not block.level
            and len(text) < 120
            and self._is_caption(rest)
        ):
            self.caption = (self.caption[0], without_unit(text), self.caption[2])
            return _shown(text)
        self.is_first = False
        heading = heading_of(text, block.level)
        if heading and (block.level or self._fits(heading)):
            self._open_section(heading, block.level, page)
            return _shown(text)
        if block.level:
            return self._plain_heading(_shown(text), block.level, page)
        self._end_notes()
        if not self._titles_last(text):
            self._add(_shown(text), page)
        return _shown(text)

    def _titles_last(self, text: str) -> bool:
        """Take a short line below "Annex B" or "第三章" as its title. Return True if it is one."""
        last = self.path[-1] if self.path else None
        if (
            last is None
            or last.kind not in _TITLED
            or last.title
            or last.text
            or self.made.sections[-1] is not last
        ):
            return False
        if len(text) > 60 or text[-1] in ".。;；:：,，":
            return False
        last.title = plain_title(_shown(text))
        return True

    def _is_label(self, label: str) -> bool:
        """Return True if a cell of the open table has this mark, or its notes are numbered like that."""
        assert self.open is not None
        before = [note.label for note in self.open.notes]
        if self.is_noting and (
            not before or (before[-1].isdigit() and label.isdigit() and int(label) == int(before[-1]) + 1)
        ):
            return True
        marks = re.compile(rf"(?:\ue000|\s|[(（\[^]){re.escape(label)}(?:\ue001|[)）\]])")
        return any(marks.search(cell) for row in [self.open.columns, *self.open.rows] for cell in row)

    def _is_caption(self, rest: list[Block]) -> bool:
        """Return True if a table follows, at most one short paragraph such as its unit between."""
        for block in rest[:2]:
            if isinstance(block, Grid):
                return True
            if not isinstance(block, Para) or block.level or len(block.text) > 60:
                return False
        return False

    def _linked_note(self, anchor: str, text: str, page: int) -> str:
        label = self.labels[anchor]
        text = _LINK.sub("", text, count=1) if text.startswith("[^") else text
        text = re.sub(r"\s*(?:↩|⤴|\^|back)\ufe0e?\s*$", "", _SUPER.sub("", text, count=1)).strip()
        text = _LINK.sub("", text).strip() if text.endswith("]") else text
        if re.match(rf"[\[(（]?(?:note|注)?\s*{re.escape(label)}[\])）.:：、\s]", text, re.IGNORECASE):
            text = re.sub(
                rf"^[\[(（]?(?:note|注)?\s*{re.escape(label)}[\])）.:：、\s]+", "", text, flags=re.IGNORECASE
            )
        self.loose.append(Note(label, _shown(text), page, "", self._where(), anchor))
        return f"[{label}] {_shown(text)}"

    def _table_notes(self, found: list[tuple[str, str]], text: str, page: int) -> str:
        assert self.open is not None
        self.is_noting = True
        for label, words in found:
            self.open.notes.append(Note(label, _shown(words), page, self.open.number, self.open.section))
        self.open.page_end = max(self.open.page_end, self.open.page)
        return _shown(text)

    def _lone_notes(self, found: list[tuple[str, str]], page: int) -> None:
        self.made.notes += [Note(label, _shown(text), page, "", self._where()) for label, text in found]

    def _end_notes(self) -> None:
        if self.is_noting:
            self.open, self.is_noting = None, False
        elif self.open is not None and not self.is_first:
            self.is_noting = False

    # --- sections ---------------------------------------------------------------------------

    def _fits(self, heading: Heading) -> bool:
        """Return True if a number can follow the ones before it."""
        if heading.kind in _TITLED:
            return all(one.id != f"{heading.kind} {heading.number}" for one in self.made.sections)
        before = [one for one in self.made.sections if one.kind == heading.kind]
        if heading.kind == "article":
            return not before or _number(heading.number) > _number(before[-1].number)
        if self.is_marked and "." not in heading.number:
            return False  # an item of a list, as headings of this depth are marked
        if not before:
            return True
        if not re.fullmatch(r"\d+(?:\.\d+)*", heading.number):
            return all(one.number != heading.number for one in before)
        if self.path and self.path[-1].kind != "section" and "." not in heading.number:
            return int(heading.number) <= 2
        last, new = _parts(before[-1].number), _parts(heading.number)
        shared = next(
            (at for at, pair in enumerate(zip(last, new, strict=False)) if pair[0] != pair[1]),
            min(len(last), len(new)),
        )
        if new <= last or len(new) > shared + 2:
            return False
        if len(new) > 2 and shared >= 2:
            return True  # a further clause of a section, also where some are left out
        step = new[shared] - (last[shared] if shared < len(last) else 0)
        return step <= 5 and all(part <= 3 for part in new[shared + 1 :])

    def _open_section(self, heading: Heading, level: int, page: int) -> None:
        number = heading.number
        if (
            heading.kind == "section"
            and "." not in number
            and self._is_in("chapter")
            and not level_is_own(level, self.path)
        ):
            chapter = next(one for one in reversed(self.path) if one.kind == "chapter")
            number = f"{chapter.number}.{number}"
        elif heading.kind == "section" and re.fullmatch(r"[\d.]+", number) and self._is_in("annex"):
            annex = next(one for one in reversed(self.path) if one.kind == "annex")
            known = {one.number for one in self.made.sections}
            number = f"{annex.number}.{number}" if number in known or "." not in number else number
        depth = _depth(heading.kind, number)
        while self.path and not self.path[-1].level < depth:
            self.path.pop()
        title = "" if heading.is_clause else heading.title
        parent = self.path[-1].id if self.path else ""
        self._start(Section(heading.kind, number, _shown(title), depth, page, page, parent))
        if heading.is_clause:
            self._add(_shown(heading.title), page)

    def _is_in(self, kind: str) -> bool:
        return any(one.kind == kind for one in self.path)

    def _plain_heading(self, text: str, level: int, page: int) -> str:
        """Take a heading without a number: the title of the regulation, or a section named by its words."""
        if not self.has_title and not self.made.sections:
            self.has_title = True
            self.made.title = text
            return text
        while self.path and self.path[-1].level >= level + 10:
            self.path.pop()
        self._start(
            Section("heading", text, text, level + 10, page, page, self.path[-1].id if self.path else "")
        )
        return text

    def _start(self, section: Section) -> None:
        self._end_notes()
        self.open, self.caption = None, None
        self.has_title = True
        self.path.append(section)
        self.made.sections.append(section)

    def _add(self, text: str, page: int) -> None:
        if not text:
            return
        if not self.path:
            if not self.has_title and len(text) < 120:
                self.has_title, self.made.title = True, text
            self._start(Section("front", "0", "", 1, page, page))
        self.path[-1].text.append((page, text))
        for one in self.path:
            one.page_end = page

    def _where(self) -> str:
        return self.path[-1].id if self.path else ""

    # --- tables -----------------------------------------------------------------------------

    def _grid(self, block: Grid, page: int) -> str:
        caption = caption_of(half_width(block.caption)) if block.caption else None
        if block.caption and caption is None:
            caption = ("", half_width(block.caption), False)
        caption = caption or self.caption
        self.caption = None
        rows = [[half_width(cell) for cell in row] for row in block.rows]
        shown = "\n".join("| " + " | ".join(_shown(cell) for cell in row) + " |" for row in rows)
        shown = f"{_shown(half_width(block.caption))}\n{shown}" if block.caption else shown
        header = rows[: block.header]
        found = self._continued(caption, rows, header)
        if not header and len(rows) > 1 and (found is None or _columns(rows[:1]) == found.columns):
            header = rows[:1]
        if found is None:
            found = self._new_table(caption, header, page)
            rows = rows[len(header) :]
        elif header and _columns(header) == found.columns:
            rows = rows[len(header) :]
        found.rows += [row for row in rows if any(row)]
        self.open = found
        self._note_rows(found, page)
        found.page_end = page
        for one in self.path:
            one.page_end = page
        self.open, self.is_first, self.is_noting = found, False, False
        return shown

    def _note_rows(self, table: Table, page: int) -> None:
        """Take the last rows that are notes: one text over all columns."""
        taken: list[Note] = []
        while len(table.rows) > 1 and len({cell for cell in table.rows[-1] if cell}) == 1:
            text = next(cell for cell in table.rows[-1] if cell)
            found = notes_of(text, self._is_label)
            if found is None or (len(table.columns) > 1 and table.rows[-1][0] != text):
                break
            table.rows.pop()
            taken = [
                Note(label, _shown(words), page, table.number, table.section) for label, words in found
            ] + taken
        table.notes += taken

    def _continued(
        self, caption: tuple[str, str, bool] | None, rows: list[list[str]], header: list[list[str]]
    ) -> Table | None:
        """Return the table that a grid goes on with: by its caption, or as the first one on a new page."""
        if caption:
            same = [one for one in self.made.tables if one.number == caption[0] and caption[0]]
            return same[-1] if same and (caption[2] or same[-1] is self.open) else None
        last = self.made.tables[-1] if self.made.tables else None
        if last is None or last is not self.open or not self.is_first or not rows:
            return None
        is_same = not header or _columns(header) == last.columns
        return last if is_same and len(rows[0]) == len(last.columns) else None

    def _new_table(self, caption: tuple[str, str, bool] | None, header: list[list[str]], page: int) -> Table:
        number, title, _ = caption or ("", "", False)
        if not number:
            number = f"unnumbered-{1 + sum(one.number.startswith('unnumbered') for one in self.made.tables)}"
        table = Table(number, _shown(title), page, page, self._where(), _columns(header), [])
        self.made.tables.append(table)
        return table

    # --- the end ----------------------------------------------------------------------------

    def _end(self) -> None:
        for table in self.made.tables:
            self._attach_loose(table)
            _finish(table, self.labels)
        self.made.notes += self.loose
        for note in self.made.notes:
            note.text = _shown(note.text)
        if not self.made.tables and not self.made.sections and self.made.pages:
            first = min(self.made.pages)
            self.made.sections.append(Section("front", "0", self.made.title, 1, first, max(self.made.pages)))

    def _attach_loose(self, table: Table) -> None:
        """Take the notes that cells link to, wherever they stand."""
        linked = {
            target
            for row in [table.columns, *table.rows]
            for cell in row
            for target, _ in _LINK.findall(cell)
        }
        linked |= {target for target, _ in _LINK.findall(table.caption)}
        for note in [one for one in self.loose if one.mark in linked]:
            note.table, note.section = table.number, table.section
            table.notes.append(note)
            self.loose.remove(note)


def level_is_own(level: int, path: list[Section]) -> bool:
    """Return True for a marked heading that is no deeper than its chapter."""
    return bool(level) and bool(path) and level <= 1


def _finish(table: Table, labels: dict[str, str]) -> None:
    """Fill merged cells, and take the marks of notes out of the cells."""
    above: list[str] = []
    for at, row in enumerate(table.rows):
        row += [""] * (len(table.columns) - len(row))
        for place, cell in enumerate(row):
            is_merged = cell in _DITTO or (not cell and place == 0)
            if is_merged and above and place < len(above):
                row[place] = above[place]
        above = list(row)
        table.rows[at] = row
    known = {note.label for note in table.notes}
    for at, row in enumerate(table.rows):
        for place, cell in enumerate(row):
            row[place], found = _without_marks(cell, known, labels)
            table.marks += [(at, place, label) for label in found]
    columns = [_without_marks(one, known, labels) for one in table.columns]
    table.columns = [text for text, _ in columns]
    table.marks += [(-1, place, label) for place, (_, found) in enumerate(columns) for label in found]
    table.caption = _without_marks(table.caption, known, labels)[0]


def _without_marks(cell: str, known: set[str], labels: dict[str, str]) -> tuple[str, list[str]]:
    found = [labels.get(target, label_of(words or target)) for target, words in _LINK.findall(cell)]
    cell = _LINK.sub("", cell)
    for words in _SUPER.findall(cell):
        names = [label_of(one) for one in re.split(r"[,，\s]+", words)]
        if all(name in known for name in names):
            found += names
            cell = cell.replace(f"\ue000{words}\ue001", "")
    cell = _SUPER.sub(r"\1", cell).strip()
    while (mark := _MARK.search(cell)) and mark.start() >= 0:
        label = label_of(next(one for one in mark.groups() if one))
        if label not in known or not cell[: mark.start()].strip():
            break
        found.insert(0, label)
        cell = cell[: mark.start()].strip()
    return cell, list(dict.fromkeys(found))


def _columns(header: list[list[str]]) -> list[str]:
    """Return the names of the columns; of several header rows, the names of a column joined."""
    if not header:
        return []
    return [" / ".join(dict.fromkeys(name for name in names if name)) for names in zip(*header, strict=False)]


def _shown(text: str) -> str:
    return _SUPER.sub(r"\1", _LINK.sub(lambda found: f"[{found[2] or found[1]}]", text)).strip()


def _parts(number: str) -> list[int]:
    return [int(part) for part in number.split(".") if part.isdigit()]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _depth(kind: str, number: str) -> int:
    if kind == "part":
        return 0
    if kind in ("chapter", "annex", "schedule"):
        return 1
    if kind == "article":
        return 9
    return 1 + number.count(".")
