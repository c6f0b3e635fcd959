"""A client of the sessions on a server: it owns none of them, and reaches them wherever they run.

A command is a row that the owner of its session carries out (`runtime.log.postgres.commands`). Its result is
read from the log, so it does not matter which worker has the session, or whether it changes hands meanwhile.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypeAlias, TypeVar, Unpack

import msgspec

from callboard.actors.protocol.errors import MisuseError, SessionNotFound
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent import checked_name
from callboard.runtime.clock import new_request_id
from callboard.runtime.cluster.following import ClientItem, FollowedLog
from callboard.runtime.cluster.interest import Interest
from callboard.runtime.cluster.standings import PAUSE_S, PAUSE_S_MAX, longer
from callboard.runtime.cluster.status import ClusterStats, stats_of
from callboard.runtime.control.wire import (
    AnswerApproval,
    AskSession,
    CancelAsk,
    Command,
    Reply,
    SetTools,
    TellAgent,
)
from callboard.runtime.label_names import labels_of
from callboard.runtime.log.postgres.commands import CommandRow
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.reading import is_server, server_of
from callboard.runtime.log.session_rows import ForksChoice, SessionQuery, SessionRow, SessionStatus
from callboard.runtime.sanitize import to_json
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.call_options import PlainPrompt, SubmitOptions
from callboard.runtime.sessions.catalog import SessionCatalog, time_ms
from callboard.runtime.sessions.labels import checked_tag, checked_tags
from callboard.runtime.sessions.live_sessions import live_sessions_of
from callboard.runtime.sessions.outcomes import Outcome, past_outcome
from callboard.runtime.sessions.stream_reader import choice_of

T = TypeVar("T")
ToSession: TypeAlias = TellAgent | CancelAsk | AnswerApproval | SetTools
"""The commands that change a session that is there."""

WAITING_MAX: Final = 1_000  # sessions in the answer of `stats`


class Client:
    """A handle on the sessions of a log on a server. `Runtime.connect` or `RayShards.connect` makes it.

    Use it with `async with`.

    A session without an owner goes to a worker that has its agent. Without such a worker the command waits,
    and `stats` names the reason. A caller that was cancelled, or died, sends the same command with the same
    `request_id` again, and gets the same result.
    """

    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self._leases = log.leases()
        self._interest = Interest(log, self._leases)
        self._followed = FollowedLog(log, self._interest, self.is_shared)
        self._catalog = SessionCatalog(log, live_sessions_of(log))

    @classmethod
    def at(cls, url: str, key: bytes | None = None, *, encryption_key: bytes | None = None) -> Self:
        """Return a client of the log at an address, as `Runtime.connect` does. Raises MisuseError."""
        if not is_server(url):
            raise MisuseError(
                "a client needs a log on a server: connect('postgresql://USER@HOST/DATABASE'); a log in a "
                "file belongs to one process, which you reach with `callboard tell` and its relatives"
            )
        return cls(PostgresLog(server_of(url), key, encryption_key=encryption_key))

    def __repr__(self) -> str:
        return f"Client({str(self._log.address)!r})"

    async def __aenter__(self) -> Self:
        """Connect. Raises StoreError."""
        await self._log.open()
        try:
            await self._leases.__aenter__()
        except BaseException:
            await self._log.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._interest.aclose()
            await self._catalog.remover.aclose()
            await self._leases.__aexit__()
        finally:
            await self._log.close()

    @property
    def log(self) -> EventLog:
        """Return the log of the sessions."""
        return self._log

    # --- asking -------------------------------------------------------------------

    async def submit(
        self,
        session_id: str,
        prompt: PlainPrompt,
        *,
        host: str = "",
        tags: Sequence[str] = (),
        output_schema: Mapping[str, object] | None = None,
        limits: Limits | None = None,
        request_id: str | None = None,
        labels: Sequence[str] = (),
    ) -> str:
        """Begin an ask, and return its request id once the command is stored. Its outcome: `outcome`.

        host: the name of the agent that opens a new session of this id, and tags: its tags. A session stays
        open for further asks. The other parameters are those of `Session.ask`, without Python types.

        Raises SessionNotFound without a host for a new session, SessionEnded for a closed one, MisuseError
        for a request id of another command, InvalidPrompt.
        """
        name = _id_of(request_id)
        given = {
            "session": session_id,
            "prompt": to_json(prompt, what="The prompt"),
            "request_id": name,
            "schema": None if output_schema is None else to_json(output_schema, what="The schema"),
            "limits": limits,
            "labels": labels_of(labels),
            "host": host,
        }
        found = checked_tags(tags, Secrets())
        await self._send(session_id, name, _command(AskSession, given), host, found)
        return name

    async def ask(
        self, session_id: str, prompt: PlainPrompt, **options: Unpack[SubmitOptions]
    ) -> Outcome[Any]:
        """Begin an ask as `submit` does, and wait for its outcome.

        Raises also SessionBusy while another ask runs. A cancelled caller does not cancel the ask.
        """
        name = await self.submit(session_id, prompt, **options)
        row = await self._settled(session_id, name)
        return await self._followed.ended(session_id, row.seq, name)

    async def outcome(self, session_id: str, request_id: str | None = None) -> Outcome[Any] | None:
        """Return the outcome of an ask that has ended; None while it waits or runs.

        request_id: None for the latest ask that ended. A report is made of plain JSON values. Raises the
        error with which the ask was refused, UnknownName for an id that no ask has, SessionNotFound.
        """
        if request_id is not None:
            row = await self._leases.change(lambda one: one.commands.find(session_id, request_id))
            if row is not None and row.is_waiting:
                return None
            _value(row, str) if row is not None else None
        if not await self._followed.page(session_id, 1, 1):
            return None
        return await past_outcome(self._log, session_id, request_id, None)

    # --- controlling --------------------------------------------------------------

    async def tell(
        self,
        session_id: str,
        address: str,
        text: str,
        *,
        request_id: str | None = None,
        labels: Sequence[str] = (),
    ) -> int:
        """Say something to a running agent, as `Session.tell` does. Return the turn that reads it.

        Raises TellRefused if no such agent runs, or it ends before it reads the text.
        """
        name = _id_of(request_id)
        given = {"session": session_id, "address": address, "text": text, "request_id": name}
        command = _command(TellAgent, {**given, "labels": labels_of(labels)})
        return int(await self.carry_out(command, name))

    async def cancel(
        self, session_id: str, reason: str = "", *, request_id: str | None = None
    ) -> Outcome[Any] | None:
        """Stop the running ask and all agents below it; return its outcome (None if no ask runs)."""
        command = _command(CancelAsk, {"session": session_id, "reason": reason})
        outcome: Outcome[Any] | None = await self.carry_out(command, request_id) or None
        return outcome

    async def cancel_agent(
        self, session_id: str, address: str, reason: str = "", *, request_id: str | None = None
    ) -> bool:
        """Stop one running agent and all agents below it. Return False if no such agent runs."""
        given = {"session": session_id, "reason": reason, "address": address}
        return bool(await self.carry_out(_command(CancelAsk, given), request_id))

    async def approve(
        self,
        session_id: str,
        seq: int,
        note: str = "",
        *,
        by: str = "",
        arguments: Mapping[str, object] | None = None,
        always: bool = False,
        values: Mapping[str, object] | None = None,
        labels: Sequence[str] = (),
        request_id: str | None = None,
    ) -> bool:
        """Let the call run whose `Approval` has this seq, as `Session.approve` does.

        Return False if it was answered before, has expired or is no longer wanted. Raises UnknownName if this
        event asks for no approval.
        """
        given = {"is_approved": True, "note": note, "by": by, "is_always": always, "values": values}
        more = {"arguments": arguments, "labels": labels_of(labels)}
        return await self._answer(session_id, seq, {**given, **more}, request_id)

    async def deny(
        self, session_id: str, seq: int, note: str = "", *, by: str = "", request_id: str | None = None
    ) -> bool:
        """Refuse the call whose `Approval` has this seq; the model reads the note. Return as `approve`."""
        return await self._answer(session_id, seq, {"is_approved": False, "note": note, "by": by}, request_id)

    async def _answer(
        self, session_id: str, seq: int, given: Mapping[str, object], request_id: str | None
    ) -> bool:
        command = _command(AnswerApproval, {"session": session_id, "seq": seq, **given})
        return bool(await self.carry_out(command, request_id))

    async def set_tools(
        self,
        session_id: str,
        tools: Sequence[str],
        *,
        agent: str = "",
        address: str = "",
        request_id: str | None = None,
    ) -> None:
        """Set the tools of an agent by their names, as `Session.set_tools` does, durably."""
        given = {"session": session_id, "tools": tuple(tools), "agent": agent, "address": address}
        await self.carry_out(_command(SetTools, given), request_id)

    # --- looking ------------------------------------------------------------------

    def events(self, session_id: str, start: int = 1) -> AsyncIterator[Event]:
        """Yield all events from a seq on, new ones as they are stored, until the session is closed.

        Waits for the first event of a session that no worker has opened yet. Reading raises SessionNotFound.
        """
        return self._followed.events(session_id, start)

    def stream(
        self, session_id: str, after: int | None = None, *, of: str | None = None
    ) -> AsyncGenerator[ClientItem, None]:
        """Yield what `Session.stream` yields, wherever the session runs.

        after: the id of the last item that the reader saw. The events after it come instead of a snapshot: in
        order, and each once. of: as for `Session.stream`.
        Owners send events and live text at once to clients that can be notified (`is_notified`). Text that
        does not arrive is named by a `TextLost`, and its event has it. Progress of tools that does not arrive
        is lost. Without notifications there is no progress, text comes with its event only, and a new event
        within a second, or within 40 ms while others come.
        The stream ends once the session is closed; until then it waits, also for a session that no worker has
        opened yet. It survives a change of the owner and a restart of the server.

        Raises MisuseError for another `of` than an address. Reading it raises MisuseError for another `after`
        than an event of this session, SessionNotFound, and StoreError for a server that does not come back:
        continue with the id of the last item.
        """
        return self._followed.stream(session_id, after, choice_of(of))

    @property
    def is_notified(self) -> bool:
        """Return True once owners can notify this client: soon after it has begun to follow a session."""
        return self._interest.is_listening

    async def sessions(
        self,
        *,
        status: SessionStatus | None = None,
        tag: str | None = None,
        since: datetime | timedelta | None = None,
        limit: int | None = None,
        after: str = "",
    ) -> AsyncIterator[SessionRow]:
        """Yield the sessions of the log, newest first, as `Runtime.sessions` does."""
        since_ms = None if since is None else time_ms(since)
        wanted = None if tag is None else checked_tag(tag)
        async for row in self._catalog.rows(SessionQuery(status, wanted, since_ms, after, limit)):
            yield row

    async def stats(self) -> ClusterStats:
        """Return the workers with their leases, and the sessions that wait, each with its reason."""
        workers = await self._leases.change(lambda one: one.workers())
        waiting = await self._leases.change(lambda one: one.waiting(WAITING_MAX))
        followers = await self._leases.change(lambda one: one.followers.followers())
        return stats_of(workers, [one for one, _ in waiting], followers)

    async def is_shared(self, session_id: str) -> bool:
        """Return True if an owner runs a session, or if it waits for one."""
        return bool(await self._leases.change(lambda one: one.has(session_id)))

    async def delete(self, session_id: str, *, forks: ForksChoice = "refuse") -> int:
        """Delete a session permanently, as `Runtime.delete` does. Raises SessionBusy for one that runs.

        A session that no worker has opened yet is withdrawn with its commands; it has 0 events.
        """
        return await self._catalog.delete(session_id, forks=forks)

    async def prune(
        self,
        *,
        older_than: timedelta,
        status: SessionStatus | Collection[SessionStatus] | None = "closed",
        tag: str | None = None,
    ) -> int:
        """Delete the sessions without an event for so long, as `Runtime.prune` does. Return their number."""
        return await self._catalog.prune(older_than, status, tag)

    # --- commands -----------------------------------------------------------------

    async def carry_out(self, command: ToSession, request_id: str | None = None) -> Any:
        """Let the owner of a session carry out a command, and return its result, as the methods above do.

        Of the cancel of one agent that is an empty text if no such agent runs. Raises as they do.
        """
        name = _id_of(request_id or getattr(command, "request_id", ""))
        await self._send(command.session, name, command)
        row = await self._settled(command.session, name)
        if not row.seq:
            return _value(row, Any)
        match command:
            case TellAgent():
                return await self._followed.heard(command.session, row.seq, name)
            case CancelAsk(address=""):
                running = await self._followed.running_at(command.session, row.seq)
                return await self._followed.ended(command.session, row.seq, running) if running else None
            case CancelAsk():
                return "cancelled"
            case AnswerApproval():
                return True
            case SetTools():
                return None

    async def _send(
        self, session_id: str, name: str, command: Command, host: str = "", tags: Sequence[str] = ()
    ) -> CommandRow:
        body = msgspec.json.encode(command).decode()
        return await self._leases.change(lambda one: one.commands.add(session_id, name, body, host, tags))

    async def _settled(self, session_id: str, name: str) -> CommandRow:
        """Wait until a command is carried out or answered. Raises the error with which it was refused."""
        pause = PAUSE_S
        while True:
            row = await self._leases.change(lambda one: one.commands.find(session_id, name))
            if row is None:
                raise SessionNotFound(f"session {session_id!r:.100} was deleted with its commands")
            if not row.is_waiting:
                if row.answer:
                    _value(row, Any)
                return row
            await asyncio.sleep(pause)
            pause = longer(pause, PAUSE_S_MAX)


def _id_of(request_id: str | None) -> str:
    return checked_name("request_id", request_id or "") or new_request_id()


def _command(kind: type[T], given: Mapping[str, object]) -> T:
    """Return a command, checked as its owner will check it. Raises MisuseError."""
    try:
        return msgspec.json.decode(to_json({"command": _tag_of(kind), **given}), type=kind)
    except msgspec.ValidationError as error:
        raise MisuseError(f"this command cannot be sent: {error}") from None


def _tag_of(kind: type) -> object:
    return kind.__struct_config__.tag  # type: ignore[attr-defined]  # of every msgspec struct


def _value(row: CommandRow, kind: Any) -> Any:
    """Return the value of an answered command; None for one with an event. Raises its error."""
    return msgspec.json.decode(row.answer, type=Reply).as_type(kind) if row.answer else None
