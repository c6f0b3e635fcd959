"""A session: one conversation with a host agent, one stream in the log."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, Unpack, overload

from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, SessionClosed, TellEnded
from callboard.actors.protocol.errors import MissingType, MisuseError, SessionBusy, SessionEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent import checked_name, limits_of, refuse_unpriced
from callboard.runtime.agent_types import Deps_contra, Out_co
from callboard.runtime.approvals import Approval
from callboard.runtime.clock import new_request_id
from callboard.runtime.contracts import Prompt
from callboard.runtime.label_names import labels_of
from callboard.runtime.log.protocol import EventLog, Head, event_of
from callboard.runtime.sanitize import clean_text
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.call_options import AskOptions, JsonSchema, OnCancel
from callboard.runtime.sessions.detaching import (
    Callers,
    ProcessLife,
    detached,
    refuse_on_cancel,
)
from callboard.runtime.sessions.ended_asks import EndedAsk
from callboard.runtime.sessions.outcomes import Outcome, Outcomes
from callboard.runtime.sessions.resuming import RecordedSession
from callboard.runtime.sessions.session_approvals import SessionApprovals
from callboard.runtime.sessions.session_life import SessionInputs
from callboard.runtime.sessions.session_pages import pages_from
from callboard.runtime.sessions.session_sleep import LiveParts, Rest
from callboard.runtime.sessions.session_tells import SessionTells
from callboard.runtime.sessions.session_types import SessionTypes
from callboard.runtime.sessions.stream_items import TextDelta, TextReset, ToolProgress
from callboard.runtime.sessions.stream_reader import choice_of
from callboard.runtime.sessions.streaming import SessionStream, check_after

if TYPE_CHECKING:
    from callboard.runtime.agent_types import Untyped

T = TypeVar("T")


Feed: TypeAlias = list[Callable[[T], object]]  # called with each item


class Session(SessionTells, SessionApprovals, SessionInputs, Generic[Deps_contra, Out_co]):
    """A running session. `Runtime.open` creates it; use it only on the event loop that created it.

    async with runtime.open(host) as session: ...
    """

    def __init__(
        self,
        session_id: str,
        rest: Rest,
        life: ProcessLife,
        log: EventLog,
        secrets: Secrets,
        types: SessionTypes,
        accept: Callable[[Json], Awaitable[None]],
        unpriced: str = "",
    ) -> None:
        super().__init__(session_id, rest, life)
        self._secrets = secrets
        self._types = types
        self._accept = accept
        self._log = log
        self._unpriced = unpriced
        self._callers = Callers(self._life, self._cancel_unwanted)
        self._outcomes = Outcomes(session_id, types)
        self._questions: Feed[Approval] = []
        self._asked: list[Approval] = []

    def _connect(self, parts: LiveParts) -> None:
        """Take live parts, when the session begins or wakes."""
        super()._connect(parts)
        parts.board.on_client = self._on_client
        self._note_idle()

    def _let_go(self, live: LiveParts) -> None:
        super()._let_go(live)
        self._asked.clear()

    @property
    def activity(self) -> Literal["running", "idle", "asleep", "failed"]:
        """Return whether an ask runs, none runs, the session sleeps, or it has failed in this process."""
        if self._is_asleep or self._has_failed:
            return "asleep" if self._is_asleep else "failed"
        return "running" if self._running else "idle"

    def _open_requests(self) -> Iterator[str]:
        """Yield the port of each request that has no answer yet."""
        opened = self._live.board.gate.open.values() if self._live else ()
        return (one.event.recipient for one in opened)

    @property
    def state(self) -> dict[str, Any]:
        """Return the shared state after the latest event, as new Python values by key.

        That event may not be on disk yet.
        """
        return (self._live.board.gate.shared if self._live else self._slept.shared).values()

    # --- asking -------------------------------------------------------------------

    @overload
    async def ask(
        self, prompt: Prompt, *, output_schema: type[T], **options: Unpack[AskOptions[Deps_contra]]
    ) -> Outcome[T]: ...

    @overload
    async def ask(
        self, prompt: Prompt, *, output_schema: None = None, **options: Unpack[AskOptions[Deps_contra]]
    ) -> Outcome[Out_co]: ...

    @overload
    async def ask(
        self, prompt: Prompt, *, output_schema: JsonSchema | None, **options: Unpack[AskOptions[Deps_contra]]
    ) -> Outcome: ...

    @overload
    async def ask(
        self, prompt: Prompt, *, output_schema: "Untyped", **options: Unpack[AskOptions[Deps_contra]]
    ) -> Outcome[Any]: ...

    async def ask(
        self,
        prompt: Prompt,
        *,
        output_schema: object = None,
        limits: Limits | None = None,
        request_id: str | None = None,
        on_cancel: OnCancel = "cancel",
        deps: Deps_contra | None = None,
        labels: Sequence[str] = (),
    ) -> Outcome[Any]:
        """Give the host a prompt, and wait for the outcome, which is durable by then.

        output_schema: of the result: a JSON schema (draft 2020-12), or a type that describes one, of which
        the outcome's value is made then (docs/typed-reports.md); None for text, or the host's own.
        request_id: a name for this ask. The same name again returns the same outcome and asks nothing.
        on_cancel: a caller that is cancelled stops waiting at once. Its ask is cancelled `cancel_delay_s`
        later, unless the runtime or its loop is ending or the same request_id is asked again; "detach" lets
        the ask go on.
        deps: the object for the tools of this ask; None for the session's own. It is never logged.
        labels: of the prompt, such as `untrusted` (docs/permissions.md).

        Raises SessionBusy while another ask runs, SessionEnded after the end, SessionDetached if this process
        leaves the session, InvalidPrompt for an unusable prompt, InvalidSchema for an unusable schema or
        type, MisuseError on another event loop,
        SessionFailed if the log cannot be written.
        """
        self._check_loop()
        refuse_on_cancel(on_cancel)
        name = await self._begin(prompt, output_schema, limits, request_id, deps, labels)
        if name in self._outcomes:
            return self._outcomes.of(name)
        return await self._callers.wait(name, self._last, on_cancel)

    async def submit(
        self,
        prompt: Prompt,
        *,
        output_schema: object = None,
        limits: Limits | None = None,
        request_id: str | None = None,
        deps: Deps_contra | None = None,
        labels: Sequence[str] = (),
    ) -> str:
        """Begin an ask and return its request id once it is durable. Its outcome: `await session.outcome`.

        For a web handler that answers at once. No caller waits for this ask, so none can cancel it by
        leaving. Parameters and errors are those of `ask`.
        """
        self._check_loop()
        name = await self._begin(prompt, output_schema, limits, request_id, deps, labels)
        async with self._in_use() as live:
            await live.board.durable()
        return name

    async def _begin(
        self,
        prompt: Prompt,
        output: object,
        limits: Limits | None,
        request_id: str | None,
        deps: object,
        labels: Sequence[str],
    ) -> str:
        """Begin an ask, unless it is known already. Return its request id."""
        request_id = checked_name("request_id", request_id or "")
        self._secrets.refuse_in("request_id", request_id)
        kind = output_type(output)
        await self._accept(self._types.of_ask(kind).schema)
        self._types.learn(kind)
        if request_id in self._outcomes:
            return request_id
        self._stay()
        await self._awake()
        if request_id and request_id == self._running:
            return request_id
        self._check_usable()
        bounds = limits_of(limits)
        refuse_unpriced(self._unpriced, bounds)
        name = request_id or new_request_id()
        content = self._types.prompt_of_ask(prompt)
        said = (content, kind.schema, bounds, kind.name)
        body = Ask(name, *said, self._board.deps.take(deps), labels_of(labels))
        self._asking = self._types.of_ask(kind)
        self._running, self._last = name, self._loop.create_future()
        self._board.submit_for_client(body)
        return name

    def _remember(self, recorded: RecordedSession, is_closing: bool) -> None:
        """Take over the asks of an earlier process. is_closing: it had begun to close the session."""
        self._is_closing = is_closing
        for ended in recorded.ended.values():
            self._outcomes.add(*ended)
        self._remember_tells(recorded.tells)
        self._board.delegations = recorded.reader.delegations
        self._asking, self._running = recorded.reader.running, recorded.running
        if recorded.last and not recorded.running:
            self._settle(recorded.last)

    @property
    def outcome(self) -> "asyncio.Future[Outcome]":
        """Return the outcome of the running ask, or otherwise of the latest one: `await session.outcome`.

        After `Runtime.resume` that is the ask which was cut off. Cancelling the waiting task does not cancel
        the ask. Raises MisuseError before the first ask.
        """
        if not (self._running or self._outcomes or self._asks_left()):
            raise MisuseError(
                f"session {self.session_id}: nothing was asked yet; use `await session.ask(...)`"
            )
        if self._last.done() and self._asks_left():
            self._last = self._loop.create_future()  # of the ask that is posted again next
        return asyncio.shield(self._last)

    def _check_open(self) -> None:
        """Refuse a call on a session that has ended. Raises SessionEnded, SessionFailed, Diverged."""
        if (error := self._error or self._diverged) is not None:
            raise error
        if self._detaching is not None:
            raise detached(self.session_id)
        if self._is_over or self._is_closing:
            raise SessionEnded(
                f"session {self.session_id} is closed; continue it with `await runtime.reopen(...)`, or open "
                "a new one"
            )

    def _check_usable(self) -> None:
        self._check_open()
        if self._running:
            raise SessionBusy(
                f"session {self.session_id} is working on another ask; "
                "await that, cancel it, or open a session of its own"
            )

    def _cancel_unwanted(self, request_id: str) -> None:
        """Cancel the ask whose caller was cancelled, if it still runs."""
        if request_id == self._running and not self._has_failed and self._detaching is None:
            self._board.submit_for_client(Cancel("the caller was cancelled"))

    async def cancel(self, reason: str = "") -> Outcome | None:
        """Stop the running ask and all agents below it; return its outcome (None if no ask runs).

        Raises MisuseError on another event loop than the session's.
        """
        self._check_loop()
        await self._take_up_to_end()
        if not self._running or self._has_failed or self._detaching is not None:
            return None
        outcome = self.outcome
        self._board.submit_for_client(Cancel(clean_text(reason)))
        return await outcome

    # --- what comes back ----------------------------------------------------------

    def _on_client(self, event: Event, head: Head) -> None:
        """Take an event for the client. The log is durable up to this head."""
        body = event.body
        if isinstance(body, AskEnded) and body.request_id == self._running:
            ended = EndedAsk(event.seq, body, self._asking, self._board.delegations.taken(event.seq))
            self._outcomes.add(ended, (head.seq, head.digest.hex()))
            self._running = ""
            self._may_start_again()
            self._settle(body.request_id)
            self._note_idle()
        elif isinstance(body, TellEnded):
            self._end_tell(body)
        elif isinstance(body, SessionClosed):
            self._end_at(head)

    def _settle(self, request_id: str) -> None:
        """Give the outcome of the latest ask to those who wait for it."""
        if self._last.done():
            return
        try:
            self._last.set_result(self._outcomes.of(request_id))
        except MissingType as error:
            self._last.set_exception(error)
            self._last.exception()  # marks it as seen

    def stream(self, after: int | None = None, *, of: str | None = None) -> SessionStream:
        """Return the session as a user interface needs it, for one reader: a snapshot, and then all changes.

        after: the id of the last item that the reader saw. The events after it come instead of a snapshot.
        of: whose text and progress comes; by default the host's alone, "*" for all agents. An address, also
        of a later agent, limits the events to that agent's as well.
        A reader that falls 1 MiB behind gets a `StreamCut` and its end; it never holds up the session. The
        stream ends with the session, or when that is detached. Raises MisuseError for another `after` than
        an event of this session, or an `of` that is not an address; reading it raises SessionFailed if the
        session fails.
        """
        self._check_loop()
        check_after(self.session_id, after, self.seq)
        return SessionStream(self._hub_in_use, after, choice_of(of), self._life)

    def text(self, *, of: str | None = None) -> AsyncIterator[TextDelta | TextReset]:
        """Yield the text and reset items of `stream` from now on. If a reader is too slow, it ends early."""
        return self._only(of, TextDelta, TextReset)

    def progress(self, *, of: str | None = None) -> AsyncIterator[ToolProgress]:
        """Yield the progress items of `stream` from now on. If a reader is too slow, it ends early."""
        return self._only(of, ToolProgress)

    async def _only(self, of: str | None, *kinds: type[T]) -> AsyncIterator[T]:
        async with aclosing(self.stream(self.seq, of=of)) as items:
            async for item in items:
                if isinstance(item, kinds):
                    yield item

    def _on_approval(self, question: Approval) -> None:
        """Show the question about a call that waits for a person."""
        self._asked = [one for one in self._asked if one.is_open] + [question]
        for take in self._questions:
            take(question)

    async def approvals(self) -> AsyncIterator[Approval]:
        """Yield the calls that wait for a person: those already waiting, then new ones, until the end.

        Answer each with `approve()` or `deny()`. Its agent waits for that until its deadline.
        """
        async with self._in_use():
            with self._fed(self._questions) as queue:
                for question in self._asked:
                    if question.is_open:
                        yield question
                while (new := await queue.get()) is not None:
                    if new.is_open:
                        yield new

    @contextmanager
    def _fed(self, feed: Feed[T]) -> "Iterator[asyncio.Queue[T | None]]":
        """Make a queue that gets each item of a feed from now on, and None at the end of the session."""
        queue: asyncio.Queue[T | None] = asyncio.Queue()
        take, end = queue.put_nowait, partial(queue.put_nowait, None)
        feed.append(take)
        self._ends.append(end)
        if self._is_over or self._has_failed:
            end()
        try:
            yield queue
        finally:
            feed.remove(take)
            self._ends.remove(end)

    async def events(self, start: int = 1) -> AsyncIterator[Event]:
        """Yield all events from a seq on: those in the log, then live ones, each once it is durable.

        Ends with the session. Raises SessionFailed if the session fails while it is watched.
        """
        last = start - 1
        # Watch before reading: no event falls between, and those that come twice are dropped by their seq.
        async with self._in_use() as live:
            with self._fed(live.board.watchers) as queue:
                async for event in self._events(start, queue):
                    if event.seq > last:
                        last = event.seq
                        yield event
            if self._error is not None:
                raise self._error

    async def _events(self, start: int, live: "asyncio.Queue[Event | None]") -> AsyncIterator[Event]:
        if not self._is_over:
            await self._board.durable()
        async for page in pages_from(self._log, self.session_id, start):
            for row in page:
                yield event_of(self.session_id, row)
        while (event := await live.get()) is not None:
            yield event
