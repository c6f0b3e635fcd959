"""The boundary: values of ports and clients are cleaned and checked here, once, before they are posted.

Two ways in
  - `to_json(value)`: a Python value, encoded compactly, with its keys in their order.
  - `check_json(text)`: foreign JSON text, which keeps its own bytes, key order and spacing.

Foreign input is cleaned, then bounded, then encoded or parsed. `clean_text`, `clean_json` and `encoded` are
the first step for code that hands it to a parser or an encoder of another library.

An accepted value can be logged, and every later reader can read it. Every other value is refused with
InvalidPrompt, which names its place and the correction. No other exception is raised. Text is cleaned, not
refused: a lone surrogate, which UTF-8 cannot hold, becomes U+FFFD, and NUL, which databases refuse, becomes
U+2400, its picture. Duplicate keys are refused: parsers differ in which of the two they believe.
"""

import dataclasses
import enum
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn, cast

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import NULL, Json
from callboard.runtime.json_kinds import TEXT_LIKE, dumped, is_model, unsuitable
from callboard.runtime.large_values import (
    has_exponents,
    is_deeper,
    is_large,
    keys_in,
    read_exponents,
    uncollected,
    weighed,
)

MAX_BYTES: Final = 16 * 2**20  # bytes of one value: half of what the Messages API takes in one request

# Levels of nested lists and objects. msgspec and the json module fail near 1,000.
MAX_DEPTH: Final = 64


def _plain(value: object) -> object:
    """Return subclasses of text and numbers as plain ones; other types were refused before."""
    if isinstance(value, str):
        return str.__str__(value)
    if is_model(value):
        return dumped(value)
    if isinstance(value, msgspec.Raw):  # from to_builtins
        return _DECODER.decode(_checked(bytes(value), MAX_BYTES, MAX_DEPTH))
    return float(value) if isinstance(value, float) else int(cast(int, value))


_LARGE = "is too large: pass a file's path, or a part of it"
_DEEP = "is nested too deeply, or contains itself"
_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
_DECODER = msgspec.json.Decoder()
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_SHORT = 2**14  # bytes of a value that is weighed part by part
_LONG = 2**16  # bytes of a list that is read by parts
_PART = 4_096  # items
_LISTS = (list, tuple)
_PLAIN_PARTS = (list, tuple, dict)
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# Escapes of lone surrogates, where no escaped backslash stands before them.
_LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_REPLACED: Final = "\ufffd".encode()
_NUL: Final = "\u2400".encode()
_NO_UTF8: Final = b"\xff"  # a byte that no UTF-8 has


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD and NUL by U+2400."""
    if not text.isascii() and _SURROGATE.search(text):
        if _PAIR.search(text):
            text = json.loads(json.dumps(text))  # which joins pairs, without an error handler for each
        text = _SURROGATE.sub("\ufffd", text)
    return text.replace("\0", "\u2400")


def without_blanks(blocks: Iterable[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Return content blocks without blank texts.

    Messages and Converse refuse a blank text, and so each later request of the conversation that has one.
    """
    return [block for block in blocks if not _is_blank(block.get("text"))]


def _is_blank(text: object) -> bool:
    return isinstance(text, str) and not text.strip()


def clean_json(data: bytes) -> bytes:
    """Clean foreign JSON text: bytes that are not UTF-8, and escapes of lone surrogates and of NUL.

    Parsers differ in which of them they refuse, and one that refuses a letter loses the whole text.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("utf-8", "replace").encode()
    return _without_escapes(data)


def _without_escapes(data: bytes) -> bytes:
    if data.find(b"\\u") < 0 or not _SUSPECT.search(data) or _NO_UTF8 in data:
        return data
    # Two backslashes are one of the text: the letter `u` behind them begins no escape.
    data = data.replace(b"\\\\", _NO_UTF8).replace(b"\\u0000", _NUL)
    return _LONE.sub(_REPLACED, data).replace(_NO_UTF8, b"\\\\")


def encoded(value: object, *, what: str = "The value") -> Json:
    """Encode a value that a stranger's text was parsed to, cleaned; `check_json` bounds it later.

    A `Json` in it keeps its bytes. Raises InvalidPrompt for a value that JSON does not have.
    """
    try:
        return Json(_without_escapes(_encoded(value)))
    except Exception as error:
        _refuse(what, error, f"cannot be written ({type(error).__name__}: {clean_text(str(error))[:200]})")


def to_json(
    value: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, what: str = "The value"
) -> Json:
    """Encode a Python value: text, numbers, None, lists, tuples, dicts, structs, dataclasses,
    pydantic models, enums.

    Dates, UUIDs and decimals become text; a `Json` is checked and keeps its bytes. what: the name of the
    value in a refusal. Raises InvalidPrompt with the place and the correction.

    >>> bytes(to_json({"path": "a.txt", "lines": [1, 2]}))
    b'{"path":"a.txt","lines":[1,2]}'
    """
    if value is None:
        return NULL
    if isinstance(value, msgspec.Raw):
        return check_json(bytes(value), max_bytes=max_bytes, max_depth=max_depth, what=what)
    try:
        if type(value) is str:
            value = value.replace("\0", "\u2400")  # before the encoder makes six bytes of each
            if len(value) > max_bytes:
                raise _Refused(_LARGE)
        elif type(value) is dict and max_bytes > _SHORT:
            try:  # nearly all are short, and to count their parts first would take as long as to weigh them
                _weigh_dict(value, max_depth, _SHORT)
            except _Refused:  # which the long way says again, if it is not for its size
                _weigh_long(value, max_depth, max_bytes)
        elif type(value) in _PLAIN_PARTS:
            _weigh_long(value, max_depth, max_bytes)
        else:
            _weigh(value, max_depth, max_bytes)
        data = _encoded(value)
        if data.find(b"\\u") >= 0 and _SUSPECT.search(data):
            data = bytes(_checked(data, max_bytes, max_depth))
        if len(data) > max_bytes:
            raise _Refused(_LARGE)
    except Exception as error:
        _refuse(what, error, f"cannot be read ({type(error).__name__}: {clean_text(str(error))[:200]})")
    return Json(data)


def check_json(
    text: str | bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, what: str = "The JSON"
) -> Json:
    """Check foreign JSON text; return it without white space around it and with cleaned escapes.

    what: the name of the text in a refusal. Raises InvalidPrompt for text that is not exactly one JSON value,
    has a number beyond a float's range or a key twice, or is too deep or too large.

    >>> bytes(check_json('{"b": 1, "a": [true]}'))
    b'{"b": 1, "a": [true]}'
    """
    try:
        return _checked(text, max_bytes, max_depth)
    except (_Refused, RecursionError, msgspec.MsgspecError, ValueError) as error:
        _refuse(what, error, f"is not valid JSON: {clean_text(str(error))[:200]}")


class _Refused(Exception):
    """The refusal of a value. why: its reason. path: the steps to its place, innermost first."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.path: list[str | int] = []

    def __str__(self) -> str:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.path))
        return (f" at `{clean_text('$' + steps)[:300]}` " if steps else " ") + self.why


def _refuse(what: str, error: Exception, why: str) -> NoReturn:
    """Raise InvalidPrompt. why: the reason if the error is of neither this module nor the recursion."""
    why = "is nested too deeply" if isinstance(error, RecursionError) else why
    refused = error if isinstance(error, _Refused) else _Refused(why)
    raise InvalidPrompt(f"{what}{refused}") from None


def _weigh(value: object, depth: int, budget: int) -> int:
    """Return the rest of a budget of bytes after this value, whose JSON has about so many or more."""
    if isinstance(value, str):
        budget -= len(value)
    elif isinstance(value, int):
        budget -= 1 + (value.bit_length() >> 2)
    elif isinstance(value, dict):
        return _weigh_dict(value, depth, budget)
    elif isinstance(value, _LISTS):
        return _weigh_items(enumerate(value), depth, budget)
    elif value is not None:
        return _weigh_other(value, depth, budget)
    return _left(budget)


def _weigh_long(value: object, depth: int, budget: int) -> None:
    """Weigh a list or dict; one of many parts in passes of C."""
    left = weighed(value, depth, budget) if is_large(value) else None
    # Which part has a fault, only a look at each can tell.
    _weigh(value, depth, budget) if left is None else _left(left)


def _left(budget: int) -> int:
    if budget < 0:
        raise _Refused(_LARGE)
    return budget


def _inside(depth: int) -> int:
    if depth <= 0:
        raise _Refused(_DEEP)
    return depth - 1


def _weigh_dict(value: dict[object, object], depth: int, budget: int) -> int:
    """Do as `_weigh_items` does, for a dict."""
    # Without a call for each text or number: most arguments are flat.
    key: object = None
    depth -= 1
    if depth < 0:
        raise _Refused(_DEEP)
    try:
        for key, item in value.items():
            if type(key) is not str and not isinstance(key, str):
                raise _Refused(f"has the key {key!r:.50}, and JSON keys are text: write str(key)")
            if type(item) is str:
                budget -= len(key) + len(item)
            elif type(item) is int:
                budget -= len(key) + 1 + (item.bit_length() >> 2)
            elif type(item) is dict:
                budget = _weigh_dict(item, depth, budget - len(key))
            else:
                budget = _weigh(item, depth, budget - len(key))
            if budget < 0:
                raise _Refused(_LARGE)
    except _Refused as refused:
        if isinstance(key, str):
            refused.path.append(key)
        raise
    return budget


def _weigh_items(items: Iterable[tuple[int | str, object]], depth: int, budget: int) -> int:
    step: int | str = 0
    depth = _inside(depth)
    try:
        for step, item in items:  # noqa: B007  # it is the place that a refusal names
            budget = _weigh(item, depth, budget - 1)
            if budget < 0:
                raise _Refused(_LARGE)
    except _Refused as refused:
        refused.path.append(step)
        raise
    return budget


def _weigh_other(value: object, depth: int, budget: int) -> int:
    if isinstance(value, float):
        if not math.isfinite(value):  # msgspec would write null
            raise _Refused(f"is {value}, and JSON has no such number: pass None or text")
        return _left(budget - 3)
    if isinstance(value, enum.Enum):
        return _weigh(value.value, depth, budget)
    if isinstance(value, TEXT_LIKE):
        return _left(budget - 3)
    if isinstance(value, msgspec.Raw):
        return budget - len(bytes(_checked(bytes(value), budget, depth)))
    if is_model(value):
        return _weigh(dumped(value), depth, budget)
    fields = ((name, getattr(value, name, msgspec.UNSET)) for name in _field_names(value))
    return _weigh_items((field for field in fields if field[1] is not msgspec.UNSET), depth, budget - 2)


def _field_names(value: object) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in dataclasses.fields(value))
    raise _Refused(unsuitable(value))


def _encoded(value: object) -> bytes:
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ENCODER.encode(_scrubbed(value))


def _scrubbed(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, (int, float, msgspec.Raw)):
        return value
    if isinstance(value, _LISTS):
        return [_scrubbed(item) for item in value]
    if isinstance(value, dict):
        clean = {clean_text(key): _scrubbed(item) for key, item in value.items()}
        if len(clean) < len(value):
            raise _Refused("has two keys that are equal once they are cleaned: rename one")
        return clean
    return _scrubbed(msgspec.to_builtins(value, enc_hook=_plain))


def _checked(text: str | bytes, max_bytes: int, max_depth: int) -> Json:
    if not isinstance(text, str | bytes):
        raise _Refused(f"is a {type(text).__name__}, not JSON text: for Python values there is to_json")
    data = b"" if len(text) > max_bytes else clean_text(text).encode() if isinstance(text, str) else text
    if len(text) > max_bytes or len(data) > max_bytes:
        raise _Refused(_LARGE)
    data = data.strip(b" \t\r\n")
    if data.find(b"\\u") >= 0:
        data = _without_escapes(data)
    objects = data.count(b"{")
    if objects + data.count(b"[") > max_depth and is_deeper(data, max_depth):
        raise _Refused(f"is nested deeper than {max_depth}, or its brackets do not match")
    if len(data) <= _LONG:
        return NULL if _read(data, objects) is None else Json(data)
    with uncollected():
        _read_long(data, objects)
    return Json(data)


def _read_long(data: bytes, objects: int) -> None:
    """Do as `_read` does, for a list in parts, so that its values are never there together."""
    if not data.startswith(b"["):
        _read(data, objects)
        return
    items = _ITEMS.decode(data)
    for at in range(0, len(items), _PART):
        _read(b"[%b]" % b",".join(items[at : at + _PART]), objects)


def _read(data: bytes, objects: int) -> object:
    """Decode a JSON text, and refuse a key that an object has twice. objects: 0 if the text has none."""
    value = read_exponents(data) if has_exponents(data) else _DECODER.decode(data)
    if objects and not _is_compact(data, value):
        _refuse_twice(data, value)
    return value


def _refuse_twice(data: bytes, value: object) -> None:
    """Refuse a text of JSON that has more keys than its value."""
    if len(data) <= _LONG:  # the key is named
        _DUPLICATES.decode(data.decode())
    elif keys_in(data) != keys_in(_ENCODER.encode(value)):
        raise _Refused("has a key twice in one object: keep one")


def _is_compact(data: bytes, value: object) -> bool:
    """Return True if the text is its value's JSON, apart from spaces after colons and commas.

    Such a text has no duplicate keys, since its value would have lost one of them.
    """
    # Faster than a look at every key (0.6 us, not 2.4, for 100 bytes), and true of most texts of programs.
    written = _ENCODER.encode(value)
    return data == written or data.replace(b'": ', b'":').replace(b", ", b",") == written


def _unique(pairs: list[tuple[str, object]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise _Refused(f"has the key {clean_text(key)!r:.100} twice in one object: keep one")
        seen.add(key)


_DUPLICATES = json.JSONDecoder(object_pairs_hook=_unique)
