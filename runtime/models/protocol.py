"""The protocol of a model.

A model answers one request, once. A fault of a service or a network is a `ModelFailure`, not an exception. A
model never retries: the agent decides that, so every attempt is an event and is charged.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

from callboard.actors.protocol.immutable import NULL, Json, Part
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure

OnText: TypeAlias = Callable[[str], None]
"""Called with each piece of text as it streams in. The text is ephemeral and never logged."""


class ModelAnswer(Part, frozen=True):
    """The result of one call.

    content: the model's content blocks, a JSON list, verbatim. stop_reason: the service's word for its end.
    usage: the tokens used, without cost; None if they are not known. failure: the reason if there is no
    answer. model: the model that answered.
    """

    content: Json = NULL
    stop_reason: str = ""
    usage: Usage | None = None
    failure: ModelFailure | None = None
    model: str = ""


@runtime_checkable
class Checkable(Protocol):
    """A model that can find out in advance that its calls cannot work."""

    def check(self) -> None:
        """Raise MisuseError if no call can work, for example without a key. Called before a session opens."""


class Model(Protocol):
    """An object that answers requests. It is called on the event loop, and cancelled with its agent."""

    @property
    def spec(self) -> ModelSpec:
        """Return its name in the log, with its parameters and prices."""

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer | Awaitable[ModelAnswer]:
        """Answer the request, at once or later."""

    async def aclose(self) -> None:
        """Release its resources. A runtime that used it calls this; a later `call` may open them again."""


def is_model(value: object) -> TypeGuard[Model]:
    """Return whether an object can be used as a `Model`: it has a spec, and can be called."""
    return isinstance(getattr(value, "spec", None), ModelSpec) and callable(getattr(value, "call", None))
