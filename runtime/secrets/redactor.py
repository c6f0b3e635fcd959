"""Finds secrets in text and JSON, and puts `[secret:NAME]` in their place.

Rules
  - Nothing is looked at twice: one search with everything that is looked for tells whether there is anything
    to do, which is all that happens to nearly all text.
  - Text is cut after it was searched, never before: half a secret is not recognised. `kept` does both.
  - JSON keeps its bytes, its key order and its spacing apart from the strings (and numbers) that change.
  - What is looked for can grow at any time and from any thread. It never shrinks: a value that was changed
    is still in old places.
"""

import json
import re
import threading
import traceback
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import re2

from callboard.actors.protocol.immutable import Json
from callboard.runtime.secrets.encodings import forms_of
from callboard.runtime.secrets.key_patterns import KNOWN
from callboard.runtime.secrets.prefilter import may_hold_key
from callboard.runtime.secrets.refs import SecretPattern, checked_secret_name, checked_value

PATTERN_CHARS: Final = 4_096
"""Characters behind a cut that are searched for the rest of what began before it."""

_KEYS: Final = frozenset(KNOWN.values())
_MEMORY: Final = 64 * 2**20
"""Bytes that RE2 may use for the table of one search."""

_TOKEN: Final = re.compile(
    rb'(?P<string>"(?:[^"\\]++|\\.)*+")(?P<key>[ \t\r\n]*+:)?|(?P<number>-?[0-9][0-9.eE+-]*+)', re.DOTALL
)
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class _Found(NamedTuple):
    start: int
    end: int
    name: str


class _Sought(NamedTuple):
    """One thing that is looked for. group: which part of a match is the secret, 0 for all of it."""

    name: str
    regexp: "re2._Regexp"
    group: int


class Redactor:
    """What is looked for, and the search. patterns: forms; values come by `learn`.

    >>> redactor = Redactor()
    >>> redactor.learn("DOOR", "open-sesame")
    >>> redactor.text("say open-sesame, or open%2dsesame")
    'say [secret:DOOR], or open%2dsesame'
    """

    def __init__(self, patterns: Iterable[SecretPattern] = ()) -> None:
        self._lock = threading.Lock()
        self._patterns = tuple(patterns)
        self._forms: dict[str, str] = {}
        self._sought: tuple[_Sought, ...] = ()
        self._any: re2._Regexp | None = None
        self._are_keys = False
        self._reach = PATTERN_CHARS if self._patterns else 0
        self._build()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is looked for."""
        return self._any is None

    @property
    def literals(self) -> tuple[str, ...]:
        """Every form of every value that is looked for, longest first."""
        return tuple(self._forms)

    def learn(self, name: str, value: str) -> None:
        """Look for this value from now on, under this name. Raises MisuseError for one too short."""
        checked_value(checked_secret_name(name), value)
        with self._lock:
            new = {form: name for form in forms_of(value) if form not in self._forms}
            if new:
                self._forms = dict(sorted({**self._forms, **new}.items(), key=lambda item: -len(item[0])))
                self._reach = max(self._reach, *(len(form) for form in new))
                self._build()

    def _build(self) -> None:
        """Compile anew. What others read is replaced in one step each, the search for anything last."""
        by_name: dict[str, list[str]] = {}
        for form, name in self._forms.items():
            by_name.setdefault(name, []).append(re2.escape(form))
        values = tuple(_Sought(name, _compiled("|".join(forms)), 0) for name, forms in by_name.items())
        self._sought = (*values, *(_Sought(p.name, p.regexp, p.regexp.groups) for p in self._patterns))
        every = tuple(f"(?:{one.regexp.pattern})" for one in self._sought)
        self._are_keys = all(p.regexp.pattern in _KEYS for p in self._patterns) and all(
            may_hold_key(_bytes(form)) for form in self._forms
        )
        self._any = _compiled("|".join(every)) if every else None

    # --- text ---------------------------------------------------------------------

    def finds(self, text: str) -> bool:
        """Whether there is a secret in the text."""
        return self._is_in(_bytes(text))

    def _is_in(self, data: bytes) -> bool:
        """Whether there is a secret in what is not escaped."""
        if self._any is None or (self._are_keys and not may_hold_key(data)):
            return False
        return self._any.search(data) is not None

    def text(self, text: str) -> str:
        """The text, with a placeholder for every secret."""
        data = _bytes(text)
        if not self._is_in(data):
            return text
        return self._replaced(data, len(data)).decode("utf-8", "surrogatepass")

    def kept(self, text: str, chars: int) -> str:
        """The first characters of the text as `text` would have them, however much more there is.

        A secret that goes beyond the cut is taken out whole.
        """
        if len(text) <= chars:
            return self.text(text)
        data = _bytes(text[: chars + self._reach])
        if not self._is_in(data):
            return text[:chars]
        replaced = self._replaced(data, len(_bytes(text[:chars])))
        return replaced.decode("utf-8", "surrogatepass")[:chars]

    def cut(self, text: str, chars: int) -> str:
        """As `kept`, for text that is searched again on the board: what is not cut is left alone."""
        return text if len(text) <= chars else self.kept(text, chars)

    def told(self, error: BaseException) -> str:
        """An exception with its traceback, for a programmer's log."""
        return self.text("".join(traceback.format_exception(error)))

    def _replaced(self, data: bytes, end: int) -> bytes:
        """The data up to an end, with placeholders; a secret that begins before the end counts whole."""
        parts, at = [], 0
        for found in self.spans(data):
            if found.start < end:
                parts += [data[at : found.start], placeholder(found.name).encode()]
                at = found.end
        return b"".join([*parts, data[at:end]])

    def spans(self, data: bytes) -> Iterator[_Found]:
        """Where there are secrets, in order and apart: those that overlap are one, named after the first."""
        found = [
            _Found(*_secret_in(match, one.group), one.name)
            for one in self._sought
            for match in one.regexp.finditer(data)
        ]
        found.sort(key=lambda each: (each.start, -each.end))
        last: _Found | None = None
        for each in found:
            if last is not None and each.start < last.end:
                last = last._replace(end=max(last.end, each.end))
                continue
            if last is not None:
                yield last
            last = each
        if last is not None:
            yield last

    # --- JSON ---------------------------------------------------------------------

    def json(self, value: Json) -> Json:
        """Checked JSON with a placeholder for every secret in its texts, keys and numbers."""
        data = bytes(value)
        if not self.may_be_in(data):
            return value
        parts: list[bytes] = []
        at, changed_keys = 0, False
        for token in self._tokens_with(data):
            clean = _encode(self.text(_text_of(token).decode()))
            parts += [data[at : token.start()], clean, token["key"] or b""]
            at, changed_keys = token.end(), changed_keys or token["key"] is not None
        if not parts:
            return value
        redacted = b"".join([*parts, data[at:]])
        return Json(_with_unique_keys(redacted) if changed_keys else redacted)

    def may_be_in(self, data: bytes) -> bool:
        """Whether there can be a secret in this JSON, which without escapes is its own texts."""
        if self._any is None:
            return False
        if self._is_in(data):
            return True
        if data.find(b"\\") < 0:
            return False
        escaped = [_decode(text) for text in _STRING.findall(data) if b"\\" in text]
        return self.finds("\n".join(escaped))

    def _tokens_with(self, data: bytes) -> list["re.Match[bytes]"]:
        """The strings and numbers that hold a secret, in order."""
        tokens = list(_TOKEN.finditer(data))
        texts = [_text_of(token) for token in tokens]
        return [tokens[place] for place in self._places_with(texts, 0, len(texts))]

    def _places_with(self, texts: list[bytes], start: int, end: int) -> Iterator[int]:
        """Which of these texts hold a secret. Half of them are left alone with one search, and so on."""
        if not self._is_in(b"\n".join(texts[start:end])):
            return
        if end - start == 1:
            yield start
            return
        middle = (start + end) // 2
        yield from self._places_with(texts, start, middle)
        yield from self._places_with(texts, middle, end)


def placeholder(name: str) -> str:
    """What stands where the secret was."""
    return f"[secret:{name}]"


def _text_of(token: "re.Match[bytes]") -> bytes:
    """What a string says, or a number as it is written."""
    text = token["string"]
    if text is None:
        return token["number"]
    return text[1:-1] if b"\\" not in text else _bytes(_decode(text))


def _secret_in(match: "re2._Match", group: int) -> tuple[int, int]:
    """Where the secret is in a match: its group, or all of it if that took no part."""
    start, end = match.span(group)
    return (start, end) if start >= 0 and end > start else (match.start(), match.end())


@lru_cache(maxsize=16)  # most runtimes look for the same known keys
def _compiled(pattern: str) -> "re2._Regexp":
    options = re2.Options()
    options.never_capture = True
    options.max_mem = _MEMORY
    return re2.compile(pattern, options)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _with_unique_keys(data: bytes) -> bytes:
    """Two keys that became the same placeholder are numbered: equal keys are one to most parsers."""
    is_changed = False

    def numbered(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal is_changed
        made: dict[str, object] = {}
        for key, item in pairs:
            free, number = key, 1
            while free in made:
                number, is_changed = number + 1, True
                free = f"{key} {number}"
            made[free] = item
        return made

    value = json.loads(data, object_pairs_hook=numbered)
    return _encode(value) if is_changed else data
