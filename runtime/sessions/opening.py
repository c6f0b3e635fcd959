"""A session that is being opened: await it, or use it as an async context manager."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from callboard.runtime.sessions.session import Session


class Opening(AbstractAsyncContextManager[Session], Awaitable[Session]):
    """The result of `Runtime.open`, `resume` and `reopen`. Nothing happens before it is awaited or entered.

    session = await runtime.open(host)
    async with runtime.open(host) as session: ...
    """

    def __init__(self, opens: Callable[[], Coroutine[Any, Any, Session]]) -> None:
        self._opens = opens
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, Any, Session]:
        return self._opens().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._opens()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, trace)
