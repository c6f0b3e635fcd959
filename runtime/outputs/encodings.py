"""The encodings of a result: one text for a JSON value, and the choice of the shortest.

json    compact, keys in their order            keeps everything
yaml    block style, read by every safe loader  keeps everything
toon    tables with one head                    keeps everything but the difference of 1.0 and 1
xml     escaped, in one element                 loses the types of values
auto    the one of json, toon and yaml with the fewest estimated tokens; the first of several
        the estimate reads the content of each: see `token_estimates.py`
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.outputs.tool_output import Encoding
from callboard.runtime.outputs.toon import toon
from callboard.runtime.outputs.values import JsonValue
from callboard.runtime.outputs.xml import xml
from callboard.runtime.outputs.yaml import yaml

Named: TypeAlias = Literal["json", "yaml", "xml", "toon"]

AUTO: Final[tuple[Named, ...]] = ("json", "toon", "yaml")
"""The encodings that `auto` chooses among, in this order."""


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
