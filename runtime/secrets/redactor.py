"""Finds secrets in text and JSON, and puts `[secret:NAME]` in their place.

Rules
  - One search with all patterns and values finds whether a text has any secret. Nearly all texts have none.
  - Text is cut after it was searched, never before: half a secret is not recognised. `kept` does both.
  - Values are also looked for in the text without the escapes of encoders (`unescaping.py`), at the places
    that look like one (`likeness.py`).
  - A text of thousands of secrets, or of places that look like one, is cut at one of them: it takes no longer
    than any other.
  - JSON is searched as what its texts say (`json_texts.py`).
  - Values can be added at any time and from any thread. They are never removed: old texts still hold them.
"""

import threading
import traceback
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final

import re2

from callboard.actors.protocol.immutable import Json
from callboard.runtime.large_values import uncollected
from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets import json_texts
from callboard.runtime.secrets.likeness import (
    Likeness,
    base64_forms_of,
    encodings_of,
    plain_forms_of,
    written_forms_of,
)
from callboard.runtime.secrets.refs import (
    KEY_PATTERNS,
    MIN_CHARS,
    SecretPattern,
    checked_secret_name,
    checked_value,
    may_hold_key,
)
from callboard.runtime.secrets.unescaping import GROWTH_MAX, Found, Plain, merged, steps_of, with_placeholders

PATTERN_CHARS: Final = 4_096  # behind a cut that are searched for the rest of a secret that began before it
FOUND_MAX: Final = 1_000
"""Secrets in one text or JSON value that are replaced one by one.

Of a text, all from the next secret on is replaced; of JSON, each new text from the next one on.
"""

STEPS_MAX: Final = 10_000
"""Escapes and line ends that are read, of the parts of a text that look like a secret.

From the next such part on, all of the text is replaced.
"""

_LIKE_MANY: Final = "among thousands of escapes"
_KEYS: Final = frozenset(KEY_PATTERNS.values())
_MEMORY: Final = 64 * 2**20  # bytes that RE2 may use for the table of one search


class Redactor:
    """Finds secrets by pattern and by value. Values are added by `learn`.

    is_idle: True while there is neither a pattern nor a value.

    >>> redactor = Redactor()
    >>> redactor.learn("DOOR", "open-sesame")
    >>> redactor.text("say open-sesame, or open%2dsesame")
    'say [secret:DOOR], or [secret:DOOR]'
    """

    def __init__(self, patterns: Iterable[SecretPattern] = ()) -> None:
        self._lock = threading.Lock()
        self._patterns = tuple(patterns)
        self._encodings: dict[str, str] = {}
        self._plain: dict[bytes, str] = {}
        self._plain_values: tuple[bytes, ...] = ()
        self._in_plain: re2._Regexp | None = None
        self._likenesses: tuple[Likeness, ...] = ()
        self._written: set[str] = set()
        self._base64: set[str] = set()
        self._searches = _Searches(())
        self._any: re2._Regexp | None = None
        self.is_idle = True
        self._finds_keys_only = self._are_keys = False
        self._reach = PATTERN_CHARS if self._patterns else 0
        self._build()

    @property
    def literals(self) -> tuple[str, ...]:
        """Every encoding of every value, longest first."""
        return tuple(self._encodings)

    def learn(self, name: str, value: str) -> None:
        """Add a value under a name. Raises MisuseError for one that is too short."""
        checked_value(checked_secret_name(name), value)
        with self._lock:
            new = {form: name for form in encodings_of(value) if form not in self._encodings}
            self._plain = {**dict.fromkeys(plain_forms_of(value), name), **self._plain}
            self._written |= written_forms_of(value) | {form.decode() for form in plain_forms_of(value)}
            self._base64 |= base64_forms_of(value)
            self._plain_values = (*self._plain, *(form.encode() for form in self._base64))
            if new:
                known = {**self._encodings, **new}
                self._encodings = dict(sorted(known.items(), key=lambda item: -len(item[0])))
                self._reach = max(self._reach, GROWTH_MAX * len(value), *(len(form) for form in new))
                self._build()

    def _build(self) -> None:
        # Other threads read meanwhile: each attribute is replaced in one step, the search for all of them
        # last.
        by_name: dict[str, list[str]] = {}
        for form, name in self._encodings.items():
            by_name.setdefault(name, []).append(re2.escape(form))
        values = ((name, _compiled("|".join(forms))) for name, forms in by_name.items())
        searches = (*values, *((each.name, each.regexp) for each in self._patterns))
        self._searches = _Searches(searches)
        every = tuple(f"(?:{regexp.pattern})" for _, regexp in searches)
        self._finds_keys_only = all(each.regexp.pattern in _KEYS for each in self._patterns)
        self._are_keys = self._finds_keys_only and all(may_hold_key(_bytes(form)) for form in self._encodings)
        self._likenesses = (Likeness.of_texts(self._written), Likeness.of_base64(self._base64))
        self._in_plain = _compiled(b"|".join(map(re2.escape, self._plain)).decode()) if self._plain else None
        self._any = _compiled("|".join(every)) if every else None
        self.is_idle = self._any is None

    # --- text ---------------------------------------------------------------------

    def finds(self, text: str) -> bool:
        """Return whether the text holds a secret."""
        return self._is_in(_bytes(text))

    def _is_in(self, data: bytes) -> bool:
        if self._any is None:
            return False
        if not (self._are_keys and not may_hold_key(data)) and self._any.search(data) is not None:
            return True
        return self._in_plain is not None and any(True for _ in self._found_in_plain(data))

    def _found_in_plain(self, data: bytes) -> Iterator[Found]:
        """Yield the secrets in the text without its escapes, by their places in the text as it is."""
        if self._in_plain is None:
            return
        left, steps = FOUND_MAX, STEPS_MAX
        for first, last in chain.from_iterable(each.regions(data) for each in self._likenesses):
            part = data[first:last]
            steps -= steps_of(part)
            if steps < 0:
                yield Found(first, len(data), _LIKE_MANY, is_rest=True)
                return
            plain = Plain(part)
            for level, text in enumerate(plain.levels):
                for found in chain(self._values_in(text), self._found_in(text, values_only=True)):
                    start, end = plain.came_from(level, found.start, found.end)
                    if not left:
                        yield Found(first + start, len(data), found.name, is_rest=True)
                        return
                    yield Found(first + start, first + end, found.name)
                    left -= 1

    def _values_in(self, plain: bytes) -> Iterator[Found]:
        """Yield the values in a text without escapes."""
        assert self._in_plain is not None
        if self._in_plain.search(plain) is None:
            return
        # Each alone: one can begin inside of another.
        for value, name in self._plain.items():
            at = plain.find(value)
            while at >= 0:
                yield Found(at, at + len(value), name)
                at = plain.find(value, at + len(value))

    @property
    def plain_values(self) -> tuple[bytes, ...]:
        """Every value as it stands in a text without escapes, and in base64 without line ends."""
        return self._plain_values

    def text(self, text: str) -> str:
        """Return the text with a placeholder for every secret."""
        data = _bytes(text)
        if not self._is_in(data):
            return text
        return self._replaced(data, len(data)).decode()

    def kept(self, text: str, chars: int) -> str:
        """Return the first characters of the text, with a placeholder for every secret.

        A secret that goes beyond the cut is taken out whole.
        """
        text = clean_text(text)
        if len(text) <= chars:
            return self.text(text)
        data = _bytes(text[: chars + self._reach])
        if not self._is_in(data):
            return text[:chars]
        replaced = self._replaced(data, len(_bytes(text[:chars])))
        return replaced.decode()[:chars]

    def cut(self, text: str, chars: int) -> str:
        """Cut a text as `kept` does. A text that needs no cut is not searched: the board does that."""
        return text if len(text) <= chars else self.kept(text, chars)

    def told(self, error: BaseException) -> str:
        """Return an exception with its traceback, without secrets."""
        return self.text("".join(traceback.format_exception(error)))

    def _replaced(self, data: bytes, end: int) -> bytes:
        return with_placeholders(data, end, self.spans(data))

    def spans(self, data: bytes) -> list[Found]:
        """Return the places of secrets in order. Those that overlap are one, named after the first."""
        return merged(self._found(data))

    def _found(self, data: bytes) -> Iterator[Found]:
        yield from self._found_in(data)
        yield from self._found_in_plain(data)

    def _found_in(self, data: bytes, *, values_only: bool = False) -> Iterator[Found]:
        searches, left = self._searches, FOUND_MAX
        values = len(searches.each) - len(self._patterns)  # they are the first
        # One pass tells which searches find something: a pass for each of them takes ten times as long.
        for place in searches.together.Match(data) or () if searches.each else ():
            if values_only and place >= values:
                continue
            name, regexp = searches.each[place]
            for match in regexp.finditer(data):
                start, end = _secret_in(match, regexp.groups)
                if not left:
                    yield Found(start, len(data), name, is_rest=True)
                    break
                left -= 1
                yield Found(start, end, name)

    # --- JSON ---------------------------------------------------------------------

    def json(self, value: Json) -> Json:
        """Return checked JSON with a placeholder for every secret in its texts, keys and numbers."""
        data = bytes(value)
        if not self.may_be_in(data):
            return value
        with uncollected():
            found = json_texts.redacted(data, self.spans, MIN_CHARS if self._finds_keys_only else 1)
        return value if found is None else Json(found)

    def may_be_in(self, data: bytes) -> bool:
        """Return whether JSON can hold a secret."""
        if self._any is None:
            return False
        if self._is_in(data):
            return True
        # Without escapes its texts stand in it as they are.
        return data.find(b"\\") >= 0 and self._is_in(json_texts.unescaped([data])[0])


def _secret_in(match: "re2._Match", group: int) -> tuple[int, int]:
    """Return the secret's place in a match: its group, or the whole match if the group took no part."""
    start, end = match.span(group)
    return (start, end) if start >= 0 and end > start else (match.start(), match.end())


class _Searches:
    """The searches of a redactor, each with the name of its secret, and all of them in one.

    `together` is made at the first secret that is found: it takes 2 ms, and most runtimes find none.
    """

    def __init__(self, each: "tuple[tuple[str, re2._Regexp], ...]") -> None:
        self.each = each

    @cached_property
    def together(self) -> "re2.Set":
        found = re2.Set.SearchSet(_options())
        for _, regexp in self.each:
            found.Add(regexp.pattern)
        found.Compile()
        return found


def _options() -> "re2.Options":
    options = re2.Options()
    options.never_capture = True
    options.max_mem = _MEMORY
    return options


@lru_cache(maxsize=16)  # most runtimes look for the same known keys
def _compiled(pattern: str) -> "re2._Regexp":
    return re2.compile(pattern, _options())


def _bytes(text: str) -> bytes:
    return clean_text(text).encode()  # values are looked for as the log has them
