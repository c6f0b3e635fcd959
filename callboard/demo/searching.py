"""Search in files: many patterns in one pass, counted per pattern, with the first lines as evidence."""

from collections.abc import Iterable
from typing import Final

from callboard.demo.bounds import fitting, some_skipped
from callboard.demo.facts import Hit, Matches, PatternHits, Skipped
from callboard.demo.folder import Folder, Place
from callboard.demo.names import clipped, printable
from callboard.demo.patterns import Match, Pattern, any_regex, regex
from callboard.demo.texts import as_utf8, is_binary

FILE_BYTES_MAX: Final = 4_000_000
LINE_CHARS_MAX: Final = 160
HITS_CHARS_MAX: Final = 30_000
"""Of all lines that one search shows, with their paths."""

LINES_MAX: Final = 100
"""Matching lines counted per pattern and file; beyond that it is the same story."""

COUNTED_MAX: Final = 50_000
"""Matching lines counted in one search. After that, files are still counted, by their first line."""


class _Search:
    """A search as it goes on: what each pattern has matched, and what may still be counted and shown."""

    def __init__(self, patterns: list[str], hits_max: int, per_file: int) -> None:
        self._patterns = [(pattern, regex(pattern)) for pattern in patterns]
        self._hits_max = hits_max
        self._per_file = per_file
        self._files = [0] * len(patterns)
        self._lines = [0] * len(patterns)
        self._hits: list[list[Hit]] = [[] for _ in patterns]
        self._chars_left = HITS_CHARS_MAX
        self._lines_left = COUNTED_MAX

    def read(self, path: str, data: bytes) -> None:
        """Take in one more file."""
        for at, (_, compiled) in enumerate(self._patterns):
            found = _lines(compiled, data, min(LINES_MAX, max(1, self._lines_left)))
            self._files[at] += bool(found)
            self._lines[at] += len(found)
            self._lines_left -= len(found)
            room = min(self._per_file, self._hits_max - len(self._hits[at]))
            self._show(self._hits[at], [_hit(path, data, place) for place in found[: max(0, room)]])

    def answers(self) -> tuple[PatternHits, ...]:
        """What each pattern has matched."""
        rows = zip(self._patterns, self._files, self._lines, self._hits, strict=True)
        return tuple(PatternHits(said, files, lines, tuple(hits)) for (said, _), files, lines, hits in rows)

    def _show(self, shown: list[Hit], hits: list[Hit]) -> None:
        few = fitting(hits, lambda hit: hit.path + hit.text, self._chars_left)
        self._chars_left -= sum(len(hit.path) + len(hit.text) for hit in few)
        shown.extend(few)


def search_files(
    folder: Folder, patterns: list[str], places: Iterable[Place], hits_max: int, per_file: int
) -> Matches:
    """Search these files. hits_max: lines shown per pattern; per_file: of those, of one file.

    Raises ValueError for a pattern that RE2 does not take.
    """
    search = _Search(patterns, hits_max, per_file)
    union = any_regex(tuple(patterns))
    searched, skipped = 0, list[Skipped]()
    for place, data in folder.read_all(places, FILE_BYTES_MAX):
        if isinstance(data, str) or is_binary(data):
            skipped.append(Skipped(place.shown, data if isinstance(data, str) else "binary"))
            continue
        searched += 1
        text = as_utf8(data)
        if union.search(text):
            search.read(place.shown, text)
    return Matches(search.answers(), searched, *some_skipped(skipped), folder.index.is_cut)


def _lines(compiled: Pattern, data: bytes, lines_max: int) -> list[int]:
    """Where the lines that match begin to do so, one place for each line."""
    found: list[int] = []
    begin = 0
    while len(found) < lines_max and (match := compiled.search(data, begin)):
        at = _first_inked(match)
        found.append(at)
        begin = data.find(b"\n", at) + 1
        if not begin:
            break
    return found


def _hit(path: str, data: bytes, at: int) -> Hit:
    return Hit(path, data.count(b"\n", 0, at) + 1, _line_at(data, at))


def _first_inked(match: Match) -> int:
    """Where a match begins, white space aside: `^\\s*x` begins lines above the x."""
    text = match.group()
    return match.start() + (len(text) - len(text.lstrip()) if text.strip() else 0)


def _line_at(data: bytes, at: int) -> str:
    begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
    line = data[begin : end if 0 <= end < begin + 4 * LINE_CHARS_MAX else begin + 4 * LINE_CHARS_MAX]
    return clipped(printable(line.decode("utf-8", "replace").strip()), LINE_CHARS_MAX)
