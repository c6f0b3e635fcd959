"""The work that jsonschema-rs may need for a check, estimated before it is asked.

It holds the interpreter and cannot be stopped, so an estimate must never be too low by much. A step is
one JSON value of the schema that looks at one value of the report; a definition counts every time that a
reference reaches it. A schema that refers to itself has no estimate: the worker checks it.
"""

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

from callboard.runtime.schemas.json_text import size, values_bound
from callboard.runtime.schemas.limits import INLINE_STEPS, STEPS_PER_VALUE_MAX
from callboard.runtime.schemas.subschema_index import PLACES, SubschemaIndex

# Keywords whose subschemas look at the value itself, not at a part of it: a loop of these never ends.
_SAME_VALUE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
)

# Keywords whose subschemas look at nothing unless something refers to them.
_NEVER_APPLIED: Final = frozenset({"$defs", "definitions", "contentSchema"})

# Steps of `multipleOf`, and of a search in _BYTES_PER_STEP: `[ab]*a[ab]{250}c` takes 2.4 us a byte.
_SLOW_STEPS: Final = 200

# A value counts once more for each so many bytes of its text, for strings are searched and measured.
_BYTES_PER_STEP: Final = 16

# `unevaluated...` checks the subschemas beside it again, at each of nested ones: x2.7 a level, measured.
_UNEVALUATED_FACTOR: Final = 4

_DIGITS: Final = re.compile(rb"\d{19}")
_EXPONENT: Final = re.compile(rb"[eE][+-]?\d\d")
# Numbers beyond 64 bits: `uniqueItems` compares 5,000 in 15 s, `multipleOf` takes 40 us for 1e308.
_NUMBER: Final = re.compile(rb"(?:^|[\[,:\s])-?\d+(?:\.\d+)?[eE][+-]?\d\d")


def steps_per_value(index: SubschemaIndex) -> int | None:
    """Return the steps that one value of a report may take; None if no figure can be given.

    Note loops that never end, and doubling, in the index's problems.
    """
    same = {path: [to for how, to in edges if how in _SAME_VALUE] for path, edges in index.edges.items()}
    try:
        TopologicalSorter(same).prepare()
    except CycleError as error:
        why = "refers to itself for the same value, which never ends"
        index.refuse(min(error.args[1], key=len), f"{why}: put the $ref under properties or items")
        return None
    steps = _steps(index)
    if steps is not None and steps > STEPS_PER_VALUE_MAX:
        words = f"needs more than {STEPS_PER_VALUE_MAX:,} steps for one value"
        index.refuse("", f"{words} once references are followed: simplify it")
    return None if index.is_dynamic else steps


def is_cheap(steps: int | None, text: bytes) -> bool:
    """Return True if a value, of this text, takes few enough steps for the event loop."""
    if steps is None or has_large_numbers(text):
        return False
    return steps * (values_bound(text) + len(text) // _BYTES_PER_STEP) <= INLINE_STEPS


def has_large_numbers(text: bytes) -> bool:
    """Return True if a JSON text may hold numbers for which jsonschema-rs computes with big integers."""
    if _DIGITS.search(text):
        return True
    # _NUMBER alone would do, ten times slower.
    return _EXPONENT.search(text) is not None and _NUMBER.search(text) is not None


def _steps(index: SubschemaIndex) -> int | None:
    applied = {
        path: [to for how, to in edges if how not in _NEVER_APPLIED] for path, edges in index.edges.items()
    }
    try:
        order = list(TopologicalSorter(applied).static_order())
    except CycleError:
        return None
    steps: dict[str, int] = {}
    for path in order:
        below = sum(steps[to] for to in applied[path])
        schema = index.nodes[path]
        steps[path] = _own_steps(schema, below) if isinstance(schema, dict) else 1
    return steps[""]


def _own_steps(schema: Mapping[str, object], below: int) -> int:
    named = schema.get("patternProperties")
    slow = ("pattern" in schema) + ("multipleOf" in schema) + (len(named) if isinstance(named, dict) else 0)
    data = sum(size(value) for keyword, value in schema.items() if keyword not in PLACES)
    is_unevaluated = "unevaluatedItems" in schema or "unevaluatedProperties" in schema
    return 1 + data + _SLOW_STEPS * slow + below * (_UNEVALUATED_FACTOR if is_unevaluated else 1)
