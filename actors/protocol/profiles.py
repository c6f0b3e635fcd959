"""The pure description of an agent, as it goes into the log. Nothing callable."""

from typing import Literal, TypeAlias

from callboard.actors.protocol.immutable import NULL, Json, Part, Value
from callboard.actors.protocol.limits import Limits

Effect: TypeAlias = Literal["read", "idempotent", "write"]
"""What a tool does to the world: nothing, something that may be repeated under a key, or something."""


Approval: TypeAlias = Literal["never", "before", "interrupted", "always"]
"""When a person is asked whether a call may run: before each one, before one runs again whose effect is in
doubt since it was interrupted, both, or never."""


class ToolSpec(Part, frozen=True):
    """What a model is told of a tool, and what the runtime must know of it.

    input_schema: the JSON schema of its arguments. extra: further keys sent as they are (`strict`, ...).
    """

    name: str
    description: str
    input_schema: Json
    effect: Effect = "write"
    extra: Json = NULL
    approval: Approval = "never"


class Prices(Value, frozen=True):
    """Micro-dollars per million tokens (a price of $3 per million tokens is 3_000_000)."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


class ModelSpec(Part, frozen=True):
    """Which model is called, and how.

    name: how the runtime finds it. max_tokens: the most one answer may have.
    params: further parameters of the call, a JSON object. prices: None where they are not known.
    """

    name: str
    max_tokens: int = 8_192
    params: Json = NULL
    prices: Prices | None = None


class Profile(Part, frozen=True):
    """An agent's description.

    instructions: a JSON string, a list of content blocks, or null. agents: names of the profiles it may
    delegate to. schema: the schema of its report where a call gives none. model: None inherits the
    parent's. server_tools: tools that the model's own service runs, sent as they are.
    """

    name: str
    description: str = ""
    instructions: Json = NULL
    tools: tuple[ToolSpec, ...] = ()
    server_tools: tuple[Json, ...] = ()
    agents: tuple[str, ...] = ()
    schema: Json = NULL
    limits: Limits = Limits()
    model: ModelSpec | None = None
