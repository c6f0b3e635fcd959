"""Pages of blocks put together to a regulation: its sections, with their tables and notes."""

import itertools
import re
from collections.abc import Sequence

from regreader import numbering
from regreader.blocks import Block, Grid, Para
from regreader.regulation import Place, Regulation, note_of
from regreader.tables import Tables
from regreader.words import LINK, SUPER, shown

_TITLED = ("chapter", "part", "annex", "schedule")
_DOTS = re.compile(r"(?:\s*[.…·_]){3,60}\s*\d+\s*$")  # that lead to a page in a table of contents
_CAPTION_MAX = 120  # characters of a title that stands below the number of its table
_UNIT = re.compile(
    r"(?i)[(（\[]?\s*(?:units?\s*[:：]|units?\s+in\b|单位|(?:all\s+)?dimensions\s+(?:are\s+)?in\b)"
)
_FIRST_MAX = 50  # the first section: higher numbers are years
_DEPTHS = {"annex": -3, "schedule": -3, "part": -2, "chapter": -1, "article": 9}


def regulation_of(name: str, title: str, source: str, pages: Sequence[tuple[int, list[Block]]]) -> Regulation:
    """Put the blocks of all pages together."""
    builder = _Builder(Regulation(name, title, source), [block for _, blocks in pages for block in blocks])
    for number, blocks in pages:
        builder.add_page(number, blocks)
    return builder.end()


class _Builder:
    def __init__(self, made: Regulation, blocks: list[Block]) -> None:
        paras = [one for one in blocks if isinstance(one, Para)]
        self.contents = _contents_in(paras)
        told = [one for one in paras if id(one) not in self.contents]
        heads = [(one.level, head) for one in told if (head := numbering.heading_of(one.text, one.level))]
        self.made, self.tables, self.page = made, Tables(), 0
        self.path: list[Place] = []
        self.last: dict[str, Place] = {}  # of each kind
        self.ids: set[str] = set()
        self.caption: numbering.Heading | None = None
        self.loose: list[Place] = []  # notes that links lead to
        self.linking: dict[str, str] = {}  # the section of the first link to a note
        self.is_first = False  # nothing but a caption stood on this page before
        self.is_after_table = False  # a table, or notes of it, stood before, perhaps on the page before
        self.is_noting = False  # the paragraph before was a note of the open table
        self.has_title = False
        self.labels, self.is_act = _linked(blocks), _is_act(paras)
        self.is_marked = sum(level > 0 for level, _ in heads) > 2
        kinds, numbers = (
            {head.kind for _, head in heads},
            [head.number for _, head in heads if head.kind == "section"],
        )
        is_dotted, is_again = any("." in one for one in numbers), numbers.count("1") > 1
        has_words = any(one.text[0].isalpha() or one.text[0] == "§" for one in told if _is_top(one))
        self.is_named = has_words or (
            "article" in kinds and not is_dotted
        )  # "Section 1", and a 1 alone is an item
        self.is_restarting = (
            is_again and bool(kinds & {"chapter", "part"}) and not (self.is_named or is_dotted)
        )
        self.item: tuple[str, bool, int] | None = (
            None  # of a list: its sign, if it is in capitals, its number
        )

    def add_page(self, number: int, blocks: list[Block]) -> None:
        self.page, self.is_first = number, True
        told: list[str] = []
        for at, block in enumerate(blocks):
            told += [self._para(block, blocks[at + 1 : at + 4])] if isinstance(block, Para) else []
            told += [self._grid(block)] if isinstance(block, Grid) else []
        self.made.pages[number] = "\n".join(filter(None, told))

    def end(self) -> Regulation:
        made = self.made
        self.tables.finish(self.loose, self.labels)
        made.tables, made.notes = self.tables.made, made.notes + self.loose
        made.link()
        if not made.tables and not made.sections and made.pages:
            made.sections.append(Place("front", "0", made.title, min(made.pages), max(made.pages), level=1))
        return made

    def _para(self, block: Para, following: list[Block]) -> str:
        """Take a paragraph, and return it as it is shown."""
        text, level = block.text, block.level
        if block.anchor in self.labels and not level:
            return self._linked_note(block.anchor, text)
        if self._is_caption(block, _is_above_table(following)) or self._is_table_note(block):
            return shown(text)
        is_top, self.is_first, self.is_after_table = self.is_first, False, False
        if re.fullmatch(r"[-_=─—*]{3,}", text):
            return text
        found = None if level else re.match(r"(\d{1,2})([.．、)）]?)(?=\s)", text)
        item = (found[2], text.isupper(), int(found[1])) if found else None
        goes_on = item and self.item and item == (*self.item[:2], self.item[2] + 1)  # the next item of a list
        self.item = item
        heading = None if goes_on or id(block) in self.contents else numbering.heading_of(text, level)
        names = [(one.kind, one.number, one.title.casefold()) for one in self.path]
        if is_top and heading and (*heading[:2], heading.title.casefold()) in names:
            return ""  # a running head that is the title of the open chapter
        if self.is_act and not heading and not level:
            heading = numbering.act_heading_of(text)
        if heading and (level or self._fits(heading, text)):
            self.item = None
            self._open_section(heading, block)
        elif not level and self.is_noting:
            self.tables.open, self.is_noting = None, False
            self._add(shown(text))
        elif level and not self.has_title and not self.made.sections:
            self.has_title, self.made.title = True, shown(text)
        elif level and not self._titles_last(text):
            self._start("heading", shown(text), shown(text), level + 10)
        elif not level and not self._titles_last(text):
            self._add(shown(text))
        for target, _ in LINK.findall(text):
            self.linking.setdefault(target, self._where())
        return shown(text)

    def _is_caption(self, block: Para, is_above_table: bool) -> bool:
        """Take the caption of a table, or its title on a line of its own. Return True if it is one."""
        text, caption, before = block.text, numbering.caption_of(block.text), self.caption
        is_title = is_above_table and not (caption or block.level) and len(text) < _CAPTION_MAX
        if caption and before and before.title and before.number == caption.number and is_above_table:
            self.caption = before._replace(
                title=f"{before.title} {caption.title}".strip()
            )  # in two languages
        elif caption and (block.level or is_above_table):
            self.caption = caption
        elif before and is_above_table and _UNIT.match(text):
            return True
        elif before and is_title and not before.title:
            self.caption = before._replace(title=numbering.plain_title(text))
        else:
            return (
                caption is not None
                and self.is_after_table
                and (not caption.number or self.tables.name(caption))
            )
        return True

    def _is_table_note(self, block: Para) -> bool:
        """Take a note of the open table. Return False for other texts; a lone note is text, too."""
        text, table = block.text, self.tables.open
        if table is None or (self.is_first and not self.is_after_table):
            notes, is_named = numbering.notes_of(text) or [], re.match(r"(?i)note|注", text) is not None
            where = self._where() if is_named else self._marked(shown(text)) if notes else ""
            if where or is_named:
                self.made.notes += [note_of(label, words, self.page, where) for label, words in notes]
            return bool(where) and not is_named
        found = numbering.notes_of(text, self._is_label)
        heading = None if text[0] in "nN注备" else numbering.heading_of(text, block.level)
        if found is None or (heading and (block.level or self._fits(heading, text))):
            return False
        self.is_noting = self.is_after_table = True
        table.notes += [note_of(label, one, self.page, table.parent, table.number) for label, one in found]
        return True

    def _marked(self, text: str) -> str:
        """Return the id of the section that has the sign of a footnote on this page; "" without one."""
        found = re.match(r"[*†‡§¶#※]+|\d+|\S", text)
        sign = found.group() if found else ""
        mark = re.compile(rf"[^\W\d][.,;)]?{re.escape(sign)}(?!\w)|\d[.,;)]?{re.escape(sign)}(?!\w)(?<!\d)")
        is_emphasis = text.count(sign) > 1 and not sign.isdigit()
        if is_emphasis or any((self.page, sign) == (one.page, one.number) for one in self.made.notes):
            return ""  # or the next item of a list
        near = [(one, page, said) for one in self.made.sections[-5:] for page, said in one.text[-10:]]
        marked = (
            one
            for one, page, said in near
            if (page, said.count(sign)) == (self.page, 1) and mark.search(said)
        )
        return next((one.id for one in marked), "")

    def _is_label(self, label: str) -> bool:
        """Return True if a cell of the open table has this mark, or its notes are numbered like that."""
        before = self.tables.open.notes[-1].number if self.tables.open and self.tables.open.notes else "0"
        follows = before == "0" or ((before + label).isdigit() and int(label) == int(before) + 1)
        return (self.is_noting and follows) or self.tables.has_mark(label)

    def _linked_note(self, anchor: str, text: str) -> str:
        """Take the note that links lead to, without its own label and its links back."""
        label = self.labels[anchor]
        text = LINK.sub("", text, count=1) if text.startswith("[^") else text
        text = (
            re.sub(r"\s*(?:↩|⤴|\^|back)\ufe0e?\s*$", "", SUPER.sub("", text, count=1))
            .strip()
            .lstrip(")）.:：、 ")
        )
        text = LINK.sub("", text).strip() if text.endswith("]") else text
        own = rf"[\[(（]?(?:note|注)?\s*{re.escape(label)}[\])）.:：、\s]+"
        text = shown(re.sub(rf"^{own}", "", text, flags=re.IGNORECASE))
        where = self.linking.get(anchor, self._where())
        self.loose.append(note_of(label, text, self.page, where, anchor=anchor))
        return f"[{label}] {text}"

    def _titles_last(self, text: str) -> bool:
        """Take a short line below "Annex B" or "第三章" for its title. Return True if it is one."""
        last = self.made.sections[-1] if self.made.sections else None
        kinds = (*_TITLED, "article") if last and last.text else (*_TITLED, "article", "section")
        if last is None or last.kind not in kinds or last.title or not _is_title(text):
            return False
        if is_bare := all(_is_reference(line) for _, line in last.text):
            last.title = numbering.plain_title(shown(text))
        return is_bare

    def _fits(self, heading: numbering.Heading, text: str) -> bool:
        """Return True if a number can follow the ones before it."""
        kind, number, before = heading.kind, heading.number, self.last.get(heading.kind)
        if kind in _TITLED or not re.fullmatch(r"\d+(?:\.\d+)*", number):
            return numbering.Target(kind, number).id not in self.ids
        if kind == "article":
            return before is None or [int(number)] > _parts(before.number)
        if self.is_named and number.isdigit() and text[0].isdigit():
            return False
        if self.is_marked and "." not in number:
            return False  # an item of a list, as headings of this depth are marked
        if text.startswith("第") and number.isdigit() and "chapter" in self.last:
            return f"{self.last['chapter'].number}.{number}" not in self.ids
        if before is None:
            return int(number.split(".")[0]) <= _FIRST_MAX
        if self.path and self.path[-1].kind != "section" and number.isdigit() and text[0].isdigit():
            follows = before.number.isdigit() and int(number) == int(before.number) + 1
            return int(number) <= 2 or follows  # the first section of a chapter, or an item of a list
        return _follows(_parts(before.number), _parts(number)) or (self.is_restarting and number == "1")

    def _open_section(self, heading: numbering.Heading, block: Para) -> None:
        kind, number, above = heading.kind, heading.number, {one.kind: one.number for one in self.path}
        is_of_chapter = block.text.startswith("第") or (self.is_restarting and block.level != 1)
        if kind == "section" and number.isdigit() and "chapter" in above and is_of_chapter:
            number = f"{above['chapter']}.{number}"
        elif kind == "section" and re.fullmatch(r"[\d.]+", number) and "annex" in above:
            number = f"{above['annex']}.{number}" if number in self.ids or "." not in number else number
        is_text = heading.goes_on or (kind in _TITLED and _is_reference(heading.title))
        title, text = ("", heading.title) if is_text else (heading.title, "")
        if is_text and (bracketed := re.fullmatch(r"[（【〔]([^）】〕\d一二三]{2,20})[）】〕]\s*(.+)", text)):
            title, text = bracketed.groups()  # 第一条【目的】为了……
        if self.is_act and heading.goes_on and kind == "article":
            title = self._title_above() or title
        self._start(kind, number, title, _DEPTHS.get(kind, 1 + number.count(".")))
        self._add(shown(text))

    def _title_above(self) -> str:
        """Take the line above an article of an act for its title; return "" for other text."""
        last = self.made.sections[-1] if self.made.sections else None
        if last and last.kind == "heading" and not last.text:
            self.path.remove(self.made.sections.pop())
            return last.title
        return last.text.pop()[1] if last and last.text and _is_title(last.text[-1][1]) else ""

    def _start(self, kind: str, number: str, title: str, level: int) -> None:
        while self.path and (self.path[-1].level >= level or self.path[-1].kind == "front"):
            self.path.pop()
        section = Place(kind, number, shown(title), self.page, self.page, self._where(), level)
        self.tables.open, self.caption, self.is_noting, self.has_title = None, None, False, True
        self.path.append(section)
        self.made.sections.append(section)
        self.last[kind] = section
        self.ids.add(section.id)

    def _add(self, text: str) -> None:
        """Add a paragraph to the open section."""
        if not self.path and text:
            if not (self.has_title or self.made.title) and len(text) < _CAPTION_MAX:
                self.made.title = text
            self._start("front", "0", "", 1)
        if text:
            self.path[-1].text.append((self.page, text))
            self._reach()

    def _reach(self) -> None:
        for one in self.path:
            one.page_end = self.page

    def _where(self) -> str:
        return self.path[-1].id if self.path else ""

    def _grid(self, block: Grid) -> str:
        """Take a table, and return it as it is shown."""
        first = {*block.rows[0]} if len(block.rows) > 1 else set()
        if len(first) == 1 and numbering.caption_of(min(first)):  # a caption over all columns
            block = Grid(block.rows[1:], max(block.header - 1, 0), min(first))
        title, rows = block.caption, [[shown(cell) for cell in row] for row in block.rows]
        caption = numbering.caption_of(title) or (
            numbering.Heading("table", "", title) if title else self.caption
        )
        if caption is None and all(
            len(row) == 2 and re.fullmatch(r"[(（]?\w{1,4}[)）.]|[—–•-]|\d+(?:\.\d+)+", row[0])
            for row in block.rows
        ):
            return "\n".join([self._para(Para(" ".join(row)), []) for row in rows])  # a list in two columns
        self.tables.add(block, caption, self.page, self._where(), self.is_first)
        self._reach()
        self.caption, self.is_first, self.is_noting, self.is_after_table = None, False, False, True
        return "\n".join([*([shown(title)] if title else []), *(f"| {' | '.join(row)} |" for row in rows)])


def _contents_in(paras: list[Para]) -> set[int]:
    """Return the ids of paragraphs with dots to a page number, or in a row of headings that come again."""
    bare = [re.sub(rf"{_DOTS.pattern}|\s+\d+\s*$", "", one.text) for one in paras]
    keys = [re.sub(r"\W", "", text).casefold() if numbering.heading_of(text, 1) else "" for text in bare]
    last = {key: at for at, key in enumerate(keys)}
    again = [False, *(bool(key) and last[key] > at for at, key in enumerate(keys)), False]
    beside = [again[at] and (again[at - 1] or again[at + 1]) for at in range(1, len(paras) + 1)]
    for at in range(1, len(paras)):  # an entry whose heading has more words, as "Annex A 6"
        beside[at] |= beside[at - 1] and bare[at] != paras[at].text and bool(keys[at])
    return {id(one) for one, is_in in zip(paras, beside, strict=True) if is_in or _DOTS.search(one.text)}


def _is_act(paras: list[Para]) -> bool:
    """Return True if bare numbers are those of articles: they count through, and no other ones are there."""
    bare = [head.number for one in paras if (head := numbering.act_heading_of(one.text))]
    kinds = {head.kind for one in paras if (head := numbering.heading_of(one.text, 0))}
    is_told = any(numbering.ACT.match(one.text) for one in paras)
    counts = len(bare) > 2 and bare == [str(at + 1) for at in range(len(bare))]
    return is_told or (counts and not kinds & {"section", "article"})


def _linked(blocks: list[Block]) -> dict[str, str]:
    """Return the words of links to notes, by the id they lead to."""
    labels: dict[str, str] = {}
    for block in blocks:
        cells = itertools.chain.from_iterable(block.rows) if isinstance(block, Grid) else ()
        texts = [block.text] if isinstance(block, Para) else cells
        for text, (target, words) in ((one, link) for one in texts for link in LINK.findall(one)):
            if isinstance(block, Grid) or not text.startswith(f"[^{target}"):
                labels.setdefault(target, numbering.label_of(words or target))
    return labels


def _is_above_table(blocks: list[Block]) -> bool:
    """Return True if a table follows, at most two short paragraphs such as its unit between."""
    between = list(itertools.takewhile(lambda one: not isinstance(one, Grid), blocks))
    is_short = all(isinstance(one, Para) and not one.level and len(one.text) <= 60 for one in between)
    names = [one for one in between if isinstance(one, Para) and numbering.caption_of(one.text)]
    return is_short and len(between) < len(blocks) and not (names and len(between) > 1)


def _is_top(para: Para) -> bool:
    """Return True for the heading of a section with a plain number, such as "Section 1. Scope"."""
    heading = numbering.heading_of(para.text, para.level)
    return heading is not None and heading.kind == "section" and heading.number.isdigit()


def _is_title(text: str) -> bool:
    return len(text) <= 60 and text[-1] not in ".。;；:：,，" and not _is_reference(text)


def _is_reference(text: str) -> bool:
    """Return True for a line that names the place of a schedule in its act, such as "(Article 3)"."""
    return any(text.strip("()（） ") == words for words, _ in numbering.references_in(text))


def _follows(last: list[int], new: list[int]) -> bool:
    """Return True if the number of a section can come after another."""
    pairs = enumerate(zip(last, new, strict=False))
    shared = next((at for at, (one, other) in pairs if one != other), min(len(last), len(new)))
    if new <= last or len(new) > shared + 2:
        return False
    step = new[shared] - (last[shared] if shared < len(last) else 0)
    is_clause = len(new) > 2 and shared >= 2  # a further clause of a section, also where some are left out
    return is_clause or (step <= 5 and all(part <= 3 for part in new[shared + 1 :]))


def _parts(number: str) -> list[int]:
    return [int(part) for part in number.split(".") if part.isdigit()]
