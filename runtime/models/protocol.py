"""What the runtime asks of a model.

A model answers one request, once. It never retries, never keeps a default of its own for another agent,
and never raises for what a service or a network can do: that is a `ModelFailure`. Retrying is the
agent's decision, so every attempt is an event and is charged.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

from callboard.actors.protocol.immutable import NULL, Json, Part
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure

OnText: TypeAlias = Callable[[str], None]
"""Told each piece of text as it streams in; ephemeral, never logged."""


class ModelAnswer(Part, frozen=True):
    """What came of one call.

    content: the model's content blocks, a JSON list, verbatim. usage: without cost; None where it is not
    known. failure: why there is no answer. model: the model that really answered.
    """

    content: Json = NULL
    stop_reason: str = ""
    usage: Usage | None = None
    failure: ModelFailure | None = None
    model: str = ""


@runtime_checkable
class Checkable(Protocol):
    """A model that can tell beforehand that no call of it could work."""

    def check(self) -> None:
        """Raises MisuseError (a missing key, say). Called before a session is created."""
        ...


class Model(Protocol):
    """Anything that answers a request. Called on the event loop; cancelled when its agent is stopped."""

    @property
    def spec(self) -> ModelSpec:
        """How the log names it, with its parameters and prices."""
        ...

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer | Awaitable[ModelAnswer]:
        """Answer the request, at once or later."""
        ...

    async def aclose(self) -> None:
        """Give back what it holds. Called by a runtime that used it; a later call may take it up again."""
        ...


def is_model(value: object) -> TypeGuard[Model]:
    """Return whether an object can be used as a `Model`: it has a spec, and can be called."""
    return isinstance(getattr(value, "spec", None), ModelSpec) and callable(getattr(value, "call", None))
