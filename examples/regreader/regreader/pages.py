"""The pages of a file, from its page marks, running heads and feet, and printed page numbers."""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from regreader.blocks import Break, Item, Para
from regreader.numbering import caption_of, heading_of
from regreader.words import half_width, has_han

_PAGE = re.compile(r"[\W_]*(?:page|pg|p|seite|folio|sheet|第)[\W_]*(?:no\W*)?(\d+)[\W_]*页?(?:\W*(?:of|共)?\W*\d+\W*页?)?[\W_]*", re.IGNORECASE)  # fmt: skip
_FOOTERS = [
    _PAGE,
    re.compile(r"(?:[^\w|]|_)*(?:[A-Z\d]{1,3}-)?(\d{1,4})(?:\W+Page|\s*(?:/|of)\s*\d+)?(?:[^\w|]|_)*", re.IGNORECASE),
    re.compile(r"[^|]{1,80}?[\s|—–-]+[\[(]?(?:Page|p\.)\s*(\d+)(?:\s*(?:of|/)\s*\d+)?[\])]?", re.IGNORECASE),
    re.compile(r"[^|]{1,80}?第\s*(\d+)\s*页(?:[\s，,/]*共\s*\d+\s*页)?"),
    re.compile(r"[^|]{1,80}?\s[·•|]\s(\d{1,4})"),
]  # fmt: skip
_FRONT = re.compile(r"(?i)[-–—－\s]*(?:page\s+)?[ivxlⅠ-Ⅻ]+[-–—－\s]*")  # the page of a preface
_Texts = list[tuple[int, str]]  # places of items, and their texts
_FOOTER_MAX = 120  # characters
_ENDS = 3  # lines at the top and at the end of a page that may be running ones
_ENDS_OF_TEXT = (".", "。", ";", "；", ":", "：")
_SHARE = 0.8  # of the pages that have a running line
_SHARE_OF_EQUAL = 0.3  # of the pages that have one and the same, such as left ones


def paged(items: list[Item]) -> list[tuple[int, list[Item]]]:
    """Return the items of each page, with its number, without running heads and feet."""
    if not any(isinstance(one, Break) for one in items):
        items = _with_footers_as_marks(items)
    marks = [one for one in items if isinstance(one, Break)]
    ends = [at for at, one in enumerate(items) if isinstance(one, Break)]
    parts = [items[start + 1 : end] for start, end in itertools.pairwise([-1, *ends, len(items)])]
    numbers = [None, *(one.number for one in marks)]
    is_foot = bool(marks) and marks[0].number is not None and not _is_blank(parts[0])
    is_headed = not _is_blank(parts[-1]) and (
        numbers[1:2] == [2] or _is_title(parts[0])
    )  # page 1 has no mark
    if is_foot and not is_headed and (all(one.is_foot for one in marks) or _is_blank(parts[-1])):
        numbers = [*numbers[1:], None]  # the marks stand at the ends of their pages
    for at in (0, -1):
        if len(parts) > 1 and _is_blank(parts[at]) and numbers[at] is None:
            del parts[at], numbers[at]
    offset = _without_running(parts, numbers)
    if offset is not None and not any(numbers):
        numbers = [at + offset for at in range(len(parts))]
    return _numbered(parts, numbers)


def _is_blank(part: list[Item]) -> bool:
    return all(isinstance(one, str) and not one.strip("-*_= ") for one in part)


def _numbered(parts: list[list[Item]], numbers: list[int | None]) -> list[tuple[int, list[Item]]]:
    """Give a number to pages that have none, by those that have one; numbers only go up."""
    first, place = next(((one, at) for at, one in enumerate(numbers) if one is not None), (1, 0))
    while len(parts) > 1 and (first <= place or (place == 1 and _is_title(parts[0]))):  # or a preface
        parts[:2], numbers, place = [parts[0] + parts[1]], numbers[1:], place - 1
    last = max(first - place - 1, 0)
    pages = []
    for part, number in zip(parts, numbers, strict=True):
        last = number if number is not None and number > last else last + 1
        pages.append((last, part))
    return pages


def _words(item: Item) -> str | None:
    """Return the text of a line or paragraph; None for headings, unless they name a page, and for tables."""
    if not isinstance(item, Para | str):
        return None
    raw, level = (item, item.startswith("#")) if isinstance(item, str) else (item.text, item.level)
    text = re.sub(r"</?\w+>|[*_`]+", "", half_width(raw.lstrip("#"))).strip()
    text = re.sub(r"\s+", lambda gap: "  " if len(gap.group()) > 2 else " ", text)  # a wide gap stays
    return None if level and not _PAGE.fullmatch(text) else text


def _is_title(part: list[Item]) -> bool:
    """Return True for a page that has nothing but a heading, as before the mark of the first page."""
    there = [one for one in part if not _is_blank([one])]
    return len(there) == 1 and _words(there[0]) is None


def _with_footers_as_marks(items: list[Item]) -> list[Item]:
    """Turn the lines of the one form of footer whose numbers count up by one into page marks."""
    texts = [(at, text) for at, one in enumerate(items) if (text := _words(one)) and len(text) < _FOOTER_MAX]
    lone = {at: text for at, text in texts if _is_blank(items[max(at - 1, 0) : at] + items[at + 1 : at + 2])}
    texts = [one for one in texts if "|" not in one[1] or one[0] in lone]  # rows of tables have bars, too
    best: dict[int, int] = {}
    for found in _numbers_in(texts, [*lone.items()]):
        steps = [after - before for before, after in itertools.pairwise(found.values())]
        counts = [*found.values()] == [1] or (steps and steps.count(1) >= _SHARE * len(steps))
        best = found if counts and len(found) > len(best) else best
    return [Break(best[at], True) if at in best else one for at, one in enumerate(items)]


def _numbers_in(texts: _Texts, lone: _Texts) -> Iterator[dict[int, int]]:
    """Yield the numbers of texts in one form of footer, and of lone ones that are alike but for their numbers."""
    for form in _FOOTERS:
        yield {at: int(match[1]) for at, text in texts if (match := form.fullmatch(text))}
    alike = defaultdict[str, dict[int, list[str]]](dict)
    for at, text in lone:
        numbers, heading = re.findall(r"\d{1,6}", text), heading_of(text, 0)
        if numbers and not (heading and (heading.kind != "section" or "." in heading.number)):
            alike[re.sub(r"\d+", "#", text)][at] = numbers
    several = [
        found for name, found in alike.items() if len(found) > 2 and re.search(r"[|/—–·,:：-].|\s\s", name)
    ]
    yield from ({at: int(one[side]) for at, one in found.items()} for found in several for side in (0, -1))


def _without_running(pages: list[list[Item]], numbers: list[int | None]) -> int | None:
    """Drop running lines, the outermost first. Return printed page numbers minus places; None without any."""
    offset: int | None = None
    for is_foot, depth in itertools.product((True, False), range(_ENDS)):
        outermost = ((place, _outermost(page, is_foot)) for place, page in enumerate(pages))
        outer = {place: at for place, at in outermost if at is not None}
        texts = {place: _words(pages[place][at]) or "" for place, at in outer.items()}
        held = {place: re.findall(r"\d+", text) for place, text in texts.items()}
        free = {place for place in texts if str(numbers[place]) in held[place] or not (depth or any(numbers))}
        found, told = _running(texts, len(pages), free)
        if None in (offset, told) or offset == told:
            offset = offset if told is None else told
            for place in found:
                del pages[place][outer[place]]
    return offset


def _outermost(page: list[Item], is_foot: bool) -> int | None:
    """Return the place of the last or first line with text; None if a heading or table stands there."""
    order = range(len(page) - 1, -1, -1) if is_foot else range(len(page))
    at = next((at for at in order if page[at] != ""), None)
    text = None if at is None else _words(page[at])
    is_table = re.match(r"(?i)[|+┌├└│║╔╠╚┏┣┗┃╒╞╘╓╟╙]|(?:notes?|注释?)\s*\d*\s*[:：]", text or "")
    return at if text and not (is_table or caption_of(text)) else None


def _running(texts: dict[int, str], pages: int, free: set[int]) -> tuple[set[int], int | None]:
    """Return the pages whose lines are equal or count the pages, and printed numbers minus places as above."""
    # The outermost line that counts can have any form; others look like a footer, as sentences can count, too.
    texts = {place: text for place, text in texts.items() if not _is_sentence(text)}
    same = Counter(texts.values())
    equal = {place for place, text in texts.items() if same[text] >= max(2, _SHARE_OF_EQUAL * pages)}
    named = {text: place for place, text in reversed(texts.items()) if place in equal and heading_of(text, 0)}
    equal -= {*named.values()}  # the heading itself, before it runs over the pages of its chapter
    runs = {
        place: {int(one) for one in re.findall(r"\d{1,9}", text)}
        for place, text in texts.items()
        if place not in equal and text not in named and not _is_numbered_title(text)
        if (place in free and not text.endswith(_ENDS_OF_TEXT))
        or any(form.fullmatch(text) for form in _FOOTERS)
    }
    offsets = Counter(number - place for place, run in runs.items() for number in run)
    offset = max(offsets, key=lambda one: offsets[one], default=0)
    counting = {place for place, run in runs.items() if place + offset in run}
    forms = Counter(re.sub(r"\d+", "", texts[place]) for place in counting)
    if max(forms.values(), default=0) < 2:
        counting = set()  # one number, or titles that are numbered as their pages by chance
    found = equal | counting
    if len(found) < max(2, _SHARE * (pages - 1)):
        return set(), None
    return found | {at for at, text in texts.items() if _FRONT.fullmatch(text)}, offset if counting else None


def _is_sentence(text: str) -> bool:
    return text.endswith(_ENDS_OF_TEXT) and (len(text.split()) > 4 or (has_han(text) and len(text) > 10))


def _is_numbered_title(text: str) -> bool:
    """Return True for "Chapter 3" or "3 Title 3", which may count as the pages do."""
    heading, numbers = heading_of(text, 0), re.findall(r"\d+", text)
    return heading is not None and (heading.kind != "section" or len(numbers) > len({*numbers}))
