"""Answers checks: on the event loop the cheap ones, in the worker all.

An answer does not depend on the place where it is made. Only the worker words errors: on the loop a check
that is not cheap, or finds a value invalid, raises TooMuch.
"""

from collections import OrderedDict
from importlib import import_module
from typing import TypeAlias

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas import limits
from callboard.runtime.schemas.acceptance import Accepted, Refused, TooMuch, accept, refuse_by_length
from callboard.runtime.schemas.json_text import TooDeep, Unreadable, is_deeper, parse
from callboard.runtime.schemas.step_budget import is_cheap
from callboard.runtime.schemas.wording import problem

_Entry: TypeAlias = Accepted | Refused | TooMuch


class _Failed(Exception):
    """The check cannot be answered; the message says why."""


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
        except BaseException as error:  # a panic of jsonschema-rs is no Exception
            return failed(request, f"the check itself broke: {type(error).__name__}")

    def _answer(self, request: CheckSchema) -> SchemaChecked:
        refuse_by_length(_length(request.schema))
        if request.task == "report" and (length := _length(request.value)) > limits.VALUE_BYTES_MAX:
            raise _Failed(f"the value has {length:,} bytes, at most {limits.VALUE_BYTES_MAX:,} are allowed")
        accepted = self._accepted(bytes(request.schema))
        problems = () if request.task == "accept" else self._report(accepted, bytes(request.value))
        return SchemaChecked(request.check, "invalid" if problems else "ok", problems)

    def _report(self, accepted: Accepted, text: bytes) -> tuple[SchemaProblem, ...]:
        if self._is_bounded and (len(text) > limits.INLINE_VALUE_BYTES or not is_cheap(accepted.steps, text)):
            raise TooMuch
        try:
            value = parse(text)
        except TooDeep as error:
            raise _Failed(f"the value {error}") from None
        except Unreadable as error:
            return (problem("", str(error)),)
        if is_deeper(text, value, limits.VALUE_DEPTH_MAX):
            raise _Failed(f"the value nests more than {limits.VALUE_DEPTH_MAX} levels deep")
        if accepted.validator.is_valid(value):
            return ()
        if self._is_bounded:
            raise TooMuch
        from callboard.runtime.schemas.explain import report_problems  # only to word an invalid report

        is_listed = is_cheap(accepted.steps, text, limits.LISTED_STEPS)
        is_listed |= accepted.steps is None and len(text) <= limits.LISTED_VALUE_BYTES
        return report_problems(accepted.validator, accepted.schema, value, is_listed=is_listed)

    def _accepted(self, text: bytes) -> Accepted:
        entry = self._entries.get(text)
        if entry is None:
            entry = self._read(text)
            self._keep(text, entry)
        else:
            self._entries.move_to_end(text)
        if isinstance(entry, Exception):
            raise entry.with_traceback(None)
        return entry

    def _read(self, text: bytes) -> _Entry:
        try:
            return accept(text, is_bounded=self._is_bounded)
        except (Refused, TooMuch) as error:
            return error

    def _keep(self, text: bytes, entry: _Entry) -> None:
        self._entries[text] = entry
        self._bytes += len(text)
        while len(self._entries) > limits.CACHED_SCHEMAS or self._bytes > limits.CACHED_BYTES:
            self._bytes -= len(self._entries.popitem(last=False)[0])


def import_compiled() -> None:
    """Import jsonschema-rs: 25 ms once. Call it in a thread."""
    import_module("callboard.runtime.schemas.compiled")


def failed(request: CheckSchema, why: str) -> SchemaChecked:
    """Return the answer to a check that could not be answered."""
    return SchemaChecked(request.check, "failed", (problem("", why),))


def _length(text: Json) -> int:
    return memoryview(text).nbytes
