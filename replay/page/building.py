"""The page of a session: one file that asks for nothing else.

Its policy (`Content-Security-Policy`) allows the one script and the one style that are in it, by their
digests, and no request at all. The page's code makes elements and text nodes and never parses text as markup,
which the policy enforces too (`require-trusted-types-for`). Nothing of a session stands in the markup itself.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from callboard.replay.diagnosis.diagnose import diagnose
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.page.comparison import comparison, in_order, shared_events
from callboard.replay.page.lines import PageLines
from callboard.replay.page.packing import packed
from callboard.replay.reading import Source
from callboard.replay.refused_calls import refused_in

EVENTS_DIAGNOSED_MAX: Final = 100_000
"""A longer session has no findings in its page: they would take seconds."""

_NAMES: Final = (
    "data states copies words beside delegations held why search elements json edits images blocks "
    "markdown summary conversation notes tree list pairs differences lanes detail frame follow main"
)
MODULES: Final = tuple(f"{name}.js" for name in _NAMES.split())
"""The page's own modules, each before those that import it."""

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_ASSETS: Final = Path(__file__).parent / "assets"
_IMPORT: Final = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)


def html_page(
    source: Source, progress: Callable[[str, int, int], object], other: Source | None = None
) -> Iterator[bytes]:
    """Yield the page of a session, or of two beside each other, every digest checked. Raises CorruptLog.

    other: the session that stands beside it; of a session and its fork, the origin stands left.
    """
    before, between, after = frame()
    left, right = (source, None) if other is None else in_order(source, other)
    yield before
    yield from packed(_lines(left, progress))
    yield between
    if right is not None:
        extra = {"beside": comparison(left, right), "is_right": right is source}
        yield from packed(_lines(right, progress, extra, shared_events(left, right)))
    yield after


def _lines(
    source: Source,
    progress: Callable[[str, int, int], object],
    extra: Mapping[str, object] = NOTHING,
    known: int = 0,
) -> PageLines:
    row = next(row for row in source.reader.sessions() if row.session_id == source.session_id)
    return PageLines(source, row, findings_of(source), progress, extra, known)


def findings_of(source: Source) -> list[Finding]:
    """Return the findings that a page shows."""
    if source.head.seq > EVENTS_DIAGNOSED_MAX:
        return []
    return diagnose(source, partial(refused_in, source))


@cache
def frame(*, is_served: bool = False) -> tuple[bytes, bytes, bytes]:
    """Return the page around the data of a session, and of the one beside it.

    is_served: the page may ask its own server for more events.
    """
    script, style = script_text(), (_ASSETS / "page.css").read_text()
    text = (_ASSETS / "index.html").read_text()
    for name, value in {
        "@SCRIPT_DIGEST@": _digest(script),
        "@STYLE_DIGEST@": _digest(style),
        "@STYLE@": style,
        "@SCRIPT@": script,
    }.items():
        text = text.replace(name, value, 1)
    if is_served:
        text = text.replace("default-src 'none';", "default-src 'none'; connect-src 'self';", 1)
    before, rest = text.split("@DATA@")
    between, after = rest.split("@BESIDE@")
    return before.encode(), between.encode(), after.encode()


def script_text() -> str:
    """Return the modules as one script: each without its imports, whose names the others define."""
    parts = [(_ASSETS / name).read_text() for name in MODULES]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", part)) for part in parts)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode()
