"""XML of JSON values: one element `tool_result`, in which every text is escaped.

    <tool_result name="search"><item><id>1</id><name>Ada</name></item></tool_result>

An item of a list is an `item`. A key that is not a name in XML is the attribute `key` of an `entry`. A
character that XML cannot hold becomes U+FFFD. Types are lost: numbers, flags and null become their texts.
"""

import re
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from callboard.runtime.outputs.values import JsonValue

_NAME: Final = re.compile(r"(?!xml)[A-Za-z_][A-Za-z0-9_.-]*", re.IGNORECASE)
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_OWN: Final = frozenset({"item", "entry", "tool_result"})
_RETURN: Final = {"\r": "&#13;"}  # a reader makes a line break of a bare one


def xml(value: JsonValue, name: str) -> str:
    """Encode a value. name: of the tool.

    >>> xml({"text": "a < b"}, "search")
    '<tool_result name="search"><text>a &lt; b</text></tool_result>'
    """
    return f"<tool_result name={quoteattr(_clean(name))}>{''.join(_parts(value))}</tool_result>"


def _parts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            is_name = _NAME.fullmatch(key) and key.lower() not in _OWN
            yield from _element(key, part) if is_name else _element("entry", part, _attribute(key))
    elif isinstance(value, list):
        for part in value:
            yield from _element("item", part)
    else:
        yield escape(_clean(_plain(value)), _RETURN)


def _element(tag: str, part: JsonValue, attribute: str = "") -> Iterator[str]:
    yield f"<{tag}{attribute}>"
    yield from _parts(part)
    yield f"</{tag}>"


def _attribute(key: str) -> str:
    return f" key={quoteattr(_clean(key))}"


def _plain(value: str | float | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
