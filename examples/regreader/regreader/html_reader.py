"""HTML as blocks: paragraphs, headings, tables with merged cells, page breaks and links to notes.

A link to a note becomes `[^ID]`, as in Markdown; a superscript stands between U+E000 and U+E001.
"""

import re
from html.parser import HTMLParser
from typing import Final

from regreader.blocks import Block, Break, Grid, Para

_BLOCKS: Final = frozenset({
    "p", "div", "li", "dd", "dt", "section", "article", "main", "body", "ul", "ol", "dl", "blockquote",
    "pre", "figcaption", "aside", "figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_SKIPPED: Final = frozenset({"script", "style", "nav", "head", "header", "template"})
_BREAK_CLASS: Final = re.compile(
    r"(?:^|[\s_-])(?:page-?break|pagebreak|page-?mark|pb|page-?number|page-?num|new-?page)(?:$|[\s_-])",
    re.IGNORECASE,
)
_PAGE_CLASS: Final = re.compile(r"(?:^|\s)(?:page|pdf-page|sheet)(?:$|\s)", re.IGNORECASE)
_NOTE_LINK: Final = re.compile(
    r"[\[(（]?\s*(?:\d{1,3}|[a-zA-Z]|[*†‡§¶#]{1,4}|注\s*\d+|[①-⑳]|note\s*\w{1,3})\s*[)）\]]?", re.IGNORECASE
)
_Attrs = dict[str, str]


def read_html(text: str) -> list[Block]:
    """Return the blocks of a page or of a part of one."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    reader.end_paragraph()
    return reader.blocks


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self.held: list[str] = []
        self.level, self.anchor = 0, ""
        self.skipped: list[str] = []
        self.table: _TableReader | None = None
        self.links: list[tuple[str, int]] = []
        self.page_text: tuple[str, list[str]] | None = None  # the tag of a page mark, and its text
        self.after: list[str] = []  # tags at whose end a page ends
        self.footer = 0  # the blocks before the open footer
        self.lists: list[tuple[str, int]] = []  # the type of each open list, and its last number

    # --- the parser's calls ---------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if self.skipped or tag in _SKIPPED:
            if tag in _SKIPPED or tag == self.skipped[-1]:
                self.skipped.append(tag)
            return
        if given.get("role") == "navigation" or given.get("class") == "headerlink":
            self.skipped.append(tag)
            return
        if self.page_text is not None or self._page_mark(tag, given):
            return
        if tag in _BLOCKS and self.table is None:
            if not re.fullmatch(
                r"\s*\w{1,2}\)\s*", "".join(self.held)
            ):  # the number of an item, whose text follows
                self.end_paragraph()
            self.level = int(tag[1]) if tag[0] == "h" and tag[1:].isdigit() else 0
        if tag == "footer":
            self.footer = len(self.blocks)
        self._list_item(tag, given)
        if given.get("id") and not self.anchor:
            self.anchor = given["id"]
        self._inline(tag, given)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("hr", "br", "img", "col", "meta", "link", "input"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.skipped:
            if tag == self.skipped[-1]:
                self.skipped.pop()
            return
        if self.page_text is not None:
            if tag == self.page_text[0]:
                self._end_page_mark()
            return
        if tag == "sup":
            self.text.append("\ue001")
        elif tag == "a":
            self._end_link()
        elif self.table is not None:
            self._end_in_table(tag)
        elif tag in _BLOCKS:
            self.end_paragraph()
            if tag in ("ol", "ul") and self.lists:
                self.lists.pop()
            elif tag == "footer":  # only its page number is of use
                self.blocks[self.footer :] = [
                    one
                    for one in self.blocks[self.footer :]
                    if isinstance(one, Para) and re.search(r"\d", one.text)
                ]
        if self.after and tag == self.after[-1]:
            self.after.pop()
            self.end_paragraph()
            self.blocks.append(Break(None))

    def handle_data(self, data: str) -> None:
        if self.page_text is not None:
            self.page_text[1].append(data)
        elif not self.skipped:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        found = re.fullmatch(
            r"\s*(?:page|p\.|第)\s*(?:-?break)?\s*[:：=]?\s*(\d*)\s*(?:页)?\s*", data, re.IGNORECASE
        )
        if found and not self.skipped:
            self._break(int(found[1]) if found[1] else None)

    # --- parts ----------------------------------------------------------------------------

    @property
    def text(self) -> list[str]:
        """Return the list that takes the text that comes."""
        return self.held if self.table is None else self.table.text

    def end_paragraph(self) -> None:
        text = " ".join("".join(self.held).split()).replace("\ue000\ue001", "")
        for line in re.split(r"\ue003\s*(?=[*†‡§¶①-⑳]|\ue000|(?:note|注)\s*\d)", text, flags=re.IGNORECASE):
            if line := " ".join(line.replace("\ue003", " ").split()):
                self.blocks.append(Para(line, self.level, self.anchor))
        if text or self.level:
            self.anchor = ""
        self.held, self.level = [], 0

    def _list_item(self, tag: str, given: _Attrs) -> None:
        """Put a number before an item of an ordered list, as browsers do."""
        if tag in ("ol", "ul"):
            start = given.get("start", "1")
            self.lists.append(
                (given.get("type", "1") if tag == "ol" else "", int(start) - 1 if start.isdigit() else 0)
            )
        elif tag == "li" and self.lists and self.table is None:
            kind, last = self.lists[-1]
            self.lists[-1] = (kind, last + 1)
            if kind:
                self.held.append(f"{chr(97 + last) if kind == 'a' and last < 26 else last + 1}) ")

    def _inline(self, tag: str, given: _Attrs) -> None:
        if tag == "br":
            self.text.append(" " if self.table else "\ue003")
        elif tag == "sup":
            self.text.append("\ue000")
        elif tag == "a":
            self.links.append((given.get("href", ""), len(self.text)))
        elif tag == "hr":
            self.end_paragraph()
        elif tag == "table":
            if self.table is None:
                self.end_paragraph()
            self.table = self.table or _TableReader()
        elif self.table is not None:
            self.table.start(tag, given)

    def _end_link(self) -> None:
        if not self.links:
            return
        href, at = self.links.pop()
        words = "".join(self.text[at:]).strip().strip("\ue000\ue001")
        if href.startswith("#") and _NOTE_LINK.fullmatch(words.strip()):
            del self.text[at:]
            self.text.append(f"[^{href[1:]}\ue002{words.strip(' []')}]")

    def _end_in_table(self, tag: str) -> None:
        assert self.table is not None
        if tag != "table":
            self.table.end(tag)
            return
        self.table.end("tr")
        grid = self.table.grid()
        self.table, self.anchor = None, ""
        if grid.rows:
            self.blocks.append(grid)

    # --- page marks -----------------------------------------------------------------------

    def _page_mark(self, tag: str, given: _Attrs) -> bool:
        """Take a page mark. Return True if the element is nothing else."""
        names = f"{given.get('class', '')} {given.get('epub:type', '')} {given.get('role', '').replace('doc-', '')}"
        style = given.get("style", "").replace(" ", "")
        if _BREAK_CLASS.search(names) or tag in ("pb", "mbp:pagebreak"):
            if tag in (
                "h1",
                "h2",
                "h3",
                "h4",
                "h5",
                "h6",
                "table",
                "section",
                "article",
                "p",
            ) and not self._number(given):
                self._break(None)
                return False
            self._break(self._number(given))
            if tag not in ("hr", "br", "pb", "mbp:pagebreak"):
                self.page_text = (tag, [])
            return True
        if (
            _PAGE_CLASS.search(names)
            or given.get("data-page", "").isdigit()
            or "page-break-before:always" in style
            or "break-before:page" in style
        ):
            self._break(self._number(given))
        elif "page-break-after:always" in style or "break-after:page" in style:
            if tag in ("hr", "br"):
                self._break(None)
            else:
                self.after.append(tag)
        elif tag in ("a", "span", "hr") and re.fullmatch(
            r"page[-_]?\d+|p\d+|pg[-_]?\d+", given.get("id", ""), re.IGNORECASE
        ):
            self._break(self._number(given))
            if tag == "hr":
                return True
        return False

    @staticmethod
    def _number(given: _Attrs) -> int | None:
        for name in ("data-page", "data-page-number", "data-n", "n", "title", "aria-label", "value", "id"):
            found = re.search(r"\d+", given.get(name, ""))
            if found:
                return int(found.group())
        return None

    def _break(self, number: int | None) -> None:
        """End the page. Within a table the break waits for its end: its parts are one grid."""
        self.end_paragraph()
        if self.table is not None:
            self._split_table()
        self.blocks.append(Break(number))

    def _split_table(self) -> None:
        assert self.table is not None
        grid, caption = self.table.grid(), self.table.caption
        if grid.rows:
            self.blocks.append(grid)
        self.table = _TableReader()
        self.table.caption = [*caption, " (continued)"] if "".join(caption).strip() else []

    def _end_page_mark(self) -> None:
        assert self.page_text is not None
        found = re.search(r"\d+", "".join(self.page_text[1]))
        last = self.blocks[-1] if self.blocks else None
        if found and isinstance(last, Break) and last.number is None:
            last.number = int(found.group())
        self.page_text = None


class _TableReader:
    """A table whose merged cells stand in each place that they cover."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.header = 0
        self.caption: list[str] = []
        self.row: list[str] | None = None
        self.below: dict[int, tuple[int, str]] = {}  # column -> the rows that a cell still covers, its text
        self.cell: list[str] | None = None
        self.spans = (1, 1)
        self.is_head = self.has_data = self.in_caption = False

    @property
    def text(self) -> list[str]:
        return self.caption if self.in_caption else (self.cell if self.cell is not None else [])

    def start(self, tag: str, given: _Attrs) -> None:
        if tag == "caption":
            self.in_caption = True
        elif tag == "thead":
            self.is_head = True
        elif tag == "tr":
            self.end("tr")
            self.row, self.has_data = [], False
        elif tag in ("td", "th"):
            self.end("td")
            self.row = [] if self.row is None else self.row
            self.has_data = self.has_data or tag == "td"
            self.cell = []
            self.spans = (_span(given.get("rowspan")), _span(given.get("colspan")))
        elif tag in ("p", "li", "div") and self.cell:
            self.cell.append(" ")

    def end(self, tag: str) -> None:
        if tag == "caption":
            self.in_caption = False
        elif tag == "thead":
            self.is_head = False
        elif tag in ("td", "th") and self.cell is not None:
            self._end_cell(self.cell)
        elif tag == "tr" and self.row is not None:
            self.end("td")
            self._fill()
            if self.is_head or (not self.has_data and self.header == len(self.rows)):
                self.header = len(self.rows) + 1
            if self.row:
                self.rows.append(self.row)
            self.row = None

    def _end_cell(self, given: list[str]) -> None:
        assert self.row is not None
        self._fill()
        text = " ".join("".join(given).split())
        down, across = self.spans
        for _ in range(across):
            if down > 1:
                self.below[len(self.row)] = (down - 1, text)
            self.row.append(text)
        self.cell = None

    def _fill(self) -> None:
        """Put the cells of rows above that reach into this place."""
        assert self.row is not None
        while (covered := self.below.get(len(self.row))) is not None:
            left, text = covered
            if left > 1:
                self.below[len(self.row)] = (left - 1, text)
            else:
                del self.below[len(self.row)]
            self.row.append(text)

    def grid(self) -> Grid:
        width = max(map(len, self.rows), default=0)
        rows = [row + [""] * (width - len(row)) for row in self.rows]
        return Grid(rows, self.header, " ".join("".join(self.caption).split()))


def _span(given: str | None) -> int:
    return min(int(given), 1_000) if given and given.isdigit() and int(given) > 0 else 1
