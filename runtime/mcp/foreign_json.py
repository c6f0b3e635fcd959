"""JSON of a server: read as it was meant, and shown in an error."""

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Final

from callboard.runtime.sanitize import clean_text

_SHOWN_CHARS: Final = 300
_PIECE_CHARS: Final = 2**12


def parsed(data: bytes) -> object:
    """Read JSON as servers write it: with a mark of byte order, control characters and half characters.

    Raises ValueError.
    """
    text = data.removeprefix(codecs.BOM_UTF8).decode(errors="replace")
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def shown(value: object, chars: int = _SHOWN_CHARS) -> str:
    """Return the beginning of a value, as JSON, for an error.

    >>> shown({"rows": [1, 2]}), shown([1, 2, 3], 4)
    ('{"rows": [1, 2]}', '[1, ...')
    """
    found: list[str] = []
    size = 0
    for piece in _pieces(value):  # not the whole, of which there may be 32 MB
        found.append(piece)
        size += len(piece)
        if size > chars:
            return clean_text("".join(found))[:chars] + "..."
    return clean_text("".join(found))


def _pieces(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return [json.dumps(value[:_PIECE_CHARS], ensure_ascii=False)]
    return _safe(json.JSONEncoder(ensure_ascii=False).iterencode(value))


def _safe(pieces: Iterator[str]) -> Iterator[str]:
    try:
        yield from pieces
    except RecursionError:
        yield "(nested too deeply)"
