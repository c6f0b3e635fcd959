"""The sessions that live in this process, by their log: a live owner is never robbed by accident.

A session that is being opened: the wish for it, and the object to await or to enter.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Protocol
from weakref import WeakValueDictionary

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.errors import Diverged, SessionBusy, UnknownName
from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent import Agent
from callboard.runtime.agent_types import Deps_contra, Out_co
from callboard.runtime.clock import now_ms
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_deps import FilesChoice, MemoryChoice


class Waiting(NamedTuple):
    """A session that waits for its code. agent, models: the object that did not fit, and those with it."""

    agent: Agent
    error: Diverged
    models: frozenset[str] = frozenset()


class SessionLeases(Protocol):
    """The leases by which a process holds its sessions, where several can run the sessions of one log."""

    async def hold(self, session: str, host: str, *, steal: bool) -> str:
        """Take the lease of a session. Return the name of its live owner; empty once it is ours."""

    def let_go(self, session: str) -> None:
        """Give the lease of a session back, some time soon."""

    def on_live(self, session: Session) -> None:
        """Leave a session that is live from now on, if its lease has ended since it was taken."""


class LiveSessions:
    """The live sessions of one log, of all runtimes that share it.

    A sleeping session is not live, nor is one that failed or was fenced: it may be deleted, or resumed again.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log  # kept: as long as this lives, no other log has its identity
        self._sessions: dict[str, Session] = {}
        # A program that no longer holds a sleeping session leaves nothing of it in memory.
        self._asleep: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._claimed: set[str] = set()
        self.waiting: dict[str, Waiting] = {}
        self.leases: SessionLeases | None = None  # a log that only one process can open has none

    def __contains__(self, session_id: str) -> bool:
        holder = self._sessions.get(session_id)
        return (holder is not None and not holder._has_failed) or session_id in self._claimed

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._sessions.values()))

    def asleep(self) -> int:
        """Return the number of sleeping sessions that the program holds."""
        return len(self._asleep)

    def of(self, life: object) -> list[Session]:
        """Return the sessions of the runtime with this life, sleeping ones too."""
        everywhere = (*self._sessions.values(), *self._asleep.values())
        return [session for session in everywhere if session._life is life]

    def find(self, session_id: str, life: object) -> Session | None:
        """Return a session that lives or sleeps in the runtime with this life; None for a failed one."""
        found = self._sessions.get(session_id) or self._asleep.get(session_id)
        return found if found is not None and found._life is life and not found._has_failed else None

    def add(self, session: Session, on_leave: Callable[[], object] = lambda: None) -> None:
        """Give a session its place, until it is released. on_leave: called then, and when it falls asleep."""
        name = session.session_id
        self._sessions[name] = session
        self._asleep.pop(name, None)
        session._on_release = partial(self._release, name, session, on_leave)
        session._on_goes_on = partial(self.goes_on, name)
        session._on_sleep = partial(self._to_sleep, name, session, on_leave)
        if self.leases is not None:
            self.leases.on_live(session)

    def _release(self, name: str, session: Session, on_leave: Callable[[], object]) -> None:
        on_leave()
        for sessions in (self._sessions, self._asleep):
            if sessions.get(name) is session:
                del sessions[name]
        self.let_go(name)

    def _to_sleep(self, name: str, session: Session, on_leave: Callable[[], object]) -> None:
        on_leave()
        if self._sessions.get(name) is session:
            del self._sessions[name]
            self._asleep[name] = session
            self.let_go(name)

    async def hold(self, session_id: str, host: str, *, steal: bool = False) -> None:
        """Take the lease of a session that begins here. Raises SessionBusy for one that another process runs.

        host: the name of its host. steal: True takes it from a live process, too.
        """
        if self.leases is not None and (owner := await self.leases.hold(session_id, host, steal=steal)):
            raise _owned(session_id, owner)

    def let_go(self, session_id: str) -> None:
        """Give the lease of a session back, unless it runs here."""
        if self.leases is not None and session_id not in self:
            self.leases.let_go(session_id)

    @contextmanager
    def releasing(self, session_id: str) -> Iterator[None]:
        """Give the lease of a session back if it does not begin here."""
        try:
            yield
        except BaseException:
            self.let_go(session_id)
            raise

    async def wait_for_code(
        self, session_id: str, agent: Agent, error: Diverged, *, models: Iterable[str] = ()
    ) -> None:
        """Remember that the code of this process does not fit a session. The time runs from the first one."""
        self.waiting[session_id] = Waiting(agent, error, frozenset(models))
        if not await self._log.waiting_since(session_id):
            await self._log.set_waiting(session_id, now_ms())

    async def waited_ms(self, session_id: str) -> int:
        """Return for how long a session has waited for its code, in any process."""
        since = await self._log.waiting_since(session_id)
        return max(0, now_ms() - since) if since else 0

    async def goes_on(self, session_id: str) -> int:
        """Forget that a session has waited for its code. Return for how long it did."""
        waited = await self.waited_ms(session_id)
        if waited or session_id in self.waiting:
            await self._log.set_waiting(session_id, 0)
        self.waiting.pop(session_id, None)
        return waited

    def running(self, session_id: str) -> Session:
        """Return a session that runs here. Raises Diverged for one that waits for its code, UnknownName.

        A session that failed here does not run: it raises UnknownName, too.
        """
        session = self._sessions.get(session_id)
        if session is not None:
            if session._has_failed:
                raise UnknownName(
                    f"session {session_id!r:.100} failed in the process that owns the log, or was taken over "
                    "by another; resume it, where its code is"
                )
            return session
        if (waiting := self.waiting.get(session_id)) is not None:
            raise waiting.error
        raise UnknownName(
            f"session {session_id!r:.100} does not run in the process that owns the log; resume it there, or "
            "try again once that process has ended"
        )

    @contextmanager
    def claim(self, session_id: str, steal: bool) -> Iterator[Session | None]:
        """Claim the place of a session for a resume. Yield the session that has it, if it may be replaced.

        steal: True replaces a live one too. Raises SessionBusy.
        """
        holder = self._sessions.get(session_id)
        is_held = holder is not None and not holder._has_failed and not steal
        if is_held or session_id in self._claimed:
            raise SessionBusy(
                f"session {session_id} runs in this process; use the Session that `open` or `resume` "
                "returned, `await session.detach()` it first, or pass steal=True to take it over"
            )
        self._claimed.add(session_id)  # before the first await: a second resume would fence this one
        try:
            yield holder
        finally:
            self._claimed.discard(session_id)


async def refuse_owned(log: EventLog, session_id: str) -> None:
    """Refuse a session that another process runs under a live lease. Raises SessionBusy."""
    if owner := await log.owner(session_id):
        raise _owned(session_id, owner)


def _owned(session_id: str, owner: str) -> SessionBusy:
    return SessionBusy(
        f"session {session_id} runs in worker {owner}, whose lease ends some seconds after its death; wait, "
        "stop that worker, or take the session from it with `resume(..., steal=True)`"
    )


_of_logs: Final["WeakValueDictionary[int, LiveSessions]"] = WeakValueDictionary()


def live_sessions_of(log: EventLog) -> LiveSessions:
    """Return the live sessions of a log: the same for every runtime with this log object."""
    return _of_logs.setdefault(id(log), LiveSessions(log))


class NewSession(NamedTuple):
    """A wish to open a session; the fields are the parameters of `Runtime.open`.

    imported: as in `SessionOpened`.
    """

    session_id: str = ""
    limits: Limits | None = None
    title: object = ""
    resume: bool = False
    tags: Sequence[str] = ()
    metadata: Mapping[str, object] | None = None
    files: FilesChoice = None
    memory: MemoryChoice = None
    permissions: Bundle | None = None
    imported: str = ""


class Opening(
    AbstractAsyncContextManager[Session[Deps_contra, Out_co]],
    Awaitable[Session[Deps_contra, Out_co]],
    Generic[Deps_contra, Out_co],
):
    """The result of `Runtime.open`, `resume` and `reopen`. Nothing happens before it is awaited or entered.

    session = await runtime.open(host)
    async with runtime.open(host) as session: ...
    """

    def __init__(self, opens: Callable[[], Coroutine[object, None, Session[Any, Any]]]) -> None:
        self._opens = opens
        self._session: Session[Any, Any] | None = None

    def __await__(self) -> Generator[object, None, Session[Deps_contra, Out_co]]:
        return self._opens().__await__()

    async def __aenter__(self) -> Session[Deps_contra, Out_co]:
        self._session = await self._opens()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, trace)
