"""Values inside messages that are more than a number, a text or foreign JSON."""

from typing import Final, Literal, TypeAlias

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json, Part, Value
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.usage import Need, Usage

INPUT_ROUNDS_MAX: Final = 10
"""The most times that one call may ask a person for input."""


Effects: TypeAlias = Literal["recorded", "ask", "live"]
"""The choice of a fork for tools with an effect that have no recorded result: the ask ends, a person decides
about each call, or they run."""


Spans: TypeAlias = tuple[tuple[str, str], ...]
"""Scopes of budgets above the session, each with its period: `2026-11-28`, `2026-11`, or '' for all time."""


class Settled(Value, frozen=True):
    """The end of a grant. text: of the reply. usage: None if unknown; the reservation is charged then."""

    usage: Usage | None = None
    text: str = ""


class Sent(Value, frozen=True):
    """The request as it was sent. digest: SHA-256 of its body. made_by: the libraries that made the body.

    head, tail: if the body is kept, the number of bytes at its beginning and at its end that are those of the
    body that was kept for the same agent before.
    """

    digest: str
    made_by: str
    head: int = 0
    tail: int = 0


class AskedRequest(Value, frozen=True):
    """The whole request of a program's question, which the program's agent keeps.

    ask: the id of the question. digest: of the request. tokens: an upper bound on its input; bytes: the same
    without any count. max_tokens: of the reply, 0 for the model's own bound. media: the counts of
    `media.Media` in its order; empty for none.
    """

    ask: str
    digest: str
    tokens: int
    bytes: int
    max_tokens: int = 0
    media: tuple[int, ...] = ()


class FirstTurn(Value, frozen=True):
    """The first turn of an agent that began with the grant for it. need, digest: as of `TurnRequested`."""

    need: Need
    digest: str


class SchemaProblem(Value, frozen=True):
    """One way in which a value does not match its schema, or a schema is invalid. path: its place."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message}"


Response: TypeAlias = Literal["ok", "invalid_input", "unavailable", "error"]
"""The result of a call of an agent, as its caller's model reads it. `error` is a text, by `task`."""


class CallMetadata(Value, frozen=True):
    """Facts about one call of an agent, which no model reads.

    subagent, supervisor: the profiles of the agent, of a race the first, and of the one that called it.
    response: the form of the result. delegation_context: the name of the function that made its context,
    empty for none.
    """

    subagent: str
    supervisor: str
    response: Response
    delegation_context: str = ""


class Reason(Value, frozen=True):
    """The end of one of a delegation's agents."""

    address: str
    kind: OutcomeKind
    detail: str = ""


class ForkChange(Part, frozen=True):
    """An input of a fork that differs from the recorded one. replaces: the seq of the recorded one.

    agent, turn, call: the call that it answers; call is -1 for the reply of the model itself. An input of the
    client answers none: an empty text and two zeros. value: the new one, as JSON.
    """

    agent: str
    turn: int
    call: int
    replaces: int
    value: Json = NULL


class ModelFailure(Value, frozen=True, metaclass=NamedFields):
    """The reason why a model call has no answer.

    code: the service's error type, or our own (`timeout`, `connection`, `broken_stream`, `garbage`, ...).
    retry_after_ms: the wait that the service asked for; None without one.
    digest: of an answer that came whole and cannot be read; empty for any other failure. The same answer
        twice is not asked for again.
    """

    code: str
    message: str = ""
    is_retryable: bool = False
    retry_after_ms: int | None = None
    digest: str = ""


class CacheRequest(Value, frozen=True):
    """The wish of a call to be answered with an earlier result.

    key: the digest of all that the result depends on, apart from the shared state. ttl_ms, over_writes: as of
    `CacheRules`.
    """

    key: str
    ttl_ms: int = 0
    over_writes: bool = False


class InputAsked(Part, frozen=True):
    """The input that a call asks a person for, before it goes on.

    forms: a JSON object; each form has a name, a `message`, and a `schema` of its values or a `url` to visit.
    kept: the tool's own note of the call so far, which it gets back; no model reads it.
    """

    forms: Json
    kept: str = ""


InputAction: TypeAlias = Literal["accept", "decline", "cancel"]


class InputGiven(Part, frozen=True):
    """The answer of a person to the forms of a call.

    round: from 1 up. values: of each form, by its name; null for a form that was not filled in.
    action: `decline` if a person refused, `cancel` if no answer came in time.
    """

    round: int
    values: Json = NULL
    kept: str = ""
    action: InputAction = "accept"
