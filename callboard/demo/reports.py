"""Reports of the agents. The runtime checks each one against its JSON schema."""

from msgspec import Struct
from msgspec.json import schema

from callboard.demo.facts import Line


class Finding(Struct, frozen=True):
    """One answer with its evidence: `none` for no such thing, `unknown` if these agents cannot tell."""

    answer: str = "unknown"
    basis: str = "none"
    evidence: tuple[Line, ...] = ()
    also: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Module(Struct, frozen=True):
    """One module in a few words."""

    path: str = ""
    summary: str = "No summary."
    definitions: tuple[str, ...] = ()


class Modules(Struct, frozen=True):
    """The modules that were summarised, and the paths of those that were not."""

    modules: tuple[Module, ...] = ()
    left_out: tuple[str, ...] = ()


class Depth(Struct, frozen=True):
    """The number of diggers, and the words with which one more was refused."""

    levels: int = 0
    refused: str = ""


def schema_of(kind: type[Struct]) -> dict[str, object]:
    """Return the JSON schema of a report: exactly its fields, and evidence for an answer."""
    parts = schema(kind)["$defs"]
    for part in parts.values():
        part |= {"required": list(part["properties"]), "additionalProperties": False}
    nothing = {"properties": {"answer": {"enum": ["none", "unknown"]}, "basis": {"const": "none"}}}
    proved = {"properties": {"basis": {"not": {"const": "none"}}, "evidence": {"minItems": 1}}}
    return {**parts.pop(kind.__name__), "$defs": parts} | (
        {"anyOf": [nothing, proved]} if kind is Finding else {}
    )
