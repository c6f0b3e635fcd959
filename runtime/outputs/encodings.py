"""The encodings of a result: JSON, XML and YAML as one text, and the choice of the shortest."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.outputs.tool_output import Encoding
from callboard.runtime.outputs.toon import JsonValue, Plain, toon

Named: TypeAlias = Literal["json", "yaml", "xml", "toon"]
AUTO: Final[tuple[Named, ...]] = ("json", "toon", "yaml")
"""The encodings that `auto` chooses among, in this order."""
_NAME: Final = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]*", re.IGNORECASE)
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_OWN: Final = frozenset({"item", "entry", "tool_result"})
# A reader makes a line break of a bare return.
_IN_TEXT: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9 _./()-]*")
# As YAML 1.1 has them: its readers are the most common ones.
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan"})
_UNREADABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def yaml(value: JsonValue) -> str:
    """Encode a value, without a line break at its end.

    >>> print(yaml({"name": "Ada", "tags": ["a", "true"]}))
    name: Ada
    tags:
    - a
    - "true"
    """
    return "\n".join(_lines(value, ""))


def _lines(value: JsonValue, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _entry(f"{indent}{_text(key)}:", part, indent, is_item=False)
    elif isinstance(value, list) and value:
        for part in value:
            yield from _entry(f"{indent}-", part, indent, is_item=True)
    else:
        yield f"{indent}{_scalar(value)}"


def _entry(head: str, part: JsonValue, indent: str, *, is_item: bool) -> Iterable[str]:
    """Return the lines of a part behind its key or hyphen."""
    if not (isinstance(part, dict | list) and part):
        return [f"{head} {_scalar(part)}"]
    # A list stands below its key without a further indent, as most writers have it.
    inner = indent if isinstance(part, list) and not is_item else f"{indent}  "
    lines = _lines(part, inner)
    if not is_item:
        return [head, *lines]
    return [f"{head} {next(lines)[len(inner) :]}", *lines]


def _scalar(value: Plain | list[JsonValue] | dict[str, JsonValue]) -> str:
    """Return the text of a plain value, an empty list or an empty object."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _float(value)
    return json.dumps(value)


def _float(number: float) -> str:
    """Return a number that YAML 1.1 reads as one: it wants a point before an exponent, and a sign in it."""
    told = repr(number)
    mantissa, mark, exponent = told.partition("e")
    if mark and "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}{mark}{exponent}"


def _text(text: str) -> str:
    if _BARE.fullmatch(text) and text[-1] != " " and text.lower() not in _WORDS:
        return text
    written = json.dumps(text, ensure_ascii=False)
    for mark in sorted(set(_UNREADABLE.findall(written))):
        written = written.replace(mark, f"\\u{ord(mark):04x}")
    return written


class Encoded(NamedTuple):
    """A result as text, and the encoding that was used."""

    text: str
    encoding: Named


def compact_json(value: JsonValue) -> str:
    """Encode a value as compact JSON, with its keys in their order."""
    return msgspec.json.encode(value).decode()


def encoded(value: JsonValue, encoding: Encoding, tool: str) -> Encoded:
    """Encode a JSON value. tool: the name that XML states.

    >>> encoded([{"id": 1, "name": "Ada"}, {"id": 2, "name": "Linus"}], "auto", "t").encoding
    'toon'
    """
    if encoding != "auto":
        return Encoded(_as(encoding, value, tool), encoding)
    every = [Encoded(_as(one, value, tool), one) for one in AUTO]
    return min(every, key=lambda one: estimated_tokens(one.text))


_ENCODERS: Final[Mapping[str, Callable[[JsonValue], str]]] = {
    "json": compact_json,
    "yaml": yaml,
    "toon": toon,
}


def _as(encoding: Encoding, value: JsonValue, tool: str) -> str:
    return xml(value, tool) if encoding == "xml" else _ENCODERS[cast(str, encoding)](value)


def xml(value: JsonValue, name: str) -> str:
    """Encode a value. name: of the tool.

    >>> xml({"text": "a < b"}, "search")
    '<tool_result name="search"><text>a &lt; b</text></tool_result>'
    """
    return f"<tool_result name={_quoted(name)}>{''.join(_parts(value))}</tool_result>"


def _parts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            is_name = _NAME.fullmatch(key) and key.lower() not in _OWN
            yield from _element(key, part) if is_name else _element("entry", part, _attribute(key))
    elif isinstance(value, list):
        for part in value:
            yield from _element("item", part)
    else:
        yield _clean(_plain(value)).translate(_IN_TEXT)


def _element(tag: str, part: JsonValue, attribute: str = "") -> Iterator[str]:
    yield f"<{tag}{attribute}>"
    yield from _parts(part)
    yield f"</{tag}>"


def _attribute(key: str) -> str:
    return f" key={_quoted(key)}"


def _quoted(text: str) -> str:
    from xml.sax.saxutils import quoteattr  # 10 ms that most programs never need

    return quoteattr(_clean(text))


def _plain(value: str | float | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
