"""The validators of output types: users' code, which may take forever, on threads of their own.

Checks of small values on the event loop, against schemas that may be a stranger's: bounded in time.
"""

import asyncio
import contextlib
import contextvars

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.failure_text import failure_text
from callboard.runtime.sanitize import clean_text
from callboard.runtime.schemas.engine import Accepted, Refused, TooMuch, accept
from callboard.runtime.schemas.json_text import PROBLEMS_MAX, TEXT_CHARS_MAX
from callboard.runtime.schemas.output_types import OutputType
from callboard.runtime.schemas.subschema_index import is_cheap
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.tools.threads import Job, Threads


class Validators:
    """Runs the validators of types on reports. Belongs to one event loop; close it when done."""

    def __init__(self) -> None:
        self._threads = Threads(name="callboard-validator")

    async def check(
        self, request: CheckSchema, kind: OutputType | None, redactor: Redactor, timeout_s: float
    ) -> SchemaChecked:
        """Answer for a report that fits its schema. kind: None if the program does not have the type.

        An exception that is no refusal, and a validator that takes too long, make the answer `failed`.
        """
        if kind is None:
            return _failed(request, f"the type {request.output_type} is not among those of this program")
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[SchemaChecked] = loop.create_future()
        context = contextvars.copy_context()

        def run() -> None:
            answer = context.run(validated, request, kind, redactor)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_take, answered, answer)

        job = Job(run)
        self._threads.submit(job)
        try:
            await asyncio.wait([answered], timeout=max(timeout_s, 0.0))
        finally:
            if not answered.done():
                self._threads.give_up(job)
        if answered.done():
            return answered.result()
        took = f"the validators of {kind.name} took longer than {request.timeout_ms:,} ms"
        return _failed(request, f"{took}: make them faster, or raise schema_timeout_s")

    def close(self) -> None:
        """End idle threads. Busy ones end with their validators, or with the process."""
        self._threads.close()


def validated(request: CheckSchema, kind: OutputType, redactor: Redactor) -> SchemaChecked:
    """Run the validators of a type on a report, on this thread. Never raises."""
    try:
        found = () if kind.form is None else kind.form.problems(bytes(request.value))[:PROBLEMS_MAX]
        problems = tuple(
            SchemaProblem(_kept(each.path, redactor), _kept(each.message, redactor)) for each in found
        )
    except BaseException as error:  # a validator may call `sys.exit()`
        return _failed(request, _kept(f"a validator of {kind.name} broke: {failure_text(error)}", redactor))
    return SchemaChecked(request.check, "invalid" if problems else "ok", problems)


def _kept(text: str, redactor: Redactor) -> str:
    return redactor.kept(clean_text(text), TEXT_CHARS_MAX)


def _failed(request: CheckSchema, why: str) -> SchemaChecked:
    return SchemaChecked(request.check, "failed", (SchemaProblem("", why),))


def _take(answered: "asyncio.Future[SchemaChecked]", answer: SchemaChecked) -> None:
    if not answered.done():
        answered.set_result(answer)


class TooComplex(Exception):
    """An invalid schema, or one that cannot be checked in bounded time; the text has the reason."""


def check_schema(schema: bytes) -> Accepted:
    """Return a schema that can be checked here. Raises TooComplex for any other."""
    try:
        return accept(schema, is_bounded=True)
    except TooMuch:
        raise TooComplex("its schema is too complex") from None
    except Refused as refused:
        reasons = "; ".join(f"{each.path or '/'}: {each.message}" for each in refused.problems)
        raise TooComplex(f"its schema is not accepted: {reasons}") from None


def problems_in(schema: bytes, data: Json) -> tuple[SchemaProblem, ...]:
    """Return the reasons why a value does not match a schema; none if it does. Raises TooComplex."""
    accepted = check_schema(schema)
    if not is_cheap(accepted.steps, bytes(data)):
        raise TooComplex("its schema is too complex")
    value = msgspec.json.decode(data)
    if accepted.validator.is_valid(value):
        return ()
    from callboard.runtime.schemas.validation import report_problems  # only to word a refusal

    return report_problems(accepted.validator, accepted.worded, value)
