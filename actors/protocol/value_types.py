"""What messages carry that is more than a number, a text or foreign JSON, and no message itself."""

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.usage import Usage


class Settled(Value, frozen=True):
    """The end of a grant: what the call used (None: not known, charge the reservation) and last said."""

    usage: Usage | None = None
    text: str = ""


class SchemaProblem(Value, frozen=True):
    """One way in which a value does not match its schema, or a schema is none: where, and what."""

    path: str
    message: str


class Reason(Value, frozen=True):
    """How one of a delegation's agents ended."""

    address: str
    kind: OutcomeKind
    detail: str = ""


class ModelFailure(Value, frozen=True):
    """Why a model call has no answer.

    code: the service's own error type, or ours (`timeout`, `connection`, `broken_stream`, `garbage`, ...).
    retry_after_ms: how long the service asked to wait; None where it said nothing.
    """

    code: str
    message: str = ""
    is_retryable: bool = False
    retry_after_ms: int | None = None
