"""Is this text a schema we accept? The answer needs no network, no files and no jsonschema."""

from dataclasses import dataclass

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.graph import link, width_of
from callboard.runtime.schemas.jsontext import Unreadable, is_deeper, parse
from callboard.runtime.schemas.limits import SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX
from callboard.runtime.schemas.outline import Outline, outline_of
from callboard.runtime.schemas.wording import problem, show


class Refused(Exception):
    """The text is no schema that we accept. problems: why, and what to change."""

    def __init__(self, *problems: SchemaProblem) -> None:
        super().__init__(problems)
        self.problems = problems


class TooMuch(Exception):
    """More work than is allowed here. Somebody else may be allowed more."""


@dataclass(slots=True)
class Accepted:
    """A schema that is accepted. width: see graph.py."""

    outline: Outline
    width: int | None


def refuse_by_length(length: int) -> None:
    """Refuse a text by its length alone. Raises Refused."""
    if length > SCHEMA_BYTES_MAX:
        why = f"has {length:,} bytes, at most {SCHEMA_BYTES_MAX:,} are allowed: simplify it"
        raise Refused(problem("", why))


def accept(text: bytes, pattern_work: int | None = None) -> Accepted:
    """The schema of this text. Raises Refused, or TooMuch if its patterns need more than pattern_work."""
    refuse_by_length(len(text))
    schema = _object(text)
    outline = outline_of(schema)
    if not outline.problems:
        link(outline)
    if outline.problems:
        raise Refused(*outline.problems)
    width = width_of(outline)
    if not outline.problems:
        _check_patterns(outline, pattern_work)
    if outline.problems:
        raise Refused(*outline.problems)
    return Accepted(outline, width)


def _object(text: bytes) -> object:
    try:
        schema = parse(text)
    except Unreadable as error:
        raise Refused(problem("", str(error))) from None
    if isinstance(schema, bool):
        raise Refused(
            problem("", f"must be a JSON object, not {show(schema)}: write {{}} to accept any value")
        )
    if not isinstance(schema, dict):
        raise Refused(problem("", f"must be a JSON object that holds a JSON Schema, not {show(schema)}"))
    if is_deeper(text, schema, SCHEMA_DEPTH_MAX):
        raise Refused(
            problem("", f"nests more than {SCHEMA_DEPTH_MAX} levels deep: move inner schemas into $defs")
        )
    return schema


def _check_patterns(outline: Outline, pattern_work: int | None) -> None:
    if not outline.patterns:
        return
    from callboard.runtime.schemas.patterns import Pattern, Unfit, estimate  # few schemas need RE2

    if pattern_work is not None and sum(estimate(each) for _, each in outline.patterns) > pattern_work:
        raise TooMuch
    for path, pattern in outline.patterns:
        try:
            Pattern(pattern)
        except Unfit as error:
            why = f"RE2 cannot use this regular expression, {error}"
            outline.refuse(path, f"{why}: RE2 has neither look-around nor back-references")
