"""Checks: which texts are accepted as schemas, and which reports match one.

jsonschema-rs judges on the event loop and in the worker, so an answer does not depend on the place where it
is made. jsonschema words the errors, in the worker only: on the loop a check that is not cheap, or finds a
value invalid, raises TooMuch.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas import json_text
from callboard.runtime.schemas.json_text import TooDeep, Unreadable, is_deeper, parse, problem, show
from callboard.runtime.schemas.subschema_index import has_large_numbers, index_of, is_cheap, steps_per_value

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator


class Refused(Exception):
    """The text is not a schema that we accept. problems: the reasons, and what to change."""

    def __init__(self, *problems: SchemaProblem) -> None:
        super().__init__(problems)
        self.problems = problems


class TooMuch(Exception):
    """More work than the event loop may do. The worker may do it."""


class _Failed(Exception):
    """The check cannot be answered; the message says why."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A schema that is accepted.

    worded: the schema, None if jsonschema cannot word its errors safely. steps: step_budget.py.
    """

    validator: "Draft202012Validator"
    worded: dict[str, object] | None
    steps: int | None


_Entry: TypeAlias = Accepted | Refused | TooMuch


def accept(text: bytes, *, is_bounded: bool = False) -> Accepted:
    """Return the schema of this text. Raises Refused.

    is_bounded: raise TooMuch instead of work that may take too long on the event loop.
    """
    _refuse_by_length(len(text))
    if is_bounded and len(text) > json_text.INLINE_SCHEMA_BYTES:
        raise TooMuch
    schema = _object(text)
    index = index_of(schema)
    steps = None if index.problems else steps_per_value(index)
    if index.problems:
        raise Refused(*index.problems)
    if is_bounded and len(index.patterns) > json_text.INLINE_PATTERNS:
        raise TooMuch
    from callboard.runtime.schemas.compiled import Unfit, compile_schema  # imported when first used

    try:
        validator = compile_schema(schema, is_linear=is_bounded)
    except Unfit as error:
        if is_bounded:
            raise TooMuch from None
        from callboard.runtime.schemas.validation import schema_problems  # only to word a refusal

        raise Refused(*schema_problems(schema, index.patterns, str(error))) from None
    # jsonschema sends the names that `unevaluatedProperties` may not know through Python's `re`.
    worded = None if index.has_unevaluated else schema
    return Accepted(validator, worded, None if has_large_numbers(text) else steps)


def _refuse_by_length(length: int) -> None:
    """Refuse a text before anything is parsed, or copied."""
    if length > json_text.SCHEMA_BYTES_MAX:
        most = f"at most {json_text.SCHEMA_BYTES_MAX:,} are allowed"
        raise Refused(problem("", f"has {length:,} bytes, {most}: simplify it"))


def _object(text: bytes) -> dict[str, object]:
    try:
        schema = parse(text)
    except Unreadable as error:
        raise Refused(problem("", str(error))) from None
    if not isinstance(schema, dict):
        what = f"must be a JSON object that holds a JSON Schema, not {show(schema)}"
        if isinstance(schema, bool):
            what = f"must be a JSON object, not {show(schema)}: write {{}} to accept any value"
        raise Refused(problem("", what))
    if is_deeper(text, schema, json_text.SCHEMA_DEPTH_MAX):
        why = f"nests more than {json_text.SCHEMA_DEPTH_MAX} levels deep: move inner schemas into $defs"
        raise Refused(problem("", why))
    return schema


class Engine:
    """Accepts schemas and checks reports, one at a time, remembering schemas.

    is_bounded: True on the event loop, where a check that may take long raises TooMuch.
    """

    def __init__(self, *, is_bounded: bool = False) -> None:
        self._is_bounded = is_bounded
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._bytes = 0

    def check(self, request: CheckSchema) -> SchemaChecked:
        """Answer. Raises TooMuch if the engine is bounded, and nothing else."""
        try:
            return self._answer(request)
        except Refused as refused:
            if request.task == "accept":
                return SchemaChecked(request.check, "invalid", refused.problems)
            reasons = "; ".join(f"{each.path or '/'}: {each.message}" for each in refused.problems)
            return failed(request, f"the schema itself is not accepted: {reasons}")
        except _Failed as error:
            return failed(request, str(error))
        except (TooMuch, KeyboardInterrupt, SystemExit):
            raise
        except (RecursionError, MemoryError) as error:
            if self._is_bounded:
                raise TooMuch from None
            lack = "memory" if isinstance(error, MemoryError) else "stack"
            return failed(request, f"the check needs more {lack} than there is: simplify the schema")
        except BaseException as error:  # a panic of jsonschema-rs is not an Exception
            return failed(request, f"the check itself broke: {type(error).__name__}")

    def _answer(self, request: CheckSchema) -> SchemaChecked:
        _refuse_by_length(_length(request.schema))
        if request.task != "accept" and (length := _length(request.value)) > json_text.VALUE_BYTES_MAX:
            raise _Failed(
                f"the value has {length:,} bytes, at most {json_text.VALUE_BYTES_MAX:,} are allowed"
            )
        accepted = self._accepted(bytes(request.schema))
        problems = () if request.task == "accept" else self._report(accepted, bytes(request.value))
        return SchemaChecked(request.check, "invalid" if problems else "ok", problems)

    def _report(self, accepted: Accepted, text: bytes) -> tuple[SchemaProblem, ...]:
        if self._is_bounded and (
            len(text) > json_text.INLINE_VALUE_BYTES or not is_cheap(accepted.steps, text)
        ):
            raise TooMuch
        try:
            value = parse(text)
        except TooDeep as error:
            raise _Failed(f"the value {error}") from None
        except Unreadable as error:
            return (problem("", str(error)),)
        if is_deeper(text, value, json_text.VALUE_DEPTH_MAX):
            raise _Failed(f"the value nests more than {json_text.VALUE_DEPTH_MAX} levels deep")
        if accepted.validator.is_valid(value):
            return ()
        if self._is_bounded:
            raise TooMuch
        from callboard.runtime.schemas.validation import report_problems  # only to word an invalid report

        return report_problems(accepted.validator, accepted.worded, value)

    def _accepted(self, text: bytes) -> Accepted:
        """Return a schema, remembered if it was asked for lately. Raises Refused and TooMuch, as then."""
        entry = self._entries.get(text)
        if entry is None:
            try:
                entry = accept(text, is_bounded=self._is_bounded)
            except (Refused, TooMuch) as error:
                entry = error
            self._remember(text, entry)
        else:
            self._entries.move_to_end(text)
        if isinstance(entry, Exception):
            raise entry.with_traceback(None)
        return entry

    def _remember(self, text: bytes, entry: _Entry) -> None:
        """Keep what was decided of a schema; forget what was not asked for longest."""
        self._entries[text] = entry
        self._bytes += len(text)
        while len(self._entries) > json_text.CACHED_SCHEMAS or self._bytes > json_text.CACHED_BYTES:
            self._bytes -= len(self._entries.popitem(last=False)[0])


def failed(request: CheckSchema, why: str) -> SchemaChecked:
    """Return the answer to a check that could not be answered."""
    return SchemaChecked(request.check, "failed", (problem("", why),))


def _length(text: Json) -> int:
    return memoryview(text).nbytes
