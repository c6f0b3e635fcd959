"""One walk over a schema: its subschemas by JSON pointer, their references, and reasons to refuse it.

Only the places where the draft expects a schema are walked: a `$ref` inside `const`, `enum`, `default` or
`examples` is data, and so is a property named `$ref`. The shape of keywords is not judged here.

The work that jsonschema-rs may need for a check, estimated before it is asked.

It holds the interpreter and cannot be stopped, so an estimate must never be too low by much. A step is
one JSON value of the schema that looks at one value of the report; a definition counts every time that a
reference reaches it. A schema that refers to itself has no estimate: the worker checks it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote, urljoin

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.json_text import (
    INLINE_STEPS,
    MULTIPLE_OF_MIN,
    PROBLEMS_MAX,
    STEPS_PER_VALUE_MAX,
    SUBSCHEMAS_MAX,
    escape,
    problem,
    show,
    size,
    values_bound,
)

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# The form in which a keyword holds subschemas: one, a list of them, or an object of them.
Place: TypeAlias = Literal["one", "list", "map"]

PLACES: Final[Mapping[str, Place]] = {
    **dict.fromkeys(("$defs", "definitions", "properties", "patternProperties", "dependentSchemas"), "map"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), "list"),
    **dict.fromkeys(("items", "contains", "additionalProperties", "propertyNames", "contentSchema"), "one"),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"), "one"),
}


@dataclass(slots=True)
class SubschemaIndex:
    """The parts of a schema.

    nodes: every subschema by its pointer, the root as "".
    edges: per subschema, the keywords and pointers of the subschemas beneath it and of its references.
    patterns: regular expressions, each with its place.
    is_dynamic: True if it refers to the meta-schema, or by `$dynamicRef`: its steps are unknown.
    """

    nodes: dict[str, object] = field(default_factory=dict)
    edges: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    patterns: list[tuple[str, str]] = field(default_factory=list)
    problems: list[SchemaProblem] = field(default_factory=list)
    is_dynamic: bool = False
    has_unevaluated: bool = False
    _addresses: dict[str, str] = field(default_factory=lambda: {"": ""})
    _references: list[tuple[str, str, str]] = field(default_factory=list)

    def refuse(self, path: str, message: str) -> None:
        """Note a problem, up to the bound."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem(path, message))

    def visit(self, path: str, schema: object, base: str) -> None:
        """Note a subschema and those beneath it. base: the address that its references are relative to."""
        if len(self.nodes) > SUBSCHEMAS_MAX:
            return
        self.nodes[path] = schema
        self.edges[path] = []
        if not isinstance(schema, dict):
            return
        base = self._name(path, schema, base)
        self._note(path, schema, base)
        for keyword, value in schema.items():
            for where, child in children_of(keyword, value):
                self.edges[path].append((keyword, f"{path}/{keyword}{where}"))
                self.visit(f"{path}/{keyword}{where}", child, base)

    def _name(self, path: str, schema: dict[str, object], base: str) -> str:
        """Note the addresses that `$id` and anchors give to a subschema; return its base."""
        if isinstance(name := schema.get("$id"), str):
            base = _join(base, name).removesuffix("#")
            self._take(base, f"{path}/$id")
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                self._take(f"{base}#{name}", f"{path}/{keyword}")
        return base

    def _take(self, address: str, place: str) -> None:
        path, _, _ = place.rpartition("/")
        if self._addresses.setdefault(address, path) != path:
            self.refuse(place, f"{show(address)} is there twice: rename one of them")

    def _note(self, path: str, schema: dict[str, object], base: str) -> None:
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(reference := schema.get(keyword), str):
                self._references.append((f"{path}/{keyword}", reference, _join(base, reference)))
        if schema.get("$schema", DIALECT) not in (DIALECT, f"{DIALECT}#"):
            self.refuse(f"{path}/$schema", f"write draft 2020-12, and {DIALECT} here, or leave $schema out")
        if isinstance(pattern := schema.get("pattern"), str):
            self.patterns.append((f"{path}/pattern", pattern))
        if isinstance(named := schema.get("patternProperties"), dict):
            self.patterns.extend((f"{path}/patternProperties/{escape(name)}", name) for name in named)
        self.has_unevaluated |= "unevaluatedItems" in schema or "unevaluatedProperties" in schema
        step = schema.get("multipleOf")
        if isinstance(step, int | float) and 0 < step < MULTIPLE_OF_MIN:
            self.refuse(f"{path}/multipleOf", f"must be at least {MULTIPLE_OF_MIN:g}, not {show(step)}")

    def link(self) -> None:
        """Find the target of every reference; note those that lead out of the schema."""
        for place, reference, address in self._references:
            path, _, keyword = place.rpartition("/")
            resource, _, fragment = address.partition("#")
            fragment = unquote(fragment)
            self.is_dynamic |= keyword == "$dynamicRef" or resource == DIALECT
            if fragment.startswith("/") and resource in self._addresses:
                target = self._addresses[resource] + fragment
            else:
                target = self._addresses.get(f"{resource}#{fragment}" if fragment else resource, "?")
            if target in self.nodes:
                self.edges[path].append((keyword, target))
            elif resource in self._addresses:
                why = "is not a place of this schema where a schema stands: use #/$defs/..."
                self.refuse(place, f"{show(reference)} {why}")
            elif resource != DIALECT:
                why = f"must start with # (nothing is fetched), not {show(reference)}"
                self.refuse(place, f"{why}: put the schema into $defs")


def index_of(schema: object) -> SubschemaIndex:
    """Return the index of a schema that nests at most SCHEMA_DEPTH_MAX levels."""
    index = SubschemaIndex()
    index.visit("", schema, "")
    if len(index.nodes) > SUBSCHEMAS_MAX:
        index.problems.clear()
        index.refuse("", f"has more than {SUBSCHEMAS_MAX:,} subschemas: simplify it")
    else:
        index.link()
    return index


def children_of(keyword: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the subschemas that a keyword holds, each with its pointer below the keyword."""
    place = PLACES.get(keyword)
    if place == "one":
        yield "", value
    elif place == "list" and isinstance(value, list):
        yield from ((f"/{index}", each) for index, each in enumerate(value))
    elif place == "map" and isinstance(value, dict):
        yield from ((f"/{escape(name)}", each) for name, each in value.items())


def _join(base: str, reference: str) -> str:
    try:
        # urljoin would drop the base of a URN.
        return base + reference if reference.startswith("#") else urljoin(base, reference)
    except ValueError:
        return reference


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
