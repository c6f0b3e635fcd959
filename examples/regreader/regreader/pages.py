"""Page marks of texts: form feeds with running heads, footers, and comments.

`mark_pages` turns each into a line of its own: NUL, `t` for a footer or `b` for a break, and the number.
"""

import itertools
import re
from collections import Counter
from typing import Final

from regreader.blocks import Block, Break, Para
from regreader.numbering import caption_of
from regreader.words import half_width

PAGE_COMMENT: Final = re.compile(r"<!--\s*(?:page|p\.|第)\s*[:：=]?\s*(\d+)\s*(?:页)?\s*-->", re.IGNORECASE)
_FOOTERS: Final = [
    re.compile(r"[-–—_=*~·\s]*(?:\[|\()?\s*(?:Page|Pg\.?|p\.)\s*(\d+)\s*(?:(?:of|/)\s*\d+)?\s*(?:\]|\))?[-–—_=*~·\s]*", re.IGNORECASE),
    re.compile(r"[-–—_=*~·\s]*第\s*(\d+)\s*页(?:[\s，,/]*共\s*\d+\s*页)?[-–—_=*~·\s]*"),
    re.compile(r"[-–—_=*~·]+\s*(\d+)\s*[-–—_=*~·]+"),
    re.compile(r"(\d+)\s*/\s*\d+"),
    re.compile(r"(\d{1,4})"),
    re.compile(r"[^|]{1,80}?[\s|—–-]+(?:Page|p\.)\s*(\d+)(?:\s*(?:of|/)\s*\d+)?", re.IGNORECASE),
    re.compile(r"[^|]{1,80}?第\s*(\d+)\s*页(?:[\s，,/]*共\s*\d+\s*页)?"),
]  # fmt: skip
_ENDS: Final = 3  # lines at the top and at the end of a page that may be running ones
_SHARE: Final = 0.8  # of the pages that have a running line
_TABLE_SIGNS: Final = "|+┌├└│║╔╠╚┏┣┗┃"


def mark_pages(text: str) -> str:
    """Return a text with its page marks as lines of their own, and without running heads."""
    if text.count("\f"):
        return _by_form_feeds(text.strip("\f\n ").split("\f"))
    if re.search(r"^\s*<!--\s*page", text, re.MULTILINE | re.IGNORECASE):
        return text
    return _by_footers(text.split("\n"))


def _by_form_feeds(parts: list[str]) -> str:
    pages = [part.strip("\n").split("\n") for part in parts]
    heads, numbers = _running(pages)
    found = [f"\x00b{numbers.get(0, 1)}"]
    for place, lines in enumerate(pages):
        if place:
            found.append(f"\x00b{numbers.get(place, '')}")
        found += [line for at, line in enumerate(lines) if (place, at) not in heads]
    return "\n".join(found)


def _running(pages: list[list[str]]) -> tuple[set[tuple[int, int]], dict[int, int]]:
    """Return the places of running lines, from the outermost line of each page inwards, and the page numbers."""
    heads: set[tuple[int, int]] = set()
    offset: int | None = None
    for side in (-1, 0):
        left = {
            place: [at for at, line in enumerate(lines) if line.strip()] for place, lines in enumerate(pages)
        }
        for depth in range(_ENDS):
            outer = {place: ats[side] for place, ats in left.items() if ats}
            texts = {place: " ".join(half_width(pages[place][at]).split()) for place, at in outer.items()}
            found = _common(texts, len(pages))
            if not found:
                found = _counting(texts, len(pages), is_foot=side == -1, is_outer=depth == 0)
                told = _offset(found)
                if not found or told is None or offset not in (None, told):
                    break
                offset = told
            for place in found:
                heads.add((place, outer[place]))
                del left[place][side]
    return heads, {} if offset is None else {place: place + offset for place in range(len(pages))}


def _common(texts: dict[int, str], pages: int) -> dict[int, str]:
    """Return the lines that are equal on most pages, or on most left and on most right ones."""
    found: dict[int, str] = {}
    for parity in [(0, 1)] if pages < 4 else [(0, 1), (0,), (1,)]:
        given = {place: text for place, text in texts.items() if place % 2 in parity and place not in found}
        text, count = (Counter(given.values()).most_common(1) or [("", 0)])[0]
        if (
            count >= max(2, _SHARE * (pages * len(parity) / 2 - 1))
            and not caption_of(text)
            and text[0] not in _TABLE_SIGNS
        ):
            found |= {place: one for place, one in given.items() if one == text}
    return found if len(found) >= _SHARE * (pages - 1) else {}


def _counting(texts: dict[int, str], pages: int, is_foot: bool, is_outer: bool) -> dict[int, str]:
    """Return the lines that hold a number which counts the pages.

    A foot must look like one, since a last sentence can count, too; and so must an inner line.
    """
    texts = {place: text for place, text in texts.items() if not caption_of(text)}
    if is_foot or not is_outer:
        texts = {
            place: text for place, text in texts.items() if any(form.fullmatch(text) for form in _FOOTERS)
        }
    told = _numbers(texts) or _numbers(
        {place: text for place, text in texts.items() if re.search(r"\d", text)}, last=True
    )
    found = {place: text for place, text in texts.items() if str(told.get(place)) in re.findall(r"\d+", text)}
    return found if len(found) >= max(2, _SHARE * (pages - 1)) else {}


def _offset(texts: dict[int, str]) -> int | None:
    """Return the difference between the number in a line and the place of its page."""
    told = _numbers(texts) or _numbers(texts, last=True)
    return next((number - place for place, number in told.items()), None)


def _numbers(texts: dict[int, str], last: bool = False) -> dict[int, int]:
    """Return the page numbers in running lines: the digits that count with the pages. last: try the last only."""
    runs = {place: [int(one) for one in re.findall(r"\d+", text)] for place, text in texts.items()}
    for at in [-1] if last else range(min((len(one) for one in runs.values()), default=0)):
        offsets = Counter(one[at] - place for place, one in runs.items() if one)
        offset, count = (offsets.most_common(1) or [(0, 0)])[0]
        if count >= _SHARE * len(runs) and len(runs) > 1:
            return {place: place + offset for place in runs}
    return {}


def _by_footers(lines: list[str]) -> str:
    """Mark the lines of the one form of footer whose numbers count up by one."""
    best: list[tuple[int, int]] = []
    for form in _FOOTERS:
        found = [
            (at, int(match[1])) for at, line in enumerate(lines) if (match := form.fullmatch(line.strip()))
        ]
        if _counts(found) and len(found) > len(best):
            best = found
    marks = dict(best)
    ends = [line for at, line in enumerate(lines) if at not in marks]
    if not marks or not ends:
        return "\n".join(lines)
    return "\n".join(f"\x00t{marks[at]}" if at in marks else line for at, line in enumerate(lines))


def _counts(found: list[tuple[int, int]]) -> bool:
    steps = [after[1] - before[1] for before, after in itertools.pairwise(found)]
    return (len(found) == 1 and found[0][1] == 1) or (bool(steps) and steps.count(1) >= 0.8 * len(steps))


def paged(blocks: list[Block]) -> list[tuple[int, list[Block]]]:
    """Return the blocks of each page, with its number.

    A mark stands at the end of its page if it is a footer: text before the first mark, none after the last.
    """
    blocks = _without_footers(blocks)
    marks = [at for at, one in enumerate(blocks) if isinstance(one, Break)]
    numbers = [one.number for one in blocks if isinstance(one, Break)]
    if not marks:
        return [(1, blocks)]
    is_text = all(one.is_text for one in blocks if isinstance(one, Break))
    is_foot = marks[0] > 0 and numbers[0] is not None and (is_text or marks[-1] == len(blocks) - 1)
    cuts = [-1, *marks, len(blocks)]
    parts = [blocks[start + 1 : end] for start, end in itertools.pairwise(cuts)]
    return _without_heads(_with_feet(parts, numbers) if is_foot else _with_heads(parts, numbers))


def _without_heads(pages: list[tuple[int, list[Block]]]) -> list[tuple[int, list[Block]]]:
    """Drop the first paragraph of pages that most pages have in common."""
    firsts = [first.text for _, blocks in pages if blocks and isinstance(first := blocks[0], Para)]
    text, count = (Counter(firsts).most_common(1) or [("", 0)])[0]
    if count >= max(3, _SHARE * len(pages)) and not caption_of(text):
        for _, blocks in pages:
            if blocks and isinstance(first := blocks[0], Para) and first.text == text:
                del blocks[0]
    return pages


def _without_footers(blocks: list[Block]) -> list[Block]:
    """Turn paragraphs that are footers into page marks; drop them where there are marks of another kind."""
    best: dict[int, int] = {}
    for form in _FOOTERS:
        texts = [(at, one.text) for at, one in enumerate(blocks) if isinstance(one, Para) and not one.level]
        found = [(at, int(match[1])) for at, text in texts if (match := form.fullmatch(text))]
        if _counts(found) and len(found) > len(best):
            best = dict(found)
    if any(isinstance(one, Break) for one in blocks):
        return [one for at, one in enumerate(blocks) if at not in best]
    return [Break(best[at], True) if at in best else one for at, one in enumerate(blocks)]


def _with_feet(parts: list[list[Block]], numbers: list[int | None]) -> list[tuple[int, list[Block]]]:
    pages: list[tuple[int, list[Block]]] = []
    for part, number in zip(parts, [*numbers, None], strict=True):
        last = pages[-1][0] if pages else 0
        pages.append((number if number is not None and number > last else last + 1, part))
    return pages if parts[-1] else pages[:-1]


def _with_heads(parts: list[list[Block]], numbers: list[int | None]) -> list[tuple[int, list[Block]]]:
    pages: list[tuple[int, list[Block]]] = []
    first = next((number for number in numbers if number is not None), None)
    if parts[0] and first == 1 == numbers[0]:
        parts[1] = parts[0] + parts[1]  # a title before the mark of the first page
    elif parts[0]:
        pages.append((1 if first is None else max(1, first - 1 - numbers.index(first)), parts[0]))
    for part, number in zip(parts[1:], numbers, strict=True):
        last = pages[-1][0] if pages else 0
        pages.append((number if number is not None and number > last else last + 1, part))
    return pages
