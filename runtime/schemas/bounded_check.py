"""Checks of small values on the event loop, against schemas that may be a stranger's: bounded in time."""

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.engine import Accepted, Refused, TooMuch, accept
from callboard.runtime.schemas.step_budget import is_cheap


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
