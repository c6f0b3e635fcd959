"""Calls of one kind that wait for a thread, answered together: a few statements for all of them.

Each call queues its own turn on the thread. The first turn takes all calls that wait by then, and later turns
find theirs taken. So no call waits for others, and none is answered after its own turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.log.postgres.thread import Worker
from callboard.runtime.log.thread_calls import answer

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
TOGETHER_MAX: Final = 32  # calls: the rows that they read are in memory at the same time


class _Call(NamedTuple, Generic[K, T]):
    key: K
    future: "asyncio.Future[T]"


class Together(Generic[K, T]):
    """The calls of one kind.

    work: answers several calls on the thread, each with a result or an error, in their order. It never gets a
    key twice at a time, so that two takeovers of a session raise its epoch twice. An error that it raises may
    concern one call, so it gets each call by itself then; only StoreFailed is the answer to all.
    """

    def __init__(self, worker: Worker, work: Callable[[Sequence[K]], Sequence[T | Exception]]) -> None:
        self._worker, self._work = worker, work
        self._waiting: deque[_Call[K, T]] = deque()  # the loop appends, the thread takes

    async def run(self, key: K) -> T:
        """Return the answer to a call. A cancelled caller does not stop it."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(key, future))
        self._worker.put(self._turn)
        return await future

    def _turn(self) -> None:
        taken: dict[K, asyncio.Future[T]] = {}
        while self._waiting and self._waiting[0].key not in taken and len(taken) < TOGETHER_MAX:
            call = self._waiting.popleft()
            taken[call.key] = call.future
        if taken:
            for future, found in zip(taken.values(), self._answers([*taken]), strict=True):
                answer(future.get_loop(), future, lambda found=found: _result(found))  # type: ignore[misc]  # bound now

    def _answers(self, keys: Sequence[K]) -> Sequence[T | BaseException]:
        try:
            return self._work(keys)
        except BaseException as error:
            if len(keys) == 1 or isinstance(error, StoreFailed):
                return [error] * len(keys)
        return [found for key in keys for found in self._answers([key])]


def _result(found: T | BaseException) -> T:
    if isinstance(found, BaseException):
        raise found
    return found
