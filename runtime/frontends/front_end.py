"""The way between a session and one client: a request, and the stream that answers it.

    request                                 the answer begins with
    a prompt                                the ask: what a repeat missed comes first
    answers to approvals                    what has happened since the client looked
    neither: the client comes back          the same

The answer ends with the outcome of the ask, or once the ask waits for people and for nothing else. A client
that leaves stops nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import ClassVar, Final

import msgspec

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.actors.protocol.near_names import NamedFields
from callboard.runtime.agent import checked_name
from callboard.runtime.contracts import Prompt
from callboard.runtime.frontends.facts import Fact, Prompted, RunEnded
from callboard.runtime.frontends.fold import FactFold
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.stream_items import AnyStreamItem, StreamCut, StreamEvent

SIGN: Final = b": keep-alive\n\n"
LEAVING: Final = "The server is stopping. The session goes on; connect again to see it."


class GivenAnswer(msgspec.Struct, frozen=True, metaclass=NamedFields):
    """An answer of a person. seq: of the question (`Approval.seq`). The others: as of `Approval.approve`."""

    seq: int
    is_approved: bool
    note: str = ""
    arguments: dict[str, object] | None = None
    values: dict[str, object] | None = None
    always: bool = False


class FrontEndRequest(msgspec.Struct, frozen=True, metaclass=NamedFields):
    """The wish of a client.

    thread: the session's id. run: the client's own id of this request, empty without one.
    request_id: of the ask; a prompt that comes twice is asked once. prompt: None for no new ask.
    answers: to open approvals. after: the seq of the last event that the client has seen, None if not known.

    Raises MisuseError for names that no session or ask can have.
    """

    thread: str
    run: str = ""
    request_id: str = ""
    prompt: Prompt | None = None
    answers: tuple[GivenAnswer, ...] = ()
    after: int | None = None

    def __post_init__(self) -> None:
        if not self.thread:
            raise MisuseError("the client names no thread; its id is that of the session, so send one")
        if self.prompt is not None and not self.request_id:
            raise MisuseError("the newest message has an empty id; its id names the ask, so give it one")
        checked_name("the thread", self.thread)
        checked_name("the id of the newest message", self.request_id)
        if self.after is not None and self.after < 0:
            raise MisuseError(f"the client has seen event {self.after}; events count from 1")


class RunStream(ABC):
    """The events of one answer, in one protocol. The driver calls each method in this order."""

    @abstractmethod
    def past(self, fact: Fact) -> None:
        """Take a fact of the time before the answer."""

    @abstractmethod
    def begin(self, fold: FactFold) -> Iterable[object]:
        """Yield the first events: of a session that stands as the fold says."""

    @abstractmethod
    def live(self, fact: Fact, fold: FactFold) -> Iterable[object]:
        """Yield the events of a fact, also of the last one."""

    @abstractmethod
    def wait(self, fold: FactFold) -> Iterable[object]:
        """Yield the last events of an answer whose ask waits for people."""

    @abstractmethod
    def end(self, fold: FactFold) -> Iterable[object]:
        """Yield the last events of an answer about a session in which nothing runs."""

    @abstractmethod
    def fail(self, error: str, code: str) -> Iterable[object]:
        """Yield the last events of an answer that cannot go on."""


class FrontEnd(ABC):
    """A protocol: it reads the requests of its clients, and answers them from a session.

    request = front_end.read(await http_request.body())
    session = await runtime.open(host, session_id=request.thread, resume=True)
    return StreamingResponse(front_end.answer(session, request), headers=front_end.headers)
    """

    headers: ClassVar[Mapping[str, str]] = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    tail: ClassVar[bytes] = b""

    @abstractmethod
    def read(self, body: bytes) -> FrontEndRequest:
        """Read the body of a request.

        Raises:
            MisuseError: it is not of this protocol, or wants what callboard does not do, such as tools that
                the client runs. The text says what.
            InvalidPrompt: the newest message cannot be a prompt.
        """

    @abstractmethod
    def run_stream(self, request: FrontEndRequest) -> RunStream:
        """Return a new stream for the answer to a request."""

    async def answer(self, session: Session, request: FrontEndRequest) -> AsyncGenerator[bytes, None]:
        """Yield the answer to a request as server-sent events.

        An error of callboard, such as `SessionBusy`, is an event of the protocol; it raises nothing. It ends
        once `Runtime.stopping()` was called.
        """
        stream = self.run_stream(request)
        try:
            async with aclosing(_events(session, request, stream)) as events:
                async for event in events:
                    yield SIGN if event is None else _frame(event)
        except CallboardError as error:
            for event in stream.fail(str(error), type(error).__name__):
                yield _frame(event)
        yield self.tail


async def _act(session: Session, request: FrontEndRequest) -> int:
    """Do what the client wants. Return the seq up to which its own view reaches, or is to reach."""
    head = session.seq
    if (request.after or 0) > head:
        raise MisuseError(f"the client has seen event {request.after}, but the session ends at event {head}")
    if request.prompt is not None:
        await session.submit(request.prompt, request_id=request.request_id)
    for given in request.answers:
        if given.is_approved:
            await session.approve(
                given.seq, given.note, arguments=given.arguments, values=given.values, always=given.always
            )
        else:
            await session.deny(given.seq, given.note)
    return head if request.after is None else request.after


async def _events(
    session: Session, request: FrontEndRequest, stream: RunStream
) -> AsyncGenerator[object | None, None]:
    """Yield the events of an answer; None where a sign of life is due."""
    since = await _act(session, request)
    fold, is_live = FactFold(), False
    if request.prompt is None and not session.seq:
        for event in (*stream.begin(fold), *stream.end(fold)):
            yield event
        return
    async with aclosing(_items(session)) as items:
        async for item in items:
            if item is None:
                yield None
                continue
            for fact in fold.add(item):
                if is_live:
                    for event in stream.live(fact, fold):
                        yield event
                    if isinstance(fact, RunEnded):
                        return
                    continue
                stream.past(fact)
                if isinstance(fact, Prompted) and fact.request_id == request.request_id:
                    is_live = True
                    for event in stream.begin(fold):
                        yield event
            if not is_live and request.prompt is None and fold.seq >= since:
                is_live = True
                for event in stream.begin(fold):
                    yield event
                if not fold.is_running:
                    for event in stream.end(fold):
                        yield event
                    return
            # Further events of the same decision may be on their way.
            if is_live and fold.waits_only and fold.seq == session.seq:
                for event in stream.wait(fold):
                    yield event
                return
    for event in stream.fail(LEAVING, "stopping"):
        yield event


async def past_facts(session: Session) -> AsyncGenerator[Fact, None]:
    """Yield the facts of a session up to its newest event, without text of replies in progress."""
    fold, last = FactFold(), session.seq
    async with aclosing(session.stream(0)) as items:
        while fold.seq < last:
            item = await anext(items)
            for fact in fold.add(item) if isinstance(item, StreamEvent) else ():
                yield fact


async def _items(session: Session) -> AsyncGenerator[AnyStreamItem | None, None]:
    """Yield the items of a session from its first event on. A reader that was cut goes on where it was."""
    after: int | None = 0
    while after is not None:
        start, after = after, None
        async with aclosing(session.stream(start, of="*").served()) as items:
            async for item in items:
                if isinstance(item, StreamCut):
                    after = item.after or 0
                else:
                    yield item


def _frame(event: object) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(event)
