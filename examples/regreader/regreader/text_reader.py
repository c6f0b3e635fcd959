"""Plain text as blocks: paragraphs between empty lines, underlined titles, and form feeds as page marks."""

import re
from collections.abc import Iterator

from regreader.blocks import Block, Break, Para
from regreader.numbering import heading_of
from regreader.words import joined

_UNDERLINE = re.compile(r"\s*([=*~#^\"'+-])\1{2,}\s*")
_LEVELS: dict[str, int] = {"*": 1, "=": 2}
_END = re.compile(r"(?:[.;:!?,)。；：，]|\b(?:and|or))\s*$|^\s*\S{1,40}\s*$")
_ITEM = re.compile(r"\s*(?:[(（]?\w{1,3}[)）.]|[-*•o+])\s")


def read_text(text: str) -> list[Block]:
    """Return the blocks of a text. Only a text with form feeds has pages."""
    pages, blocks = text.strip("\n\f ").split("\f"), list[Block]()
    for number, page in enumerate(pages, 1):
        blocks += [Break(number)] if len(pages) > 1 else []
        blocks += _paragraphs(page)
    return blocks


def _paragraphs(page: str) -> Iterator[Para]:
    lines: list[str] = []
    for line in [*page.split("\n"), ""]:
        under = _UNDERLINE.fullmatch(line)
        if len(lines) == 1 and under and re.search(r"\w", lines[0]):
            yield Para(lines[-1].strip(), _LEVELS.get(under[1], 3), is_alone=True)
            lines = []
        elif not line.strip() or (lines and _begins(line, lines[-1])):
            yield from _paragraph(lines)
            lines = [line] if line.strip() else []
        elif not under:
            lines.append(line)


def _begins(line: str, before: str) -> bool:
    """Return True for a line that begins an item of a list or a place, though no empty line is before it."""
    if not _END.search(before):
        return False
    found = heading_of(line.strip())
    is_place = found is not None and found.is_named and bool(found.title) and line.strip()[0] != "§"
    return is_place or _ITEM.match(line) is not None


def _paragraph(lines: list[str]) -> Iterator[Para]:
    if lines:
        indent = len(lines[0]) - len(lines[0].lstrip())
        yield Para(joined([line.strip() for line in lines]), indent=indent, is_alone=len(lines) == 1)
