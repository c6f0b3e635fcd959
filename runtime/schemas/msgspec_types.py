"""Types that msgspec describes: dataclasses, Structs, TypedDicts, lists, dicts, unions, literals and numbers.

Their validators are the bounds in `Meta` and the type's own `__post_init__`, which runs when the value is
built, too: it is part of the construction.
"""

import re
from inspect import cleandoc
from typing import Final

import msgspec

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.json_text import pointer

# msgspec writes the place at the end: "Expected `int`, got `str` - at `$.items[0].size`".
_PLACE: Final = re.compile(r" - at `(?:key in )?\$(?P<path>.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


class MsgspecForm:
    """A type as msgspec sees it."""

    def __init__(self, kind: object) -> None:
        self._kind = kind
        self._decoder: msgspec.json.Decoder[object] = msgspec.json.Decoder(kind)

    def schema(self) -> dict[str, object]:
        """Return the JSON schema of reports. Raises TypeError for a type that msgspec does not know."""
        schema = msgspec.json.schema(self._kind)
        parts: dict[str, dict[str, object]] = schema.get("$defs", {})
        for part in (schema, *parts.values()):
            if isinstance(text := part.get("description"), str):
                # Before Python 3.13 a docstring keeps its indentation, which models would pay for.
                part["description"] = cleandoc(text)
        return schema

    def problems(self, report: bytes) -> tuple[SchemaProblem, ...]:
        """Return the problem of a report that msgspec or the type's `__post_init__` refuses."""
        try:
            self._decoder.decode(report)
        except msgspec.ValidationError as error:
            return (_problem_of(str(error)),)
        return ()

    def build(self, report: bytes) -> object:
        """Build the value of a report."""
        return self._decoder.decode(report)


def _problem_of(text: str) -> SchemaProblem:
    found = _PLACE.search(text)
    if found is None:
        return SchemaProblem("", text)
    steps = (name or index for name, index in _STEP.findall(found["path"]))
    return SchemaProblem(pointer(steps), text[: found.start()])
