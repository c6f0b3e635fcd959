"""HTML as blocks: paragraphs, headings, tables with merged cells, page breaks and links to notes.

A link to a note becomes `[^ID]`, as in Markdown; a superscript stands between U+E000 and U+E001.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from regreader.blocks import Block, Break, Grid, Para
from regreader.numbering import is_run_in

_BLOCKS: Final = frozenset({
    "p", "div", "li", "dd", "dt", "section", "article", "main", "body", "ul", "ol", "dl", "blockquote",
    "pre", "figcaption", "aside", "figure", "footer", "hr", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_SKIPPED: Final = frozenset({"script", "style", "nav", "head", "header", "template"})
_SELF_CLOSED: Final = re.compile(
    r"<((?:span|a|div|p|i|mbp:pagebreak|pagebreak|pb)\b)([^<>]*)/>", re.IGNORECASE
)
_NESTED: Final = re.compile(r"<(/?)(?:div|section|span|font|table|[uod]l|blockquote|[bi])\b", re.IGNORECASE)
_NESTED_MAX: Final = 2_000  # the parser takes time with the square of the depth: 2.5 s for 40,000
_MARK_NAME: Final = re.compile(r"(?:^|\s)(?:page|pdf-page|sheet|pb|pf|a4page|page[-_](?:container|wrapper|content|body))(?:$|\s)|(?<!no-)(?<!avoid-)\b(?:page|sheet)[-_]?(?:break|mark(?:er)?|separator|end)\b(?!-(?:inside|avoid|after))|\bnew-?page\b", re.IGNORECASE)  # fmt: skip
_NUMBER_NAME: Final = re.compile(r"page-?num(?:ber)?", re.IGNORECASE)
_PAGE_ID: Final = re.compile(r"(?:page|pg|p)[-_]?\d+", re.IGNORECASE)
_PAGE_TEXT: Final = re.compile(r"\W*(?:page|p\.|第)?\s*(?:-?break)?\s*[:：=]?\s*(\d*)\s*页?(?:\s*(?:of|/|共)\s*\d+)?\W*", re.IGNORECASE)  # fmt: skip
_BREAK_SIDE: Final = re.compile(r"break-(before|after)(?::always|:page|(?=[\s;])|$)")
_PAGE_DATA: Final = ("data-page", "data-page-number", "data-page-no")
_NUMBERED: Final = (*_PAGE_DATA, "data-n", "n", "title", "aria-label", "value", "id", "name")
_NOTE_LINK: Final = re.compile(r"[\[(（]?\s*(?:\d{1,3}|[a-zA-Z]|[*†‡§¶#※]{1,4}|注\s*\d+|[①-⑳]|note\s*\w{1,3})\s*[)）\]]?", re.IGNORECASE)  # fmt: skip
_LINE_OF_NOTES: Final = re.compile(
    r"\ue004\s*[.:。：]?|\ue003\s*(?=[*†‡§¶※①-⑳]|\ue000|(?:note|注)\s*\d)", re.IGNORECASE
)
_ITEM_NUMBER: Final = re.compile(r"\s*\w{1,2}\)\s*")
_GROUPS: Final = ("thead", "tbody", "tfoot")
_SPAN_MAX: Final = 100  # columns or rows of a merged cell


class TooDeep(Exception):
    """Elements are nested deeper than any regulation needs."""

    def __init__(self) -> None:
        super().__init__("its elements are nested too deeply: save it again as valid HTML")


def read_html(text: str) -> list[Block]:
    """Return the blocks of a page or of a part of one. Raises TooDeep."""
    text = _SELF_CLOSED.sub(r"<\1\2></\1>", text)
    depths = itertools.accumulate(-1 if found[1] else 1 for found in _NESTED.finditer(text))
    if max(depths, default=0) > _NESTED_MAX:
        raise TooDeep
    root = LexborHTMLParser(text).root
    try:  # comments stand before the root, too
        return _Reader().read(_children(root.parent)) if root is not None and root.parent is not None else []
    except RecursionError:
        raise TooDeep from None


class _Reader:
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.text: list[str] = []
        self.level, self.anchor = 0, ""
        self.numbers: list[int] = []  # the last number of each open ordered list

    def read(self, nodes: Iterator[LexborNode]) -> list[Block]:
        """Take nodes, and return all blocks."""
        for node in nodes:
            self._visit(node)
        self._end_paragraph()
        return self.blocks

    def _visit(self, node: LexborNode) -> None:
        tag, mark = node.tag or "", _mark_of(node)
        if mark:
            self._end_paragraph(mark)
        if tag == "-text":
            self.text.append(node.text_content or "")
        elif tag == "table":
            self._end_paragraph(*_grids(node))
        elif (
            tag[:1] not in "-!" and not _is_skipped(node) and not (mark and _PAGE_TEXT.fullmatch(node.text()))
        ):
            self._visit_element(node, tag)

    def _visit_element(self, node: LexborNode, tag: str) -> None:
        if tag in _BLOCKS:
            self._start_block(node, tag)
        self.anchor = self.anchor or node.attrs.sget("id")
        self.text += {"br": ["\ue003"], "sup": ["\ue000"]}.get(tag, [])
        start, count, href = len(self.text), len(self.blocks), node.attrs.sget("href")
        for child in _children(node):
            self._visit(child)
        self.text += ["\ue001"] if tag == "sup" else []
        if tag == "a" and count == len(self.blocks) and href.startswith("#"):
            words = "".join(self.text[start:]).strip().strip("\ue000\ue001").strip()
            if _NOTE_LINK.fullmatch(words):
                self.text[start:] = [f"[^{href[1:]}\ue002{words.strip(' []')}]"]
        if (
            tag in ("b", "strong")
            and not "".join(self.text[:start]).strip()
            and is_run_in("".join(self.text))
        ):
            self.text = ["".join(self.text).rstrip(" .:。："), "\ue004"]
        if tag in _BLOCKS:
            self._end_paragraph()
        if tag == "ol":
            self.numbers.pop()
        if _side(node) == "after":
            self._end_paragraph(Break())

    def _start_block(self, node: LexborNode, tag: str) -> None:
        if not _ITEM_NUMBER.fullmatch("".join(self.text)):  # the text of an item follows its number
            self._end_paragraph()
        self.level = int(tag[1]) if tag[0] == "h" and tag[1:].isdigit() else 0
        if tag == "ol":
            start = node.attrs.sget("start", "1")
            self.numbers.append(int(start) - 1 if start.isdigit() else 0)
        elif tag == "li" and node.parent is not None and node.parent.tag == "ol":
            self.numbers[-1] += 1  # numbered as browsers do
            last, is_letter = self.numbers[-1], node.parent.attrs.sget("type") == "a"
            self.text.append(f"{chr(96 + last) if is_letter and last <= 26 else last}) ")

    def _end_paragraph(self, *following: Block) -> None:
        text = " ".join("".join(self.text).split()).replace("\ue000\ue001", "")
        for part in _LINE_OF_NOTES.split(text):
            if line := " ".join(part.replace("\ue003", " ").split()):
                self.blocks.append(Para(line, self.level, self.anchor))
        self.anchor = "" if text or self.level else self.anchor
        self.text, self.level = [], 0
        for block in following:
            last = self.blocks[-1] if self.blocks else None
            if isinstance(block, Break) and isinstance(last, Break) and None in (last.number, block.number):
                last.number = block.number if last.number is None else last.number  # both are one break
            else:
                self.blocks.append(block)


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
    is_anchor = tag in ("a", "span", "hr") and _PAGE_ID.fullmatch(given.sget("id") or given.sget("name"))
    is_tag = tag in ("pb", "pagebreak", "mbp:pagebreak")
    is_named = _MARK_NAME.search(names) or is_tag or any(given.sget(name).isdigit() for name in _PAGE_DATA)
    is_mark, is_number = is_anchor or is_named, _NUMBER_NAME.search(names)
    words = _PAGE_TEXT.fullmatch(node.text()) if is_mark or is_number else None
    if is_number and words and words[1]:
        return Para(words.group().strip())
    if not is_mark and _side(node) != "before":
        return None
    told = re.search(r"\d+", " ".join([*map(given.sget, _NUMBERED), words[1] if words else ""]))
    return Break(int(told.group()) if told else None)


def _side(node: LexborNode) -> str:
    """Return the side on which a style or class breaks the page; an empty line breaks it where it stands."""
    found = _BREAK_SIDE.search(f"{node.attrs.sget('style').replace(' ', '')} {node.attrs.sget('class')}")
    return "" if found is None else "before" if node.tag in ("hr", "br") else found[1]


def _is_skipped(node: LexborNode) -> bool:
    is_imprint = node.tag == "footer" and not re.search(r"\d", node.text()) and not node.css_first("[id]")
    is_aid = node.attrs.sget("role") == "navigation" or node.attrs.sget("class") == "headerlink"
    return node.tag in _SKIPPED or is_imprint or is_aid


def _grids(table: LexborNode) -> Iterator[Block]:
    """Return the parts of a table, with the page marks between them."""
    caption = "".join(_words(one) for one in _children(table) if one.tag == "caption")
    rows: list[list[str]] = []
    below: dict[int, tuple[int, str]] = {}
    header = 0
    groups = (_children(one) if one.tag in _GROUPS else (one,) for one in _children(table))
    for node in itertools.chain.from_iterable(groups):
        if mark := _mark_of(node):
            yield from [*([Grid(rows, header, caption)] if rows else []), mark]
            rows, below, header, caption = [], {}, 0, f"{caption} (continued)" if caption else ""
        cells = [one for one in _children(node) if one.tag in ("td", "th")] if node.tag == "tr" else []
        if cells and not (mark and not node.text().strip()):
            is_head = node.parent is not None and node.parent.tag == "thead"
            if is_head or (all(one.tag == "th" for one in cells) and header == len(rows)):
                header = len(rows) + 1
            rows.append(_row(cells, below))
    if rows:
        yield Grid(rows, header, caption)


def _row(cells: list[LexborNode], below: dict[int, tuple[int, str]]) -> list[str]:
    """Return a row in which a merged cell stands in each place that it covers.

    below: for a column the number of rows that a cell above still covers, and its text; it is brought up to date.
    """
    row: list[str] = []
    for cell in [*cells, None]:
        while len(row) in below:
            left, text = below.pop(len(row))
            if left > 1:
                below[len(row)] = (left - 1, text)
            row.append(text)
        if cell is not None:
            down, text = _span(cell, "rowspan"), _words(cell)
            for _ in range(_span(cell, "colspan")):
                if down > 1:
                    below[len(row)] = (down - 1, text)
                row.append(text)
    return row


def _words(cell: LexborNode) -> str:
    """Return the text of a cell, with its marks of notes; of a table in it each text once."""
    blocks = _Reader().read(iter([cell]))
    texts = [one.text for one in blocks if isinstance(one, Para)]
    inner = (text for one in blocks if isinstance(one, Grid) for row in one.rows for text in row)
    return " ".join([*texts, *dict.fromkeys(inner)]).strip()


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next


def _span(cell: LexborNode, name: str) -> int:
    given = cell.attrs.sget(name)
    return min(int(given), _SPAN_MAX) if given.isdigit() and int(given) > 0 else 1
