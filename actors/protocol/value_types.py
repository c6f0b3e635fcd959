"""Values inside messages that are more than a number, a text or foreign JSON."""

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.usage import Usage


class Settled(Value, frozen=True):
    """The end of a grant. text: of the reply. usage: None if unknown; the reservation is charged then."""

    usage: Usage | None = None
    text: str = ""


class SchemaProblem(Value, frozen=True):
    """One way in which a value does not match its schema, or a schema is invalid. path: its place."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message}"


class Reason(Value, frozen=True):
    """The end of one of a delegation's agents."""

    address: str
    kind: OutcomeKind
    detail: str = ""


class ModelFailure(Value, frozen=True):
    """The reason why a model call has no answer.

    code: the service's error type, or our own (`timeout`, `connection`, `broken_stream`, `garbage`, ...).
    retry_after_ms: the wait that the service asked for; None without one.
    """

    code: str
    message: str = ""
    is_retryable: bool = False
    retry_after_ms: int | None = None
