"""Transcripts of logs: all that a store says in the course of some sessions, the same for any store."""

import inspect
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR
from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, Resumed, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import WrongHead
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, EventLog, LogReader
from callboard.runtime.log.session_rows import SessionQuery
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import event, events, large, run


def charge(day: str, model: str, tokens: int) -> Charge:
    return Charge(day, model, "host", Usage(tokens, calls=1))


async def answers(log: EventLog) -> list[object]:
    """Let a log do everything that a log can do. Return all that it says."""
    said: list[object] = []
    await log.open()
    for name, made_ms in (("a", 5), ("b", 9), ("c", 9)):
        said.append(await log.create(name, made_ms, f"title of {name}", name.encode() * 32))
    said += await asks(log)
    spent = [charge("2026-11-29", "m", 4), charge("2026-11-28", "n", 5), charge("2026-11-29", "m", 6)]
    body = Begin(Json(b"{}"), Json(b'"x"'), ModelSpec("m"), Limits())
    mixed = [
        *events(1, 5),
        event(6, Cancel("x"), sender=HOST, recipient="host.1"),
        event(7, body, sender="host.1", recipient=HOST),
        *events(8, 12),
    ]
    said += await log.append([Append("a", 0, 1, mixed, (), spent), Append("b", 0, 1, events(1, 3))])
    said += await log.append([Append("a", 12, 1, [], (), [charge("2026-11-30", "m", 1)])])
    said.append(await log.fork("f", 20, "fork", "a", 9, events(10, 11)))
    said.append(await log.fork("g", 21, "fork of a fork", "f", 10))
    said.append(await log.fork("h", 22, "fork at a seam", "f", 9))
    said.append(await log.fork("i", 23, "fork at the end", "f", 11))
    for base in (0, 12):
        with pytest.raises(WrongHead) as caught:
            await log.fork("j", 24, "", "f", base)
        said.append(str(caught.value))
    for name, (start, limit) in product(
        "afghi", ((1, 99), (0, 3), (-5, 2), (8, 2), (9, 3), (10, 1), (12, 5), (3, 0))
    ):
        said.append(await log.read(name, start, limit))
    said.append([await log.read("a"), await log.read("g", 9)])
    for query in (
        SessionQuery(),
        SessionQuery(limit=2),
        SessionQuery(limit=0),
        SessionQuery(since_ms=1_000_000_000_000),
        SessionQuery(after=(await log.sessions())[1].cursor, limit=2),
    ):
        said.append(await log.sessions(query))
    said += [await log.take_over("b"), await log.take_over("b"), await log.head("g")]
    said += [await log.usage(), await log.usage("2026-11-29"), await log.usage("2027")]
    await log.set_usage("a", [charge("2026-11-29", "z", 3), charge("2026-11-29", "y", 3)])
    await log.set_usage("f", [charge("2026-11-29", "z", 2)])
    said += [await log.usage(), [row.usage for row in await log.sessions()]]
    said.append(await log.delete("a", keep_forks=True))
    said.append([await log.sessions(), await log.usage(), await log.read("f"), await log.head("f")])
    said += [await log.delete(name, keep_forks=True) for name in "fghic"]
    said.append(await log.sessions())
    said += await spending(log)
    await log.close()
    return said


def reserved(session: str, turn: int) -> Reservation:
    spans = (("*", "2026-11"), ("tenant:*=tenant:a", "2026-11-28"))
    return Reservation(CallKey(session, 1, "host.1", turn, 1), Need(100, 50), spans)


async def spending(log: EventLog) -> list[object]:
    """Let a log keep the spending of two sessions, and delete them. Return all that it says."""
    said: list[object] = []
    books = log.spending
    assert books is not None
    await log.create("early", 0, "")  # with no event that has a time
    for name, own in (("b", events(4, 5)), ("early", [])):
        changes: list[SpendingChange] = [
            reserved(name, 1),
            reserved(name, 2),
            Settlement(reserved(name, 1), Need(30, 3)),
        ]
        head = await log.head(name)
        (row,) = [one for one in await log.sessions() if one.session_id == name]
        said += await log.append([Append(name, head.seq, row.epoch, own, changes)])
        said += [await books.read(), sorted(await books.unlogged(), key=str)]
        await log.delete(name)
        said += [await books.read(), sorted(await books.unlogged(), key=str)]
    return said


async def asks(log: EventLog) -> list[object]:
    """Let a log keep asks of two sessions, in one batch and in several, with what they say of their rows."""
    said: list[object] = []
    model = ModelSpec("m")
    for name in ("x", "y"):
        await log.create(name, 30, "")

    def own(first: int, *bodies: Any) -> list[Any]:
        return [
            event(first + at, body, sender=CLIENT, recipient=SUPERVISOR) for at, body in enumerate(bodies)
        ]

    opened = SessionOpened(2, "host", (), model, tags=("red", "old"))
    ask, end = Ask("1", text_json("the first words")), AskEnded("1", "answered")
    failed, other = AskEnded("2", "budget"), Ask("2", text_json("other words"))
    spent = [charge("2026-11-29", "m", 2)]
    for batch in (
        [
            Append("x", 0, 1, own(1, opened)),
            Append("y", 0, 1, own(1, opened, ask)),
            Append("x", 1, 1, own(2, ask)),
        ],
        [Append("x", 2, 1, own(3, end, other), (), spent), Append("x", 4, 1, own(5, failed), (), spent)],
        [Append("x", 9, 1, own(10, end)), Append("y", 2, 7, own(3, end)), Append("gone", 0, 1, [])],
        [Append("y", 2, 1, [large(3), large(4, 5_000, "z")]), Append("y", 4, 1, [])],
        [Append("y", 4, 1, own(5, Resumed(2, host="second", reopens=True)))],
    ):
        for found in await log.append(batch):
            said.append(f"{type(found).__name__} {found}" if isinstance(found, Exception) else found)
        said += [await log.sessions(), await log.usage()]
        said += [
            await log.sessions(SessionQuery(status=status)) for status in ("open", "unfinished", "closed")
        ]
        said += [await log.sessions(SessionQuery(tag=tag)) for tag in ("red", "blue")]
    said += [await log.read("x"), await log.read("y"), await log.head("y")]
    said += [await log.delete("x"), await log.delete("y")]
    return said


def has_usual_defaults(*kinds: type) -> None:
    """Check the defaults of the methods that read pages of events."""
    for kind in kinds:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            given = {one.name: one.default for one in inspect.signature(method).parameters.values()}
            if name in ("read", "events", "events_of"):
                assert given["limit"] == 10_000, f"{kind.__name__}.{name}"
                assert given.get("start", 1) == 1, f"{kind.__name__}.{name}"


def answer_alike(memory: MemoryLog, path: Path, **options: Any) -> None:
    """Compare the transcripts of a log in memory and of one in a file. options: of the file."""
    with_reader = partial(SQLiteReader, path, **options)
    compare(memory, SQLiteLog(path, **options), with_reader)


def compare(memory: MemoryLog, log: EventLog, reader_of: Callable[[], LogReader]) -> None:
    """Compare the transcripts of a log in memory and of another one."""
    said, also = run(lambda: answers(memory)), run(lambda: answers(log))
    for one, other in zip(said, also, strict=True):
        assert one == other
    with reader_of() as reader:
        has_usual_defaults(EventLog, LogReader, MemoryLog, MemoryReader, type(log), type(reader))
        kept = MemoryReader(memory)
        assert (kept.sessions(), kept.usage()) == (reader.sessions(), reader.usage())
        (spent, lost), (same, more) = kept.spending(), reader.spending()
        assert (spent, sorted(lost, key=str)) == (same, sorted(more, key=str))
        assert spent.spent
