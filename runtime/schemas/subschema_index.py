"""One walk over a schema: its subschemas by JSON pointer, their references, and reasons to refuse it.

Only the places where the draft expects a schema are walked: a `$ref` inside `const`, `enum`, `default` or
`examples` is data, and so is a property named `$ref`. The shape of keywords is not judged here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote, urljoin

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.json_text import escape, problem, show
from callboard.runtime.schemas.limits import MULTIPLE_OF_MIN, PROBLEMS_MAX, SUBSCHEMAS_MAX

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
