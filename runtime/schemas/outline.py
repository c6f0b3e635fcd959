"""One walk over a schema: its subschemas by JSON pointer, its references, and what is wrong with it.

Only places where the draft expects a schema are walked: a `$ref` inside `const`, `enum`, `default` or
`examples` is data, and so is a property that is named `$ref`.
"""

from dataclasses import dataclass, field
from typing import Final

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.jsontext import escape
from callboard.runtime.schemas.keywords import DIALECT, PLACES, REFUSED, SHAPES
from callboard.runtime.schemas.limits import MULTIPLE_OF_MIN, PROBLEMS_MAX, SUBSCHEMAS_MAX
from callboard.runtime.schemas.wording import problem, show


@dataclass(slots=True)
class Outline:
    """What a schema consists of.

    nodes: every subschema by its pointer, the root as "".
    edges: per subschema, the keywords and pointers of those directly beneath it.
    references: the `$ref` of every subschema that has one. targets: the pointer that each means.
    patterns: regular expressions, each with its place.
    """

    nodes: dict[str, object] = field(default_factory=dict)
    edges: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    anchors: dict[str, str] = field(default_factory=dict)
    patterns: list[tuple[str, str]] = field(default_factory=list)
    problems: list[SchemaProblem] = field(default_factory=list)

    def refuse(self, path: str, message: str) -> None:
        """Note a problem, up to the bound."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem(path, message))


def outline_of(schema: object) -> Outline:
    """The outline of a schema that nests at most SCHEMA_DEPTH_MAX levels."""
    outline = Outline()
    _visit(outline, "", schema)
    if len(outline.nodes) > SUBSCHEMAS_MAX:
        outline.problems.clear()
        outline.refuse("", f"has more than {SUBSCHEMAS_MAX:,} subschemas: simplify it")
    return outline


def _visit(outline: Outline, path: str, schema: object) -> None:
    if len(outline.nodes) > SUBSCHEMAS_MAX:
        return
    if not isinstance(schema, dict | bool):
        outline.refuse(path, f"must be a schema, that is an object, true or false, not {show(schema)}")
        return
    outline.nodes[path] = schema
    outline.edges[path] = []
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            _keyword(outline, path, keyword, value)


def _keyword(outline: Outline, path: str, keyword: str, value: object) -> None:
    if keyword in REFUSED:
        outline.refuse(f"{path}/{keyword}", REFUSED[keyword])
        return
    shape = SHAPES.get(keyword)
    if shape is None:
        return
    if not shape.fits(value):
        why = f"must be {shape.wanted}, not {show(value)}{_hint(keyword, value)}"
        outline.refuse(f"{path}/{keyword}", why)
        return
    if keyword in PLACES:
        _descend(outline, path, keyword, value)
    elif keyword in _SPECIAL:
        _SPECIAL[keyword](outline, path, value)


def _hint(keyword: str, value: object) -> str:
    if keyword in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
        return " (that was draft 4)"
    return " (in an object's schema, list the required names)" if keyword == "required" else ""


def _descend(outline: Outline, path: str, keyword: str, value: object) -> None:
    if keyword == "items" and isinstance(value, list):
        outline.refuse(f"{path}/items", "must be one schema; write prefixItems for one schema per position")
        return
    if PLACES[keyword] == "one":
        children: list[tuple[str, object]] = [(f"{path}/{keyword}", value)]
    elif isinstance(value, list):
        children = [(f"{path}/{keyword}/{index}", each) for index, each in enumerate(value)]
    else:
        named = value if isinstance(value, dict) else {}
        children = [(f"{path}/{keyword}/{escape(name)}", each) for name, each in named.items()]
        if keyword == "patternProperties":
            outline.patterns.extend((f"{path}/{keyword}/{escape(name)}", name) for name in named)
    for child, each in children:
        _visit(outline, child, each)
    outline.edges[path] += [(keyword, child) for child, _ in children if child in outline.nodes]


def _dialect(outline: Outline, path: str, value: object) -> None:
    if value not in (DIALECT, f"{DIALECT}#"):
        outline.refuse(f"{path}/$schema", f"write draft 2020-12, and {DIALECT} here, or leave $schema out")


def _reference(outline: Outline, path: str, value: object) -> None:
    reference = str(value)
    if reference.startswith("#"):
        outline.references[path] = reference
    else:
        why = f"must start with # (nothing is fetched), not {show(reference)}"
        outline.refuse(f"{path}/$ref", f"{why}: put the schema into $defs")


def _anchor(outline: Outline, path: str, value: object) -> None:
    if outline.anchors.setdefault(str(value), path) != path:
        outline.refuse(f"{path}/$anchor", f"{show(value)} is there twice: rename one of them")


def _pattern(outline: Outline, path: str, value: object) -> None:
    outline.patterns.append((f"{path}/pattern", str(value)))


def _multiple(outline: Outline, path: str, value: object) -> None:
    if isinstance(value, int | float) and value < MULTIPLE_OF_MIN:
        outline.refuse(f"{path}/multipleOf", f"must be at least {MULTIPLE_OF_MIN:g}, not {show(value)}")


_SPECIAL: Final = {
    "$schema": _dialect,
    "$ref": _reference,
    "$anchor": _anchor,
    "pattern": _pattern,
    "multipleOf": _multiple,
}
