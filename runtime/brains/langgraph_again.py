"""The answers that nodes had before an interrupt. After it they run again from their start.

The framework saves what a node returns, and nothing of a node that an interrupt left. So a call before an
interrupt would be made twice, and a `write` would be done twice. Here the node gets the answer that it had.
A node that runs again for another reason, as after an error or in a loop, asks again.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables.config import var_child_runnable_config

T = TypeVar("T")
Key = tuple[str, str]


class _Had(NamedTuple):
    """An answer, or the error in its place."""

    answer: Any
    error: Exception | None


class Answers:
    """The answers of one run, by the task of the graph that asked, and by its question.

    remembers: False for a graph that cannot be interrupted, which has no need of this.
    """

    def __init__(self, *, remembers: bool) -> None:
        self._remembers = remembers
        self._now: dict[Key, list[_Had]] = {}
        self._before: dict[Key, list[_Had]] = {}

    def run_again(self) -> None:
        """Note that an interrupt has ended the nodes that it left, and that they run again."""
        self._before, self._now = self._now, {}

    async def of(self, asked: object, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer that the task had, or that of `ask`. asked: JSON values or objects."""
        if not self._remembers:
            return await ask()
        config = var_child_runnable_config.get() or {}
        key = (str(config.get("configurable", {}).get("checkpoint_ns", "")), json.dumps(asked, default=repr))
        earlier = self._before.get(key)
        had = earlier.pop(0) if earlier else await _had(ask)
        self._now.setdefault(key, []).append(had)
        if had.error is not None:
            raise had.error
        return had.answer  # type: ignore[no-any-return]  # of the same question


async def _had(ask: Callable[[], Awaitable[object]]) -> _Had:
    try:
        return _Had(await ask(), None)
    except Exception as error:
        return _Had(None, error)
