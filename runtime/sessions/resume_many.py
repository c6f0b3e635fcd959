"""Resuming all unfinished sessions of a log, as a service does when it starts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from callboard.actors.protocol.errors import Diverged, InvalidAgent, MisuseError, UnknownName
from callboard.runtime.agent import Agent
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.sessions.session import Session

PARALLEL_MAX: Final = 8  # sessions that are read and resumed at a time

Hosts: TypeAlias = Sequence[Agent] | Callable[[SessionRow], Agent | None]
"""Agents, each for the sessions with a host of its name; or a function that gets a session and returns its
host, or None to leave it."""


class Resumption(NamedTuple):
    """A resumed session, or the error for one that was not. row: the session as it was before.

    After `resume_all(check=True)` a session that could be resumed has neither.
    """

    row: SessionRow
    session: Session | None = None
    error: Exception | None = None

    @property
    def waits_for_code(self) -> bool:
        """Return whether the session stays unfinished until the right code is back."""
        return isinstance(self.error, Diverged)


def host_finder(hosts: Hosts) -> Callable[[SessionRow], Agent]:
    """Return the function that finds the host of a session. Raises MisuseError, InvalidAgent.

    It raises UnknownName for a session without a host among these.
    """
    known = {} if callable(hosts) else _by_name(hosts)

    def found(row: SessionRow) -> Agent:
        host = hosts(row) if callable(hosts) else known.get(row.host)
        if host is None:
            raise UnknownName(
                f"session {row.session_id}: none of the given hosts is its host {row.host!r}; "
                "add that agent, or resume the session with `runtime.resume`"
            )
        return host

    return found


def _by_name(hosts: Sequence[Agent]) -> dict[str, Agent]:
    if not isinstance(hosts, Sequence) or not all(isinstance(host, Agent) for host in hosts):
        raise MisuseError(
            f"hosts={hosts!r:.80}: use a list of agents, or a function from a SessionRow to one"
        )
    found = {host.name: host for host in hosts}
    if len(found) < len(hosts):
        raise InvalidAgent("two hosts have the same name; pass a function that tells their sessions apart")
    return found


async def resume_each(
    rows: AsyncIterator[SessionRow], resume: Callable[[SessionRow], Awaitable[Session | None]]
) -> AsyncIterator[Resumption]:
    """Resume or check each session and yield it as soon as it runs, a few at a time."""
    running: set[asyncio.Task[Resumption]] = set()
    try:
        async for row in rows:
            running.add(asyncio.ensure_future(_attempt(row, resume)))
            if len(running) == PARALLEL_MAX:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        for ended in asyncio.as_completed(running):
            yield await ended
    finally:
        for task in running:
            task.cancel()


async def _attempt(row: SessionRow, resume: Callable[[SessionRow], Awaitable[Session | None]]) -> Resumption:
    try:
        return Resumption(row, session=await resume(row))
    except Exception as error:  # of one session: the others go on
        return Resumption(row, error=error)
