"""HTML as blocks. A link to a note becomes `[^ID]`, and U+E000 and U+E001 stand around a superscript."""

import itertools
import re
from collections.abc import Iterable, Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from regreader.blocks import Block, Break, Grid, Para, Unreadable, check_size
from regreader.numbering import is_run_in
from regreader.words import half_width

_BLOCKS = frozenset({
    "p", "div", "li", "dd", "dt", "section", "article", "main", "body", "ul", "ol", "dl", "blockquote",
    "pre", "figcaption", "aside", "figure", "footer", "hr", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_SELF_CLOSED = re.compile(r"<((?:span|a|div|p|i|mbp:pagebreak|pagebreak|pb)\b)([^<>]*)/>", re.IGNORECASE)  # fmt: skip
_NESTED = re.compile(r"<(/?)(?:div|section|span|font|table|[uod]l|blockquote|[bi])\b", re.IGNORECASE)
_TOO_DEEP = "its elements are nested too deeply: save it again as valid HTML"
_NESTED_MAX = 2_000  # the parser takes time with the square of the depth: 2.5 s for 40,000
_MARK_NAME = re.compile(r"(?:^|\s)(?:page|pdf-page|sheet|pb|pf|a4page|page[-_](?:container|wrapper|content|body))(?:$|\s)|(?<!no-)(?<!avoid-)\b(?:page|sheet)[-_]?(?:break|mark(?:er)?|separator|end)\b(?!-(?:inside|avoid|after))|\bnew-?page\b", re.IGNORECASE)  # fmt: skip
_PAGE_TEXT = re.compile(r"\W*(?:page|p\.|第)?\s*(?:-?break)?\s*[:：=]?\s*(\d*)\s*页?(?:\s*(?:of|/|共)\s*\d+)?\W*", re.IGNORECASE)  # fmt: skip
_PAGE_DATA = ("data-page", "data-page-number", "data-page-no")
_NUMBERED = (*_PAGE_DATA, "data-n", "n", "title", "aria-label", "value", "id", "name")
_NOTE_LINK = re.compile(r"[\[(（]?\s*(?:\d{1,3}|[a-zA-Z]|[*†‡§¶#※]{1,4}|注\s*\d+|[①-⑳]|note\s*\w{1,3})\s*[)）\]]?", re.IGNORECASE)  # fmt: skip
_LINE_OF_NOTES = re.compile(r"\ue004\s*[.:。：]?|\ue003\s*(?=[*†‡§¶※①-⑳]|\ue000|(?:note|注)\s*\d)", re.IGNORECASE)  # fmt: skip
_NUMBER = re.compile(r"\s*(?:\w{1,2}\)|(?:[A-Z]\.)?\d+(?:\.\d+)+)\s*")
_SPAN_MAX = 100  # columns or rows of a merged cell


def read_html(text: str) -> list[Block]:
    """Return the blocks of a page or of a part of one. Raises Unreadable."""
    text = _SELF_CLOSED.sub(r"<\1\2></\1>", text)
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
        self.level, self.anchor = 0, ""
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
        elif not (_is_skipped(node, tag) or (mark and _PAGE_TEXT.fullmatch(node.text()))):
            self._visit_element(node, tag)

    def _visit_element(self, node: LexborNode, tag: str) -> None:
        if tag in _BLOCKS:
            self._start_block(node, tag)
        name = node.attrs.sget("name") if tag == "a" else ""
        is_note = re.match(r"_?(?:ft?n|edn|foot|note)(?!ref)", name)  # as Word names its footnotes
        self.anchor = name if is_note else self.anchor or node.attrs.sget("id") or name
        self.text += {"br": ["\ue003"], "sup": ["\ue000"]}.get(tag, [])
        start, count, href = len(self.text), len(self.blocks), node.attrs.sget("href")
        for child in _children(node):
            self._visit(child)
        self.text += ["\ue001"] if tag == "sup" else []
        if tag == "a" and count == len(self.blocks) and href.startswith("#"):
            words = "".join(self.text[start:]).strip().strip("\ue000\ue001").strip()
            if _NOTE_LINK.fullmatch(words):
                self.text[start:] = [f"[^{href[1:]}\ue002{words.strip(' []')}]"]
        if tag == "span" and self.level and self.text and self.text[-1].rstrip()[-1:].isdigit():
            self.text.append(" ")  # between the number of a heading and its title
        said = "".join(self.text) if tag in ("b", "strong") else ""
        if said and not "".join(self.text[:start]).strip() and is_run_in(said):
            self.text = [said.rstrip(" .:。："), "\ue004"]
        if tag == "dt" and _NUMBER.fullmatch("".join(self.text)):
            self.text.append(" ")  # before its text
        elif tag in _BLOCKS:
            self._end_paragraph()
        if tag == "ol":
            self.numbers.pop()
        if _side(node) == "after":
            self._end_paragraph(Break())

    def _start_block(self, node: LexborNode, tag: str) -> None:
        if not _NUMBER.fullmatch("".join(self.text)):  # the text of an item follows its number
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
        lines = (" ".join(part.replace("\ue003", " ").split()) for part in _LINE_OF_NOTES.split(text))
        self.blocks += [Para(half_width(line), self.level, self.anchor) for line in lines if line]
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
    anchor = given.sget("id") or given.sget("name") if tag in ("a", "span", "hr") else ""
    is_named = _MARK_NAME.search(names) or any(given.sget(name).isdigit() for name in _PAGE_DATA)
    is_tag, is_anchor = tag.endswith(("pb", "pagebreak")), re.fullmatch(r"(?i)(?:page|pg|p)[-_]?\d+", anchor)
    is_mark = is_named or is_tag or is_anchor
    is_number = re.search(r"page-?num(?:ber)?", names, re.IGNORECASE)
    words = _PAGE_TEXT.fullmatch(node.text()) if is_mark or is_number else None
    if is_number and words and words[1]:
        return Para(words.group().strip())
    if not is_mark and _side(node) != "before":
        return None
    told = re.search(r"\d+", " ".join([*map(given.sget, _NUMBERED), words[1] if words else ""]))
    return Break(int(told.group()) if told else None)


def _side(node: LexborNode) -> str:
    """Return the side on which a style or class breaks the page; an empty line breaks it where it stands."""
    style = f"{node.attrs.sget('style').replace(' ', '')} {node.attrs.sget('class')}"
    found = re.search(r"break-(before|after)(?::always|:page|(?=[\s;])|$)", style)
    return "" if found is None else "before" if node.tag in ("hr", "br") else found[1]


def _is_skipped(node: LexborNode, tag: str) -> bool:
    if tag[:1] in "-!" or tag in ("script", "style", "nav", "head", "template"):
        return True
    if tag == "header":
        return node.css_first("h2, h3, h4, h5, h6") is None
    is_imprint = tag == "footer" and not re.search(r"\d", node.text()) and not node.css_first("[id]")
    return is_imprint or node.attrs.sget("role") == "navigation" or node.attrs.sget("class") == "headerlink"


def _grids(table: LexborNode) -> Iterator[Block]:
    """Return the parts of a table, with the page marks between them."""
    parts = sorted(_children(table), key=lambda one: one.tag == "tfoot")
    caption = "".join(_words(one) for one in parts if one.tag == "caption")
    rows: list[list[LexborNode]] = []
    header = 0
    groups = (_children(one) if one.tag in ("thead", "tbody", "tfoot") else (one,) for one in parts)
    for node in itertools.chain.from_iterable(groups):
        if mark := _mark_of(node):
            yield from [*([_grid(rows, header, caption)] if rows else []), mark]
            rows, header, caption = [], 0, f"{caption} (continued)" if caption else ""
        cells = [one for one in _children(node) if one.tag in ("td", "th")] if node.tag == "tr" else []
        if cells and not (mark and not node.text().strip()):
            is_head = node.parent is not None and node.parent.tag == "thead"
            if is_head or (all(one.tag == "th" for one in cells) and header == len(rows)):
                header = len(rows) + 1
            rows.append(cells)
    if rows:
        yield _grid(rows, header, caption)


def _grid(rows: list[list[LexborNode]], header: int, caption: str) -> Grid:
    """Return a table in which a merged cell stands in each place that it covers."""
    spans = [(_span(cell, "rowspan"), _span(cell, "colspan")) for cell in rows[0]]
    high = max(down for down, _ in spans)
    is_grouped = any(
        down < high and over > 1 for down, over in spans
    )  # two rows are the header, marked or not
    header = high if is_grouped and not header else header
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
    blocks = _Reader().read([cell])
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
