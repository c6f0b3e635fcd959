"""HTML and Markdown as blocks. A superscript that can be the label of a note is written as `[1]`."""

import itertools
import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser, LexborNode

from regreader.blocks import Block, Break, Grid, Para, Unreadable, check_size
from regreader.text_reader import read_text

_BLOCKS = frozenset({
    "p", "div", "li", "dd", "dt", "section", "article", "main", "body", "ul", "ol", "dl", "blockquote",
    "figcaption", "aside", "figure", "footer", "hr", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_SKIPPED = frozenset({"script", "style", "nav", "head", "template", "_comment"})
_NESTED = re.compile(r"<(/?)(?:div|section|span|font|table|[uod]l|blockquote|[bi])\b", re.IGNORECASE)
_TOO_DEEP = "its elements are nested too deeply: save it again as valid HTML"
_NESTED_MAX = 2_000  # the parser takes time with the square of the depth: 2.5 s for 40,000
_COMMENT = re.compile(r"\s*page\s*-?(?:break)?\s*[:=]?\s*(\d*)\s*", re.IGNORECASE)
_ROLE = re.compile(r"\b(?:doc-)?pagebreak\b")
_LABEL = re.compile(r"\s*(?:\d{1,2}|[a-z]|[*†‡§¶#]{1,4})\s*")
_SPAN_MAX = 100  # columns or rows of a merged cell


def read_markdown(text: str) -> list[Block]:
    """Return the blocks of Markdown (CommonMark with tables). A form feed is a page mark."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    return read_html(parser.render(text.replace("\f", "\n\n<!-- page -->\n\n")))


def read_html(text: str) -> list[Block]:
    """Return the blocks of a page. Raises Unreadable."""
    depths = itertools.accumulate(-1 if found[1] else 1 for found in _NESTED.finditer(text))
    if max(depths, default=0) > _NESTED_MAX:
        raise Unreadable(_TOO_DEEP)
    root = LexborHTMLParser(text).root
    try:  # comments stand before the root, too
        return _Reader().read(_children(root.parent)) if root is not None and root.parent is not None else []
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None


class _Reader:
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.text: list[str] = []
        self.level = 0
        self.numbers: list[int] = []  # the last number of each open ordered list

    def read(self, nodes: Iterable[LexborNode]) -> list[Block]:
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
        elif tag == "pre":
            self._end_paragraph(*read_text(node.text()))
        elif tag[:1] not in "-!" and tag not in _SKIPPED and not mark:
            self._visit_element(node, tag)

    def _visit_element(self, node: LexborNode, tag: str) -> None:
        if "headerlink" in node.attrs.sget("class"):
            return
        is_block, start = tag in _BLOCKS, len(self.text)
        if is_block:
            self._end_paragraph()
            self.level = int(tag[1]) if tag[0] == "h" and tag[1:].isdigit() else 0
            self._number_item(node, tag)
        self.text += [" "] if tag == "br" else []
        for child in _children(node):
            self._visit(child)
        if tag == "sup" and _LABEL.fullmatch(label := "".join(self.text[start:])):
            self.text[start:] = [f"[{label.strip()}]"]
        if is_block:
            self._end_paragraph()
        if tag == "ol":
            self.numbers.pop()

    def _number_item(self, node: LexborNode, tag: str) -> None:
        """Put the number of an item of a list before its text, as browsers do."""
        if tag == "ol":
            start = node.attrs.sget("start", "1")
            self.numbers.append(int(start) - 1 if start.isdecimal() else 0)
        elif tag == "li" and node.parent is not None and node.parent.tag == "ol":
            self.numbers[-1] += 1
            last, is_letter = self.numbers[-1], node.parent.attrs.sget("type") == "a"
            self.text.append(f"{chr(96 + last) if is_letter and last <= 26 else last}) ")

    def _end_paragraph(self, *following: Block) -> None:
        text = " ".join("".join(self.text).split())
        if re.fullmatch(r"\w{1,3}\)", text) and not following:
            return  # the number of an item, whose text is a paragraph in it
        self.blocks += [*([Para(text, self.level)] if text else []), *following]
        self.text, self.level = [], 0


def _mark_of(node: LexborNode) -> Break | None:
    """Return the page mark that a comment or an element with the role of a page break is."""
    if node.tag == "-comment":
        found = _COMMENT.fullmatch(node.comment_content or "")
        return Break(int(found[1]) if found[1] else None) if found else None
    if (node.tag or "-")[0] in "-!":
        return None
    given = node.attrs
    if not _ROLE.search(f"{given.sget('epub:type')} {given.sget('role')}"):
        return None
    told = " ".join([*(given.sget(name) for name in ("aria-label", "title")), node.text(), given.sget("id")])
    number = re.search(r"\d+", told)
    return Break(int(number.group()) if number else None)


def _grids(table: LexborNode) -> Iterator[Block]:
    """Return the parts of a table, with the page marks between them."""
    caption, header = "", 0
    rows: list[list[LexborNode]] = []
    parts = [*_children(table)]
    groups = (_children(one) if one.tag in ("thead", "tbody", "tfoot") else (one,) for one in parts)
    for node in itertools.chain.from_iterable(groups):
        if node.tag == "caption":
            caption = _words(node)
        if mark := _mark_of(node):
            if rows:
                yield _grid(rows, header, caption)
            yield mark
            rows, header = [], 0
        cells = [one for one in _children(node) if one.tag in ("td", "th")] if node.tag == "tr" else []
        if cells:
            is_head = node.parent is not None and node.parent.tag == "thead"
            if is_head or (all(one.tag == "th" for one in cells) and header == len(rows)):
                header = len(rows) + 1
            rows.append(cells)
    if rows:
        yield _grid(rows, header, caption)


def _grid(rows: list[list[LexborNode]], header: int, caption: str) -> Grid:
    """Return a table in which a merged cell stands in each place that it covers."""
    texts: dict[tuple[int, int], str] = {}
    for at, cells in enumerate(rows):
        place = 0
        for cell in cells:
            place = next(one for one in itertools.count(place) if (at, one) not in texts)
            down = range(at, min(at + _span(cell, "rowspan"), len(rows)))
            over = range(place, place + _span(cell, "colspan"))
            texts |= dict.fromkeys(itertools.product(down, over), _words(cell))
            check_size(len(texts))
    width = 1 + max(place for _, place in texts)
    check_size(width * len(rows))
    whole = [[texts.get((at, one), "") for one in range(width)] for at in range(len(rows))]
    return Grid(whole, header, caption)


def _words(cell: LexborNode) -> str:
    """Return the text of a cell, with its marks of notes; of a table in it each text once."""
    blocks = _Reader().read(_children(cell))
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
    return min(int(given), _SPAN_MAX) if given.isdecimal() and int(given) > 0 else 1
