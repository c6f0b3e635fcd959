"""Reports of the agents. The runtime checks each one against its JSON schema."""

import msgspec


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report, or a part of one."""


class Evidence(Report, frozen=True):
    """A place that shows something. line: 0 for the file as a whole."""

    file: str
    line: int
    why: str


class Finding(Report, frozen=True):
    """One answer with its evidence: `none` for no such thing, `unknown` if these agents cannot tell.

    basis: the kind of evidence. also: further answers.
    """

    answer: str = "unknown"
    basis: str = "none"
    evidence: tuple[Evidence, ...] = ()
    also: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Module(Report, frozen=True):
    """One module in a few words."""

    path: str = ""
    summary: str = "No summary."
    definitions: tuple[str, ...] = ()


class Modules(Report, frozen=True):
    """The modules that were summarised, and the paths of those that were not."""

    modules: tuple[Module, ...] = ()
    left_out: tuple[str, ...] = ()


class Depth(Report, frozen=True):
    """The number of diggers, and the words with which one more was refused."""

    levels: int = 0
    refused: str = ""


def schema_of(kind: type[Report]) -> dict[str, object]:
    """Return the JSON schema of a report. Every field is required, and an answer needs evidence."""
    parts = msgspec.json.schema(kind)["$defs"]
    for part in parts.values():
        part["required"] = list(part["properties"])
    nothing = {"properties": {"answer": {"enum": ["none", "unknown"]}, "basis": {"const": "none"}}}
    proved = {"properties": {"basis": {"not": {"const": "none"}}, "evidence": {"minItems": 1}}}
    return {**parts.pop(kind.__name__), "$defs": parts} | (
        {"anyOf": [nothing, proved]} if kind is Finding else {}
    )
