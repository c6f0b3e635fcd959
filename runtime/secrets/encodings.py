"""The encodings in which a value appears: plain, and as common encoders write it.

A value inside base64 text does not begin at a multiple of three bytes. So it is encoded at each of
the three offsets, without the characters at both ends, which also depend on the bytes beside it.
"""

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Iterator
from typing import Final

from callboard.runtime.sanitize import clean_text

_CORE_CHARS_MIN: Final = 8  # base64 characters below which a core is too short to differ from other text


def encodings_of(value: str) -> tuple[str, ...]:
    """Return every encoding of the value to search for, longest first.

    >>> encodings_of("a b&c-d")
    ('a b&amp;c-d', 'a%20b%26c-d', 'YSBiJmMtZ', 'a+b%26c-d', 'hIGImYy1k', 'EgYiZjLW', 'a b&c-d')
    """
    found = {value, clean_text(value), value.strip()}
    found |= {text for each in tuple(found) for text in _written(each)}
    found.update(_base64_cores(value.strip().encode("utf-8", "replace")))
    return tuple(sorted((clean_text(text) for text in found), key=lambda text: (-len(text), text)))


def _written(value: str) -> Iterator[str]:
    for in_json in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield in_json
        yield in_json.replace("/", "\\/")
        yield json.dumps(in_json, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    for quoted in (
        urllib.parse.quote(value, safe="", errors="replace"),
        urllib.parse.quote(value, errors="replace"),
        urllib.parse.quote_plus(value, errors="replace"),
    ):
        yield quoted
        yield re.sub("%..", lambda byte: byte[0].lower(), quoted)
    yield html.escape(value)
    yield html.escape(value, quote=False)


def _base64_cores(value: bytes) -> Iterator[str]:
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + value).decode()
        start = (0, 2, 3)[shift]  # the characters before hold bits of earlier bytes
        end = (shift + len(value)) * 8 // 6  # the characters behind hold bits of later bytes
        core = whole[start:end]
        if len(core) >= _CORE_CHARS_MIN:
            yield core
            yield core.replace("+", "-").replace("/", "_")
