"""HTML as blocks: paragraphs, headings, tables with merged cells, page breaks and links to notes.

A link to a note becomes `[^ID]`, as in Markdown; a superscript stands between U+E000 and U+E001.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from regreader.blocks import Block, Break, Grid, Para

_BLOCKS: Final = frozenset({
    "p", "div", "li", "dd", "dt", "section", "article", "main", "body", "ul", "ol", "dl", "blockquote",
    "pre", "figcaption", "aside", "figure", "footer", "hr", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_SKIPPED: Final = frozenset({"script", "style", "nav", "head", "header", "template"})
_BREAK_NAME: Final = re.compile(
    r"(?:^|[\s_-])(?<!no-)(?<!avoid-)(?:page-?break|page-?mark|pb|new-?page)(?!-?(?:inside|avoid))(?:$|[\s_-])",
    re.IGNORECASE,
)
_PAGE_NAME: Final = re.compile(r"(?:^|\s)(?:page|pdf-page|sheet)(?:$|\s)", re.IGNORECASE)
_NUMBER_NAME: Final = re.compile(r"page-?num(?:ber)?", re.IGNORECASE)
_PAGE_ID: Final = re.compile(r"(?:page|pg|p)[-_]?\d+", re.IGNORECASE)
_PAGE_TEXT: Final = re.compile(
    r"\W*(?:page|p\.|第)?\s*(?:-?break)?\s*[:：=]?\s*(\d*)\s*页?(?:\s*(?:of|/|共)\s*\d+)?\W*", re.IGNORECASE
)
_BREAK_SIDE: Final = re.compile(r"(?:page-)?break-(before|after)(?::always|:page|(?=[\s;])|$)")
_NUMBERED: Final = ("data-page", "data-page-number", "data-n", "n", "title", "aria-label", "value", "id")
_NOTE_LINK: Final = re.compile(
    r"[\[(（]?\s*(?:\d{1,3}|[a-zA-Z]|[*†‡§¶#]{1,4}|注\s*\d+|[①-⑳]|note\s*\w{1,3})\s*[)）\]]?", re.IGNORECASE
)
_LINE_OF_NOTES: Final = re.compile(r"\ue003\s*(?=[*†‡§¶①-⑳]|\ue000|(?:note|注)\s*\d)", re.IGNORECASE)
_SPAN_MAX: Final = 1_000
_NESTED: Final = re.compile(
    r"<(/?)(?:div|section|article|span|font|table|[uod]l|blockquote|[biu]|em|strong)\b(?![^>]*/>)",
    re.IGNORECASE,
)
_DEPTH_MAX: Final = 2_000  # the parser takes time with the square of the depth: 2.5 s for 40,000


class TooDeep(Exception):
    """Elements are nested deeper than any regulation needs."""


def read_html(text: str) -> list[Block]:
    """Return the blocks of a page or of a part of one. Raises TooDeep."""
    depths = itertools.accumulate(-1 if found[1] else 1 for found in _NESTED.finditer(text))
    if max(depths, default=0) > _DEPTH_MAX:
        raise TooDeep(f"its elements are nested more than {_DEPTH_MAX:,} deep")
    reader, root = _Reader(), LexborHTMLParser(text).root
    for node in _children(root.parent) if root is not None and root.parent is not None else ():
        reader.read(node)  # comments stand before the root, too
    return reader.blocks


class _Reader:
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.text: list[str] = []
        self.level, self.anchor = 0, ""
        self.lists: list[int] = []  # the last number of each open list
        self.links: list[int] = []  # the place in the text where each open link begins

    def read(self, root: LexborNode) -> list[Block]:
        """Visit all nodes, without recursion, because strangers' elements can be nested deeply."""
        node: LexborNode | None = root
        while node is not None:
            is_open = self._start(node)
            child = node.first_child if is_open else None
            if is_open and child is None:
                self._end(node)
            node = child or self._after(node, root)
        self._end_paragraph()
        return self.blocks

    def _after(self, node: LexborNode, root: LexborNode) -> LexborNode | None:
        while node.mem_id != root.mem_id:
            if node.next is not None:
                return node.next
            assert node.parent is not None
            node = node.parent
            self._end(node)
        return None

    def _start(self, node: LexborNode) -> bool:
        """Take the start of a node. Return True if its children are to be read."""
        tag = node.tag or ""
        if tag == "-text":
            self.text.append(node.text_content or "")
        if mark := _mark_of(node):
            self._end_paragraph()
            self._take_mark(mark)
        if tag[:1] in "-!" or _is_skipped(node) or (mark and _PAGE_TEXT.fullmatch(node.text())):
            return False
        if tag in _BLOCKS:
            self._start_block(node, tag)
        self.anchor = self.anchor or node.attrs.sget("id")
        return self._start_inline(node, tag)

    def _take_mark(self, mark: Break | Para) -> None:
        last = self.blocks[-1] if self.blocks else None
        if isinstance(mark, Break) and isinstance(last, Break) and None in (last.number, mark.number):
            last.number = mark.number if last.number is None else last.number
        else:
            self.blocks.append(mark)

    def _start_block(self, node: LexborNode, tag: str) -> None:
        if not re.fullmatch(
            r"\s*\w{1,2}\)\s*", "".join(self.text)
        ):  # the number of an item, its text follows
            self._end_paragraph()
        self.level = int(tag[1]) if tag[0] == "h" and tag[1:].isdigit() else 0
        if tag in ("ol", "ul"):
            start = node.attrs.sget("start", "1")
            self.lists.append(int(start) - 1 if start.isdigit() else 0)
        elif tag == "li" and self.lists and node.parent is not None and node.parent.tag == "ol":
            self.lists[-1] += 1  # numbered as browsers do
            last, is_letter = self.lists[-1], node.parent.attrs.sget("type") == "a"
            self.text.append(f"{chr(96 + last) if is_letter and last <= 26 else last}) ")

    def _start_inline(self, node: LexborNode, tag: str) -> bool:
        if tag == "table":
            self._end_paragraph()
            self.blocks += _grids(node)
            self.anchor = ""
        elif tag in ("br", "sup"):
            self.text.append("\ue003" if tag == "br" else "\ue000")
        elif tag == "a":
            self.links.append(len(self.text))
        return tag != "table"

    def _end(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "sup":
            self.text.append("\ue001")
        elif tag == "a":
            self._end_link(node.attrs.sget("href"), self.links.pop())
        elif tag in _BLOCKS:
            self._end_paragraph()
            if tag in ("ol", "ul"):
                self.lists.pop()
        if tag not in ("hr", "br") and _side(node) == "after":
            self._end_paragraph()
            self._take_mark(Break())

    def _end_link(self, href: str, start: int) -> None:
        words = "".join(self.text[start:]).strip().strip("\ue000\ue001").strip()
        if href.startswith("#") and _NOTE_LINK.fullmatch(words):
            self.text[start:] = [f"[^{href[1:]}\ue002{words.strip(' []')}]"]

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self.text).split()).replace("\ue000\ue001", "")
        for part in _LINE_OF_NOTES.split(text):
            if line := " ".join(part.replace("\ue003", " ").split()):
                self.blocks.append(Para(line, self.level, self.anchor))
        if text or self.level:
            self.anchor = ""
        self.text, self.level = [], 0
        self.links = [0] * len(self.links)


# --- page marks ---------------------------------------------------------------------------


def _mark_of(node: LexborNode) -> Break | Para | None:
    """Return the page mark that a node is or begins with; a printed page number is a paragraph of its own."""
    tag = node.tag or ""
    if tag == "-comment":
        found = _PAGE_TEXT.fullmatch(node.comment_content or "")
        return Break(int(found[1]) if found[1] else None) if found and found.group().strip() else None
    if tag[:1] in "-!":
        return None
    given = node.attrs
    names = f"{given.sget('class')} {given.sget('epub:type')} {given.sget('role').replace('doc-', '')}"
    words = (
        _PAGE_TEXT.fullmatch(node.text()) if _BREAK_NAME.search(names) or _NUMBER_NAME.search(names) else None
    )
    if words and words[1] and _NUMBER_NAME.search(names):
        return Para(words.group().strip())
    is_mark = (_BREAK_NAME.search(names) or tag in ("pb", "mbp:pagebreak")) and _side(node) != "after"
    is_page = _PAGE_NAME.search(names) or given.sget("data-page").isdigit() or _side(node) == "before"
    is_anchor = tag in ("a", "span", "hr") and _PAGE_ID.fullmatch(given.sget("id"))
    if not is_mark and not is_page and not is_anchor:
        return None
    told = re.search(r"\d+", " ".join(given.sget(name) for name in _NUMBERED)) or (
        words and re.search(r"\d+", words[1])
    )
    return Break(int(told.group()) if told else None)


def _side(node: LexborNode) -> str:
    """Return the side on which a style or class breaks the page; an empty line breaks it where it stands."""
    words = f"{node.attrs.sget('style').replace(' ', '')} {node.attrs.sget('class')}"
    found = _BREAK_SIDE.search(words)
    return "" if found is None else "before" if node.tag in ("hr", "br") else found[1]


def _is_skipped(node: LexborNode) -> bool:
    given = node.attrs
    is_navigation = given.sget("role") == "navigation" or given.sget("class") == "headerlink"
    is_imprint = node.tag == "footer" and not re.search(r"\d", node.text())
    return node.tag in _SKIPPED or is_navigation or is_imprint


# --- tables -------------------------------------------------------------------------------


def _grids(table: LexborNode) -> Iterator[Block]:
    """Return the parts of a table, with the page marks between them."""
    part = _Part("".join(_words(one) for one in _children(table) if one.tag == "caption"))
    for node in _rows(table):
        if mark := _mark_of(node):
            yield from [*part.grids(), mark]
            part = _Part(f"{part.caption} (continued)" if part.caption else "")
        if node.tag == "tr" and not (mark and not node.text().strip()):
            part.add(node)
    yield from part.grids()


class _Part:
    """The part of a table on one page. A merged cell stands in each place that it covers."""

    def __init__(self, caption: str) -> None:
        self.caption = caption
        self.rows: list[list[str]] = []
        self.header = 0
        self.below: dict[int, tuple[int, str]] = {}  # column -> the rows that a cell still covers, its text

    def add(self, node: LexborNode) -> None:
        cells = [one for one in _children(node) if one.tag in ("td", "th")]
        is_head = node.parent is not None and node.parent.tag == "thead"
        if is_head or (all(one.tag == "th" for one in cells) and self.header == len(self.rows)):
            self.header = len(self.rows) + 1
        row: list[str] = []
        for cell in cells:
            self._fill(row)
            down, text = _span(cell, "rowspan"), _words(cell)
            for _ in range(_span(cell, "colspan")):
                if down > 1:
                    self.below[len(row)] = (down - 1, text)
                row.append(text)
        self._fill(row)
        if row:
            self.rows.append(row)

    def _fill(self, row: list[str]) -> None:
        """Put the cells of rows above that reach into this place."""
        while len(row) in self.below:
            left, text = self.below.pop(len(row))
            if left > 1:
                self.below[len(row)] = (left - 1, text)
            row.append(text)

    def grids(self) -> list[Block]:
        width = max(map(len, self.rows), default=0)
        rows = [row + [""] * (width - len(row)) for row in self.rows]
        return [Grid(rows, self.header, self.caption)] if rows else []


def _words(cell: LexborNode) -> str:
    """Return the text of a cell, with its marks of notes."""
    texts: list[str] = []
    for block in _Reader().read(cell):
        texts += [block.text] if isinstance(block, Para) else []
        texts += [" ".join(row) for row in block.rows] if isinstance(block, Grid) else []
    return " ".join(texts)


def _rows(table: LexborNode) -> Iterator[LexborNode]:
    for node in _children(table):
        yield from _children(node) if node.tag in ("thead", "tbody", "tfoot") else [node]


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next


def _span(cell: LexborNode, name: str) -> int:
    given = cell.attrs.sget(name)
    return min(int(given), _SPAN_MAX) if given.isdigit() and int(given) > 0 else 1
