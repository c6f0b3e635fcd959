"""Which texts are accepted as schemas. The answer needs no network and no files."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.json_text import Unreadable, is_deeper, parse
from callboard.runtime.schemas.limits import (
    INLINE_PATTERNS,
    INLINE_SCHEMA_BYTES,
    SCHEMA_BYTES_MAX,
    SCHEMA_DEPTH_MAX,
)
from callboard.runtime.schemas.step_budget import has_large_numbers, steps_per_value
from callboard.runtime.schemas.subschema_index import index_of
from callboard.runtime.schemas.wording import problem, show

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator


class Refused(Exception):
    """The text is no schema that we accept. problems: the reasons, and what to change."""

    def __init__(self, *problems: SchemaProblem) -> None:
        super().__init__(problems)
        self.problems = problems


class TooMuch(Exception):
    """More work than the event loop may do. The worker may do it."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A schema that is accepted.

    schema: None if places in it are ambiguous, as it gives parts of itself an `$id`. steps: step_budget.py.
    """

    validator: "Draft202012Validator"
    schema: dict[str, object] | None
    steps: int | None


def refuse_by_length(length: int) -> None:
    """Refuse a text by its length alone. Raises Refused."""
    if length > SCHEMA_BYTES_MAX:
        why = f"has {length:,} bytes, at most {SCHEMA_BYTES_MAX:,} are allowed: simplify it"
        raise Refused(problem("", why))


def accept(text: bytes, *, is_bounded: bool = False) -> Accepted:
    """Return the schema of this text. Raises Refused.

    is_bounded: raise TooMuch instead of work that may take too long on the event loop.
    """
    refuse_by_length(len(text))
    if is_bounded and len(text) > INLINE_SCHEMA_BYTES:
        raise TooMuch
    schema = _object(text)
    index = index_of(schema)
    steps = None if index.problems else steps_per_value(index)
    if index.problems:
        raise Refused(*index.problems)
    if is_bounded and len(index.patterns) > INLINE_PATTERNS:
        raise TooMuch
    from callboard.runtime.schemas.compiled import Unfit, compile_schema  # imported when first used

    try:
        validator = compile_schema(schema, is_linear=is_bounded)
    except Unfit as error:
        if is_bounded:
            raise TooMuch from None
        from callboard.runtime.schemas.explain import schema_problems  # only to word a refusal

        raise Refused(*schema_problems(schema, index.patterns, str(error))) from None
    placed = None if index.has_inner_ids else schema
    return Accepted(validator, placed, None if has_large_numbers(text) else steps)


def _object(text: bytes) -> dict[str, object]:
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
