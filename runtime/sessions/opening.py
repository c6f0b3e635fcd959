"""A session that is being opened: the wish for it, and the object to await or to enter."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, NamedTuple

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent_types import Deps_contra, Out_co
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_files import FilesChoice
from callboard.runtime.sessions.session_memory import MemoryChoice


class NewSession(NamedTuple):
    """A wish to open a session; the fields are the parameters of `Runtime.open`."""

    session_id: str = ""
    limits: Limits | None = None
    title: object = ""
    resume: bool = False
    tags: Sequence[str] = ()
    metadata: Mapping[str, object] | None = None
    files: FilesChoice = None
    memory: MemoryChoice = None
    permissions: Bundle | None = None


class Opening(
    AbstractAsyncContextManager[Session[Deps_contra, Out_co]],
    Awaitable[Session[Deps_contra, Out_co]],
    Generic[Deps_contra, Out_co],
):
    """The result of `Runtime.open`, `resume` and `reopen`. Nothing happens before it is awaited or entered.

    session = await runtime.open(host)
    async with runtime.open(host) as session: ...
    """

    def __init__(self, opens: Callable[[], Coroutine[Any, Any, Session[Any, Any]]]) -> None:
        self._opens = opens
        self._session: Session[Any, Any] | None = None

    def __await__(self) -> Generator[Any, Any, Session[Deps_contra, Out_co]]:
        return self._opens().__await__()

    async def __aenter__(self) -> Session[Deps_contra, Out_co]:
        self._session = await self._opens()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, trace)
