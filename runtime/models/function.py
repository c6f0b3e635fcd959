"""A function of the user as a model: what it returns is the answer, and costs nothing.

`Compact(by=function)` asks one for summaries. So the log records its answers as those of any model, a replay
reads them there, and a resume calls it only where no answer is on disk.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.readable import ReadableRequest
from callboard.runtime.sanitize import clean_text
from callboard.runtime.schemas.output_types import name_of
from callboard.runtime.tools.own_functions import OwnFunctions
from callboard.runtime.tools.tool import is_async

Answers: TypeAlias = Callable[[ModelRequest], str | Awaitable[str]]
"""Answers a request with a text; plain, on a thread, or async."""


class FunctionModel:
    """A model that is a function. Two of one function are equal.

    function: takes the request and returns a text. If it raises, or returns something else, the call fails.
    """

    def __init__(self, function: Answers) -> None:
        self._function = function
        self._own = OwnFunctions("callboard-function")
        self.spec = ModelSpec(f"function:{name_of(function)}", prices=Prices(0, 0), kind="function")

    def __repr__(self) -> str:
        return f"FunctionModel({self.spec.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionModel) and other._function == self._function

    def __hash__(self) -> int:
        return hash(self._function)

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Answer with the text that the function returns. Raises what it raises, and TypeError."""
        return _answer(await self._own.value(self._function, ReadableRequest.of(request)))

    def at_once(self, request: ModelRequest) -> ModelAnswer | Awaitable[ModelAnswer]:
        """Answer without a thread, as a simulation needs it, which has no time."""
        readable = ReadableRequest.of(request)
        return self.call(request, _unheard) if is_async(self._function) else _answer(self._function(readable))

    async def aclose(self) -> None:
        """End its threads."""
        self._own.close()
        self._own = OwnFunctions("callboard-function")


def _unheard(piece: str) -> None:
    """Drop a piece of text."""


def _answer(text: object) -> ModelAnswer:
    if not isinstance(text, str):
        raise TypeError(f"the function returns a text, not {type(text).__name__}")
    block = text_block(clean_text(text))
    return ModelAnswer(content=Json(b"[" + block + b"]"), stop_reason="end_turn", usage=ZERO)
