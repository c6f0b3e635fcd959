"""One search for all places that look like a value in the form of an encoder, in time linear in the text.

To read the escapes of a megabyte in Python takes half a second, and a stranger can write such a megabyte.
So RE2 first finds the places where each character of a value stands as it is, or is escaped: a sign that
begins escapes, signs and letters of any escapes around it, and at last its number, its name or itself.
Escapes inside of escapes differ in the middle only. In base64, lines may end at any place.
Such a place is not always a secret, but where none is, there is no secret in any such form. The escapes
around the places are read (`unescaping.py`), and those of nothing else.

The forms of a value to search for: those that need no way back to the text, and its base64.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final

import re2

from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.refs import MIN_CHARS
from callboard.runtime.secrets.unescaping import GROWTH_MAX, MARKS, NAMES, Plain

_PLACES_MAX: Final = 1_000  # in one text: behind them, all of it is one part
_CHARS_MAX: Final = 64  # of a value that are looked for: a private key has thousands
_LINE: Final = 512  # bytes before a place in base64, which show that it is in lines
_SLACK: Final = 2_048  # bytes behind a place that are read: another one can begin inside of it
_PIECE: Final = 16_384  # bytes of places that are looked at together
_MEMORY: Final = 64 * 2**20  # bytes that RE2 may use for the table of one search
_INSIDE: Final = r"[\\%&#;{}0-9A-Za-z]*?"
_BEGIN: Final = rf"[\\%&]{_INSIDE}"
_END: Final = rf"(?:[;}}]|{_BEGIN})?"
_OF_CLEANED: Final = {"\u2400": {"0"}, "\ufffd": {"[0-9a-f]"}}  # they stand for several characters
_BREAK: Final = rf"(?:(?:[\r\n]+|{_BEGIN})[ \t]*)?"
_CORE_CHARS_MIN: Final = 7  # base64 characters of the shortest value; fewer would not differ from other text
_DOUBLED: Final = ("'", '"', "%", "$")  # signs that a language writes twice: SQL, CSV, batch files, make


class Likeness:
    """A search for places that look like one of some values.

    forms: of the values, without escapes. pattern_of: makes the pattern of one. before: bytes of the text
    before a place that are read with it.
    """

    def __init__(self, forms: Iterable[str], pattern_of: Callable[[str], str], before: int) -> None:
        self._forms = sorted(forms)
        self._pattern_of = pattern_of
        longest = max((len(form.encode()) for form in self._forms), default=0)
        self._behind = GROWTH_MAX * longest + _SLACK
        self._before = before + GROWTH_MAX * max(0, longest - _CHARS_MAX)

    @classmethod
    def of_texts(cls, forms: Iterable[str]) -> "Likeness":
        """Look for values as people read them."""
        return cls(forms, _of_text, 0)

    @classmethod
    def of_base64(cls, forms: Iterable[str]) -> "Likeness":
        """Look for parts of the base64 of values."""
        return cls(forms, _of_base64, _LINE)

    @cached_property
    def _search(self) -> "re2._Regexp":
        # Compiled for the first text with escapes: of 20 values it takes 10 ms.
        return compiled("|".join(map(self._pattern_of, self._forms)))

    def regions(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield start and end of the parts of data that hold all values in such forms, in order.

        They may overlap.
        """
        if not self._forms or self._search.search(data) is None:
            return
        start = end = 0
        for count, found in enumerate(self._search.finditer(data)):
            first = max(0, found.start() - self._before)
            if end and (first > end or end - start > _PIECE or count == _PLACES_MAX):
                yield start, end
                start = end = 0
            if count == _PLACES_MAX:
                yield first, len(data)
                return
            start = start if end else first
            end = min(len(data), found.end() + self._behind)
        if end:
            yield start, end


def compiled(pattern: str) -> "re2._Regexp":
    """Compile a pattern for a search that needs no groups."""
    options = re2.Options()
    options.never_capture = True
    options.max_mem = _MEMORY
    return re2.compile(pattern, options)


def _part(text: str) -> str:
    """Return the part of a text that is looked for: its middle, since many keys begin alike."""
    first = max(0, len(text) - _CHARS_MAX) // 2
    return text[first : first + _CHARS_MAX]


def _of_text(text: str) -> str:
    return "".join(map(_of_character, _part(text)))


def _of_base64(core: str) -> str:
    # No encoder escapes letters and digits of base64.
    return _BREAK.join(one if one.isalnum() else _of_character(one) for one in _part(core))


def _of_character(one: str) -> str:
    """Return the pattern of a character as it is, and in any escape."""
    code, itself = ord(one), re2.escape(one)
    ends = {f"{code:x}", f"{code}", f"{code:o}", f"{one.encode()[-1]:x}"}
    ends.add(f"{0xDC00 + (code & 0x3FF):x}")  # the second half of a pair
    ends |= {word.decode() for word, meant in (*MARKS.items(), *NAMES.items()) if meant == one.encode()}
    ends |= _OF_CLEANED.get(one, set())
    escaped = f"(?i:{'|'.join(sorted(ends))})" + ("" if one.isalnum() else f"|{itself}")
    return f"(?:{itself}|{_BEGIN}(?:{escaped}){_END})"


def encodings_of(value: str) -> tuple[str, ...]:
    """Return the forms of a value to search for in any text, longest first: itself, and parts of its base64.

    >>> encodings_of("a b&c-d")
    ('YSBiJmMtZ', 'hIGImYy1k', 'EgYiZjLW', 'a b&c-d', 'a+b&c-d')
    """
    found = written_forms_of(value) | base64_forms_of(value)
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def written_forms_of(value: str) -> set[str]:
    """Return the forms of a value that a person can read."""
    found = {value, clean_text(value), value.strip()}
    found.update(value.replace(sign, 2 * sign) for sign in _DOUBLED)
    found.update(value.replace("'", closed) for closed in ("'\\''", "'\"'\"'"))  # inside quotes of a shell
    found.add(value.replace(" ", "+"))  # of a form, without any other escape
    lines = value.replace("\r\n", "\n")
    found |= {lines, lines.replace("\n", "\r\n")}
    return set(map(clean_text, found))


def base64_forms_of(value: str) -> set[str]:
    """Return the parts of a value's base64 that do not depend on the bytes beside it."""
    return set(_base64_cores(value.strip().encode("utf-8", "replace")))


def plain_forms_of(value: str) -> set[bytes]:
    """Return the forms of a value to search for in text without escapes."""
    # Forms write a space as a plus.
    found = {clean_text(form).encode() for form in (value, value.strip(), value.replace(" ", "+"))}
    # A value may itself hold what looks like an escape.
    return found | {form for one in found for form in Plain(one).levels if len(form) >= MIN_CHARS}


# A value inside base64 text does not begin at a multiple of three bytes. So it is encoded at each of the
# three offsets, without the characters at both ends, which also depend on the bytes beside it.
def _base64_cores(value: bytes) -> Iterator[str]:
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + value).decode()
        start = (0, 2, 3)[shift]  # the characters before hold bits of earlier bytes
        end = (shift + len(value)) * 8 // 6  # the characters behind hold bits of later bytes
        core = whole[start:end]
        if len(core) >= _CORE_CHARS_MIN:
            yield core
            yield core.replace("+", "-").replace("/", "_")
