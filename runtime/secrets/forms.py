"""The forms of a value to search for: those that need no way back to the text, and its base64."""

import base64
from collections.abc import Iterator
from typing import Final

from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.refs import MIN_CHARS
from callboard.runtime.secrets.unescaping import Plain

_CORE_CHARS_MIN: Final = 7  # base64 characters of the shortest value; fewer would not differ from other text
_DOUBLED: Final = ("'", '"', "%", "$")  # signs that a language writes twice: SQL, CSV, batch files, make


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
