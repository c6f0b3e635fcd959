"""What the tests of the log have in common: events, a batch, a child process."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from callboard.actors.addresses import HOST, MODEL, SUPERVISOR, TOOLS
from callboard.actors.codec import encode
from callboard.actors.events import Event
from callboard.actors.messages import AnyMessage, Cancel, ToolReturned
from callboard.runtime.log.protocol import Append, EventLog, Head, Stored
from callboard.runtime.log.sqlite import SQLiteLog

T = TypeVar("T")

ROOT = Path(__file__).parents[3]
NOBODY = 65_534


def json_text(characters: int, letter: str = "x") -> msgspec.Raw:
    """A JSON string of this many bytes, quotes included."""
    return msgspec.Raw(b'"' + letter.encode() * (characters - 2) + b'"')


def event(seq: int, body: AnyMessage | None = None, **envelope: object) -> Event:
    """An event with an envelope that says little, or what it is told to."""
    one = Event(seq, 1_700_000_000_000 + seq, "supervisor", "host", seq - 1, body or Cancel(f"reason {seq}"))
    return msgspec.structs.replace(one, **envelope)


def events(first: int, last: int) -> list[Event]:
    """Small events from seq `first` to `last`."""
    return [event(seq) for seq in range(first, last + 1)]


def large(seq: int, size: int = 5_000, letter: str = "x") -> Event:
    """An event with a value that is cut out."""
    return event(seq, ToolReturned(turn=1, call=0, status="ok", output=json_text(size, letter)))


def turn(seq: int) -> list[Event]:
    """Six events with bodies of 180 bytes, as a turn with one tool call has them."""
    ways = (
        (HOST, SUPERVISOR),
        (SUPERVISOR, MODEL),
        (MODEL, HOST),
        (HOST, TOOLS),
        (TOOLS, HOST),
        (TOOLS, HOST),
    )
    rest = 180 - len(encode(Cancel("")))
    return [
        event(seq + at, Cancel("r" * (rest - len(',"reason":""'))), sender=sender, recipient=recipient)
        for at, (sender, recipient) in enumerate(ways)
    ]


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
    """Whether the store has these events, byte for byte."""
    return [(row.seq, row.at, row.sender, row.recipient, row.cause, row.body) for row in stored] == [
        (one.seq, one.at, one.sender, one.recipient, one.cause, encode(one.body)) for one in posted
    ]


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function on a loop of its own, for at most half a minute."""

    async def limited() -> T:
        async with asyncio.timeout(30):
            return await work()

    return asyncio.run(limited())


def child(script: str, *arguments: object, timeout_s: float = 20) -> "subprocess.CompletedProcess[str]":
    """Run a Python script in a process of its own, warnings being errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=timeout_s,
        check=False,
    )


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's right to write everywhere, if the tests have that."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def write_some(path: Path, count: int = 10) -> None:
    """A closed log in a file, with one session."""

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, count))
        await log.close()

    run(work)
