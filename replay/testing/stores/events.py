"""The place of the log of a store under test, events to fill it with, and the calls that every test makes.

The envelopes of the events are valid and say little: a store is tested by their size, order and bytes.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Final, ParamSpec, Protocol, TypeVar

import msgspec

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import StoreError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.runtime.log.protocol import Append, EventLog, Head, LogReader, Stored

T = TypeVar("T")
P = ParamSpec("P")

AT_MS: Final = 1_700_000_000_000
TIMEOUT_S: Final = 30
"""The time limit of one test: a store that hangs fails it."""


class StorePlace(Protocol):
    """One place, empty when a test begins. It outlives the objects that write and read there."""

    def log(self, key: bytes | None = None) -> EventLog:
        """Return the log there, not open yet. key: for its digests."""

    def reader(self) -> LogReader:
        """Return a reader of the log there, which was opened at least once."""

    def after_crash(self) -> "StorePlace | None":
        """Return the place as it would be if the writing process died now, without closing.
        Called while a log is open there. None for a store that dies with its process.

        A place may also have `set_back()`: it remembers the events and heads of now, and returns a function
        that puts them back below an open log, as a restored backup would.
        """


@asynccontextmanager
async def opened(
    place: StorePlace, key: bytes | None = None, sessions: Iterable[str] = ()
) -> AsyncIterator[EventLog]:
    """Open the log there and make these sessions; close it at the end if the test has not."""
    log = place.log(key)
    await log.open()
    for name in sessions:
        await log.create(name, 1, "")
    yield log
    await log.close()


@asynccontextmanager
async def also_open(place: StorePlace, log: EventLog) -> AsyncIterator[EventLog]:
    """Open the place's log a second time; where the store refuses that, lend the log that is open."""
    other = place.log()
    if other is not log:
        try:
            await other.open()
        except StoreError:
            other = log
    yield other
    if other is not log:
        await other.close()


def json_text(characters: int, letter: str = "x") -> msgspec.Raw:
    """Make a JSON string of this many bytes, quotes included."""
    return msgspec.Raw(b'"' + letter.encode() * (characters - 2) + b'"')


def event(seq: int, body: AnyMessage | None = None, **envelope: object) -> Event:
    """Make an event with a plain envelope. envelope: fields to change."""
    one = Event(seq, AT_MS + seq, "supervisor", "host", seq - 1, body or Cancel(f"reason {seq}"))
    return msgspec.structs.replace(one, **envelope)


def events(first: int, last: int) -> list[Event]:
    """Make small events from seq `first` to `last`."""
    return [event(seq) for seq in range(first, last + 1)]


def large(seq: int, size: int = 5_000, letter: str = "x") -> Event:
    """Make an event with a value of this size, large enough to be stored apart from its body."""
    return event(seq, ToolReturned(turn=1, call=0, status="ok", output=json_text(size, letter)))


async def add(log: EventLog, session_id: str, epoch: int, more: Sequence[Event]) -> Head | Exception:
    """Append to one session; its answer."""
    (answer,) = await log.append([Append(session_id, more[0].seq - 1, epoch, more)])
    return answer


async def added(log: EventLog, session_id: str, epoch: int, more: Sequence[Event]) -> Head:
    """Append to one session, which must succeed."""
    answer = await add(log, session_id, epoch, more)
    assert isinstance(answer, Head), answer
    return answer


def same(stored: Sequence[Stored], posted: Sequence[Event]) -> bool:
    """Return whether the store has these events, byte for byte."""
    return [(row.seq, row.at, row.sender, row.recipient, row.cause, row.body) for row in stored] == [
        (one.seq, one.at, one.sender, one.recipient, one.cause, encode(one.body)) for one in posted
    ]


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function on a loop of its own, for at most half a minute."""

    async def limited() -> T:
        async with asyncio.timeout(TIMEOUT_S):
            return await work()

    return asyncio.run(limited())


def on_loops(cases: type[T]) -> type[T]:
    """Make each coroutine function of a class a test that calls `run`, so that pytest needs no plugin."""
    for name, case in list(vars(cases).items()):
        if inspect.iscoroutinefunction(case):
            setattr(cases, name, _on_a_loop(case))
    return cases


def _on_a_loop(case: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    @wraps(case)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        run(partial(case, *args, **kwargs))

    return test
