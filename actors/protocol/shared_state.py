"""The keys of a session's shared state, and the updates that tools make.

    replace   an update takes the place of the value; both have the same JSON type, unless the first is null
    append    an update is one more item of a list
    add       an update is a whole number, which is added to the value

Rules
  - A session declares its keys in `SessionOpened`, and further ones in `Resumed`. A key keeps its reducer.
  - `why_refused` is the one check of an update. The tools port makes it before it posts an update.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from callboard.actors.protocol.immutable import NULL, Json, Part
from callboard.actors.protocol.labels import Labels

Reducer: TypeAlias = Literal["replace", "append", "add"]
"""The way in which an update changes the value of a key."""

NUMBER_MAX: Final = 2**53
"""Updates of an `add` key are below this, also as negative numbers."""

_INTEGER: Final = msgspec.json.Decoder(int)
_ITEMS: Final = msgspec.json.Decoder(tuple[Json, ...])
_WORDS: Final = {
    ord('"'): "a text", ord("{"): "an object", ord("["): "a list", ord("t"): "a flag", ord("f"): "a flag",
    ord("n"): "null",
}  # fmt: skip


class StateKey(Part, frozen=True):
    """A key of the shared state. first: its value before the first update."""

    name: str
    reducer: Reducer = "replace"
    first: Json = NULL


class StateUpdate(Part, frozen=True):
    """An update of one key by a tool call. labels: of the value."""

    key: str
    value: Json = NULL
    labels: Labels = ()


def why_refused(key: StateKey, value: Json) -> str:
    """Return the reason to refuse an update of a key, in words for its tool; empty if it fits."""
    if key.reducer == "append":
        return ""
    if key.reducer == "add":
        return "" if integer_of(value) is not None else "it adds whole numbers below 2**53"
    wanted, given = type_of(key.first), type_of(value)
    return "" if wanted in ("null", given) else f"it holds {wanted}, and this is {given}"


def why_unusable(key: StateKey) -> str:
    """Return the reason why a key cannot begin with its first value; empty if it can."""
    if key.reducer == "add" and integer_of(key.first) is None:
        return "a key that adds begins with a whole number below 2**53"
    if key.reducer == "append" and items_of(key.first) is None:
        return "a key that appends begins with a list"
    return ""


def type_of(value: Json) -> str:
    """Return the JSON type of a value, in words."""
    return _WORDS.get(bytes(value).lstrip()[0], "a number")


def integer_of(value: Json) -> int | None:
    """Return the whole number that a value is; None for any other value."""
    try:
        number = _INTEGER.decode(value)
    except msgspec.DecodeError:
        return None
    return number if -NUMBER_MAX < number < NUMBER_MAX else None


def items_of(value: Json) -> tuple[Json, ...] | None:
    """Return the items of a list; None for any other value."""
    try:
        return _ITEMS.decode(value)
    except msgspec.DecodeError:
        return None
