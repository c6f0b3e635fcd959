"""Answers checks, within an allowance of work: on the event loop a small one, in the worker a large one.

The same code answers in both places, so an answer does not depend on where it was made. What exceeds the
allowance raises TooMuch and says nothing.
"""

from collections import OrderedDict
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas import limits
from callboard.runtime.schemas.acceptance import Accepted, Refused, TooMuch, accept, refuse_by_length
from callboard.runtime.schemas.fast import Check, compile_fast
from callboard.runtime.schemas.jsontext import TooDeep, Unreadable, is_deeper, longest, parse, values_bound
from callboard.runtime.schemas.wording import problem

if TYPE_CHECKING:
    from callboard.runtime.schemas.validation import Ready, Validation


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may be done at most; None for anything. See the constants of limits.py for the units."""

    schema_bytes: int | None = None
    value_bytes: int | None = None
    pattern_work: int | None = None
    visits: int | None = None
    values: int | None = None
    steps: int | None = None


ON_THE_LOOP: Final = Allowance(
    limits.INLINE_SCHEMA_BYTES,
    limits.INLINE_VALUE_BYTES,
    limits.INLINE_PATTERN_WORK,
    limits.INLINE_VISITS,
    limits.INLINE_VALUES,
    limits.INLINE_STEPS,
)
IN_THE_WORKER: Final = Allowance()


class NotLoaded(TooMuch):
    """jsonschema is needed and not imported yet, which takes 0.1 s."""


class Failed(Exception):
    """The check cannot be answered; the message says why."""


@dataclass(slots=True)
class _Entry:
    """A schema that was seen before: what it is, or that it is too much for this engine."""

    problems: tuple[SchemaProblem, ...] = ()
    accepted: Accepted | None = None
    fast: Check | None = None
    ready: "Ready | None" = None
    is_too_much: bool = False


class Engine:
    """Accepts schemas and checks reports, one at a time, remembering schemas."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._bytes = 0
        self._validation: Validation | None = None

    def load(self) -> None:
        """Get jsonschema ready: 2 ms, and the import if `import_jsonschema` was not called before."""
        from callboard.runtime.schemas.validation import Validation

        self._validation = self._validation or Validation()

    def check(self, request: CheckSchema) -> SchemaChecked:
        """The answer. Raises TooMuch where the allowance does not suffice, and nothing else."""
        try:
            return self._answer(request)
        except Refused as refused:
            if request.task == "accept":
                return SchemaChecked(request.check, "invalid", refused.problems)
            reasons = "; ".join(f"{each.path or '/'}: {each.message}" for each in refused.problems)
            return failed(request, f"the schema itself is not accepted: {reasons}")
        except Failed as error:
            return failed(request, str(error))
        except RecursionError:
            if self._allowance is not IN_THE_WORKER:
                raise TooMuch from None
            return failed(request, "the check needs more stack than there is: simplify the schema")
        except TooMuch:
            raise
        except MemoryError:
            return failed(request, "the check needs more memory than there is: simplify the schema")
        except Exception as error:  # a check is answered whatever happens; the class names our fault
            return failed(request, f"the check itself broke: {type(error).__name__}")

    def _answer(self, request: CheckSchema) -> SchemaChecked:
        refuse_by_length(_length(request.schema))
        if request.task == "report":
            self._refuse_by_length(request)
        entry = self._entry(bytes(request.schema))
        if entry.problems:
            raise Refused(*entry.problems)
        problems = () if request.task == "accept" else self._report(entry, bytes(request.value))
        return SchemaChecked(request.check, "invalid" if problems else "ok", problems)

    def _refuse_by_length(self, request: CheckSchema) -> None:
        length = _length(request.value)
        if length > limits.VALUE_BYTES_MAX:
            raise Failed(f"the value has {length:,} bytes, at most {limits.VALUE_BYTES_MAX:,} are allowed")
        _within(length, self._allowance.value_bytes)

    def _report(self, entry: _Entry, text: bytes) -> tuple[SchemaProblem, ...]:
        try:
            value = parse(text)
        except TooDeep as error:
            raise Failed(f"the value {error}") from None
        except Unreadable as error:
            return (problem("", str(error)),)
        if is_deeper(text, value, limits.VALUE_DEPTH_MAX):
            raise Failed(f"the value nests more than {limits.VALUE_DEPTH_MAX} levels deep")
        if longest(text, value, limits.ITEMS_MAX) > limits.ITEMS_MAX:
            raise Failed(f"the value has an array or object of more than {limits.ITEMS_MAX:,} entries")
        values = values_bound(text)
        if self._is_valid_fast(entry, value, values):
            return ()
        _within(values, self._allowance.values)
        return self._slowly(entry, value)

    def _is_valid_fast(self, entry: _Entry, value: object, values: int) -> bool:
        if entry.fast is None or entry.accepted is None or entry.accepted.width is None:
            return False
        allowed = self._allowance.visits
        if allowed is not None and values * entry.accepted.width > allowed:
            return False
        return entry.fast(value)

    def _slowly(self, entry: _Entry, value: object) -> tuple[SchemaProblem, ...]:
        if self._validation is None:
            raise NotLoaded
        if entry.ready is None and entry.accepted is not None:
            entry.ready = self._validation.ready(entry.accepted.outline)
        return self._validation.problems(entry.ready, value, self._allowance.steps) if entry.ready else ()

    def _entry(self, text: bytes) -> _Entry:
        entry = self._entries.get(text)
        if entry is None:
            entry = self._read(text)
            self._keep(text, entry)
        else:
            self._entries.move_to_end(text)
        if entry.is_too_much:
            raise TooMuch
        return entry

    def _read(self, text: bytes) -> _Entry:
        try:
            _within(len(text), self._allowance.schema_bytes)
            accepted = accept(text, self._allowance.pattern_work)
        except Refused as refused:
            return _Entry(refused.problems)
        except TooMuch:
            return _Entry(is_too_much=True)
        return _Entry(accepted=accepted, fast=compile_fast(accepted))

    def _keep(self, text: bytes, entry: _Entry) -> None:
        self._entries[text] = entry
        self._bytes += len(text)
        while len(self._entries) > limits.CACHED_SCHEMAS or self._bytes > limits.CACHED_BYTES:
            self._bytes -= len(self._entries.popitem(last=False)[0])


def import_jsonschema() -> None:
    """Import jsonschema: 0.1 s once. Call it in a thread."""
    import_module("callboard.runtime.schemas.validation")


def failed(request: CheckSchema, why: str) -> SchemaChecked:
    """The answer to a check that could not be answered."""
    return SchemaChecked(request.check, "failed", (problem("", why),))


def _within(amount: int, allowed: int | None) -> None:
    if allowed is not None and amount > allowed:
        raise TooMuch


def _length(text: Json) -> int:
    return memoryview(text).nbytes
