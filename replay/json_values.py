"""The values inside a message's JSON, and the paths to them.

A path is made of the names of fields and the places of list items, with dots between: `body.content.0.text`.
`*` stands for each field or item. A name that holds a dot, a star or a quote stands in double quotes, as
JSON writes it. A string that holds a JSON object or list is read where a path goes on behind it: tools
often return JSON as text.

Find a value in a message: as whole words, or as an equal number in any spelling.

    Held("7").places(body)              not in 17, in "k7" or in the number of a turn
    Held("137,714.24").places(body)     in 137714.24, "137 714.24" with a narrow space, "137.714,24"


A place has the words near the value: up to 60 characters to each side, the names of the fields that lead to
it, and short texts beside it. The words next to it, and the name of its own field, are there twice, the
second time with `~` before them. By them two messages that hold the same value are told apart.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.divergence import FOREIGN, IDS

Leaf: TypeAlias = tuple[str, "str | int | float | bool | None"]
"""A path, and the string, number, boolean or null there."""

_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^."]+')
_PLAIN: Final = re.compile(r"[^.*\"\s]+")
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def leaves(value: object, path: str) -> Iterator[Leaf]:
    """Yield the leaves of a JSON value in their order. path: to the value itself."""
    if value is None or isinstance(value, str | int | float):
        yield path, value
    for part, inner in _parts(value):
        yield from leaves(inner, f"{path}.{part}")


def names(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the fields inside a value, each with the path to the field."""
    for part, inner in _parts(value):
        if isinstance(value, dict):
            yield f"{path}.{part}", _name(part)
        yield from names(inner, f"{path}.{part}")


def _parts(value: object) -> Iterable[tuple[str, object]]:
    """Return the fields or items of a value, by their parts of a path."""
    if isinstance(value, dict):
        return ((written(name), inner) for name, inner in value.items())
    return ((str(place), inner) for place, inner in enumerate(value)) if isinstance(value, list) else ()


def value_lines(path: str, value: object) -> Iterator[str]:
    """Yield a line for each value below a path, for a text diff; a text line by line.

    An empty object, an empty list and a null have a line too, because they may be all that differs.
    """
    if isinstance(value, dict | list) and value:
        for place, part in _places(value):
            yield from value_lines(f"{path}{place}".lstrip("."), part)
    else:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield from (f"{path}: {line}" for line in text.split("\n"))


def _places(value: dict[str, object] | list[object]) -> Iterable[tuple[str, object]]:
    """Return the parts of a value, each with its place as it stands in a path of such a line."""
    if isinstance(value, dict):
        return ((f".{name}", part) for name, part in value.items())
    return ((f"[{place}]", part) for place, part in enumerate(value))


def written(name: str) -> str:
    """Return a field's name as a path holds it."""
    return name if name.isidentifier() or _PLAIN.fullmatch(name) else _encode(name).decode()


def parts_of(path: str) -> tuple[str, ...]:
    """Split a path into its parts, each as `written` writes it. Raises MisuseError."""
    parts = _PART.findall(path)
    if not parts or ".".join(parts) != path:
        raise _no_path(path)
    return tuple(written(_name(part)) if part.startswith('"') else part for part in parts)


def at_path(value: object, parts: tuple[str, ...], path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values at a path, each with the path that leads to it. parts: of `parts_of`."""
    if not parts:
        yield path, value
        return
    for part, inner in _led_to(opened(value), parts[0]):
        yield from at_path(inner, parts[1:], f"{path}.{part}" if path else part)


def _led_to(value: object, part: str) -> Iterable[tuple[str, object]]:
    """Return the fields or items of a value that one part of a path leads to."""
    if part == "*" or not isinstance(value, dict):
        return (one for one in _parts(value) if part in ("*", one[0]))
    # the field is taken by its name: a search asks this of every message
    name = _name(part)
    return ((part, value[name]),) if name in value else ()


def opened(value: object) -> object:
    """Return the object or list that a string holds as JSON text; another value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return _decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _name(part: str) -> str:
    try:
        return str(_decode(part)) if part.startswith('"') else part
    except msgspec.DecodeError:
        raise _no_path(part) from None


def _no_path(path: str) -> MisuseError:
    return MisuseError(
        f"{path!r} is not a path: write field names with dots between, such as body.output.cents; "
        'a name with a dot in it stands in quotes: body."a.b"'
    )


NEAR_CHARS: Final = 60
_NUMBER_CHARS_MAX: Final = 400

# A sign, digits in groups of three or without, a fraction, an exponent. Not part of a word or a version, nor
# the number of a line (`12→text`) in the result of a tool that reads files.
_NUMBER: Final = re.compile(
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:[,_'\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?:[eE][-+]?\d{1,3})?(?![\d_→]|\.\d|[^\W\d_]+\d)"
)
_PARTS: Final = re.compile(r"([-+]?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?")
_WORD: Final = re.compile(r"[^\W\d]\w+")
_COMMON: Final = frozenset(
    {"the", "and", "has", "have", "are", "was", "for", "with", "its", "that", "this"}
    | {"is", "it", "in", "of", "on", "to", "at", "an", "as", "by", "be", "or", "we", "no"}
)
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_COMMON_DIGITS_MAX: Final = 2
_SKIPPED: Final = IDS | {"type", "sent", "telemetry"}

Words = frozenset[str]
_NO_WORDS: Final[Words] = frozenset()


class Place(NamedTuple):
    """A place that holds a value, as this text. words: near it. is_alone: nothing else is in its field."""

    words: Words
    is_alone: bool
    text: str


def number_in(text: str) -> str:
    """Return a number in one spelling, without groups and outer zeros; empty if the text is not a number."""
    text = text.strip()
    return _canonical(text) if len(text) <= _NUMBER_CHARS_MAX and _NUMBER.fullmatch(text) else ""


def _canonical(text: str) -> str:
    if re.search(r"\.\d{3},", text) or text.count(".") > 1:
        text = text.replace(".", "").replace(",", ".")
    found = _PARTS.fullmatch(re.sub(r"[,_'\u00a0\u202f]", "", text))
    assert found is not None, text
    sign, whole, fraction, exponent = found[1], found[2], found[3] or "", int(found[4] or 0)
    digits, point = whole + fraction, len(whole) + exponent
    digits = digits.ljust(point, "0") if point > 0 else "0" * -point + digits
    point = max(point, 0)
    whole, fraction = digits[:point].lstrip("0") or "0", digits[point:].rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return f"-{number}" if sign == "-" and number != "0" else number


def numbers_in(value: object, *, is_foreign: bool = False) -> list[float]:
    """Return the numbers of a decoded message that `Held` would find, in their order."""
    value = opened(value)
    if isinstance(value, dict):
        inner = ((one, is_foreign or name in FOREIGN) for name, one in value.items() if name not in _SKIPPED)
        return [number for one, inside in inner for number in numbers_in(one, is_foreign=inside)]
    if isinstance(value, list):
        return [number for one in value for number in numbers_in(one, is_foreign=is_foreign)]
    if isinstance(value, str):
        return [float(_canonical(found[0])) for found in _NUMBER.finditer(value)]
    if is_foreign and isinstance(value, int | float) and not isinstance(value, bool):
        return [float(value)]
    return []


class Held:
    """A value to look for. is_whole: only as whole words; a number always stands for itself.

    pattern: of the texts that are this value, in place of the text.
    """

    def __init__(self, text: str, *, is_whole: bool = True, pattern: str = "") -> None:
        self.text = text
        self.number = "" if pattern else number_in(text)
        self.is_whole = is_whole or bool(self.number)
        self._written = pattern

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        if self._written:
            return re.compile(self._written)
        edges = (r"(?<!\w)" if self.text[:1].isalnum() else "", r"(?!\w)" if self.text[-1:].isalnum() else "")
        before, after = edges if self.is_whole else ("", "")
        return re.compile(f"{before}{re.escape(self.text)}{after}")

    @property
    def is_common(self) -> bool:
        """True for a value that many messages hold by chance: a number of two digits, a flag."""
        digits = self.number.lstrip("-").replace(".", "")
        return len(digits) <= _COMMON_DIGITS_MAX if digits else self.text in ("true", "false", "null")

    def places(self, body: object) -> Iterator[Place]:
        """Yield the places where a decoded message holds the value."""
        yield from self._places(body, _NO_WORDS, _NO_WORDS, is_foreign=False)

    def _places(self, value: object, near: Words, name: Words, *, is_foreign: bool) -> Iterator[Place]:
        # JSON that stands in a text is content, also where the text is not marked as such.
        inside = opened(value)
        value, is_foreign = inside, is_foreign or inside is not value
        if isinstance(value, dict):
            yield from self._in_object(value, near, is_foreign=is_foreign)
        elif isinstance(value, list):
            for one in value:
                yield from self._places(one, near, name, is_foreign=is_foreign)
        elif isinstance(value, str):
            for place in self._in_text(value):
                words = near | (name if place.is_alone else place.words)
                yield Place(words, place.is_alone, place.text)
        elif is_foreign and self._is(value):  # a number of our own is not content: a turn, a limit, a price
            yield Place(near | name, is_alone=True, text=_encode(value).decode())

    def _in_object(self, value: Mapping[str, object], near: Words, *, is_foreign: bool) -> Iterator[Place]:
        texts = [one for one in value.values() if isinstance(one, str) and len(one) <= NEAR_CHARS]
        beside = near | words_of(" ".join(texts)) if is_foreign else near
        for name, one in value.items():
            if is_foreign or name not in _SKIPPED:
                inside = is_foreign or name in FOREIGN
                words = words_of(name)
                yield from self._places(one, beside | words, _next_to(words), is_foreign=inside)
            if is_foreign and not self.number and (found := self._pattern.search(name)):
                yield Place(near, is_alone=False, text=found[0])

    def _in_text(self, text: str) -> Iterator[Place]:
        for found in (_NUMBER if self.number else self._pattern).finditer(text):
            if not self.number or number_in(found[0]) == self.number:
                start, end = found.span()
                before = _words_in(text[max(start - NEAR_CHARS, 0) : start])
                after = _words_in(text[end : end + NEAR_CHARS])
                words = frozenset((*before, *after)) | _next_to((*before[-1:], *after[:1]))
                yield Place(words, is_alone=text.strip() == found[0], text=found[0])

    def _is(self, value: object) -> bool:
        written = _encode(value).decode()
        if self.number:
            return number_in(written) == self.number
        return self._pattern.fullmatch(written) is not None if self._written else written == self.text


def words_of(text: str) -> Words:
    """Return the words of a text that say something, without their plural."""
    return frozenset(_words_in(text))


def _words_in(text: str) -> list[str]:
    words = (found[0].lower() for found in _WORD.finditer(_CAMEL.sub(" ", text).replace("_", " ")))
    return [word.removesuffix("s") for word in words if word not in _COMMON]


def _next_to(words: Iterable[str]) -> Words:
    return frozenset(f"~{word}" for word in words)
