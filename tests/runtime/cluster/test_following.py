"""Sessions as a client follows them: each event once and in order, from any seq, whoever writes them."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import AskEnded, SessionClosed
from callboard.actors.protocol.errors import MisuseError, SessionNotFound, StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.runtime.agent import Agent
from callboard.runtime.cluster import standings
from callboard.runtime.cluster.client import Client
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.stream_items import Snapshot, StreamEvent, StreamItem, TextReset
from tests.crash.postgres import SETTINGS
from tests.postgres_server import Server, started
from tests.runtime.cluster.kit import World, run

PLAIN = Agent("host", model=ScriptedModel(lambda request: say("done")))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standings, "PAUSE_S_MAX", 0.02)


async def items_of(client: Client, after: int | None, of: str | None = None) -> list[StreamItem]:
    """Return all items of session `s`, which has to be closed."""
    return [item async for item in client.stream("s", after, of=of)]


async def closed_session(place: Any, *late: Event) -> Head:
    """Make the closed session `s`, with one ask. late: events behind its end."""
    async with Runtime(place.log()) as runtime:
        session = await runtime.open(PLAIN, session_id="s")
        await session.ask("do it")
        head = await session.close()
    if late:
        log = place.log()
        await log.open()
        epoch, _ = await log.take_over("s")
        (answer,) = await log.append([Append("s", head.seq, epoch, late)])
        await log.close()
        assert isinstance(answer, Head)
        head = answer
    return head


def test_a_stream_continues_at_any_seq_and_ends_with_the_session(world: World) -> None:
    async def scene() -> None:
        head = await closed_session(world.place)
        async with Runtime.connect(world.place.url) as client:
            whole = await items_of(client, 0)
            assert [item.id for item in whole] == list(range(1, head.seq + 1))
            assert isinstance(whole[-1], StreamEvent)
            assert isinstance(whole[-1].event.body, SessionClosed)
            for after in range(head.seq + 1):
                assert await items_of(client, after) == whole[after:]
                assert [one.seq async for one in client.events("s", after + 1)] == [
                    item.id for item in whole[after:]
                ]
            (snapshot,) = await items_of(client, None)
            assert isinstance(snapshot, Snapshot)
            assert (snapshot.id, snapshot.is_closed, len(snapshot.agents)) == (head.seq, True, 1)
            of_host = [item.id for item in await items_of(client, 0, "host")]
            assert 0 < len(of_host) < head.seq

    run(scene)


def test_a_closed_session_with_late_answers_ends_behind_them(world: World) -> None:
    async def scene() -> None:
        before = await closed_session(world.place)
        await (await _deleted(world)).close()
        lost = ModelReplied(1, 1, "lost")
        head = await closed_session(world.place, Event(before.seq + 1, 1, "model", "host", 1, lost))
        async with Runtime.connect(world.place.url) as client:
            assert await items_of(client, before.seq) == [
                TextReset("host", 1, 1),
                StreamEvent(Event(head.seq, 1, "model", "host", 1, lost)),
            ]
            assert await items_of(client, head.seq) == []

    run(scene)


async def _deleted(world: World) -> Any:
    log = world.place.log()
    await log.open()
    await log.delete("s")
    while await log.purge():
        pass
    return log


def test_what_cannot_be_followed_is_refused(world: World) -> None:
    async def scene() -> None:
        head = await closed_session(world.place)
        async with Runtime.connect(world.place.url) as client:
            for after in (head.seq + 1, -1, True, "7"):
                with pytest.raises(MisuseError, match=f"after={after!r}"):
                    await items_of(client, after)  # type: ignore[arg-type]  # the test's point
            with pytest.raises(MisuseError, match="the address of an agent"):
                client.stream("s", of="nobody in particular")
            for unknown in ("unknown", "\0", "\ud800"):
                with pytest.raises(SessionNotFound):
                    await anext(client.stream(unknown))
            async with aclosing(client.stream("s", 0)) as items:
                await anext(items)
                await client.delete("s")
                with pytest.raises(SessionNotFound):
                    [item async for item in items]  # the first page has one event

    run(scene)


def test_each_event_comes_once_while_the_session_changes_its_owner(world: World) -> None:
    async def scene() -> None:
        async with Runtime.connect(world.place.url) as client:
            await client.submit("s", "do it", host="host", request_id="r")
            items = client.stream("s")
            first = await anext(items)  # no worker has opened it yet
            assert isinstance(first, Snapshot)
            assert first.id == 0
            seen = asyncio.create_task(_upto(items, "r"))
            async with world.worker(world.host()):
                await world.until(lambda _: world.deeds.total() == 1)
            world.holds.set()
            async with world.worker(world.host()):
                assert await seen == list(range(1, len(await seen) + 1))
            assert any(type(one.body).__name__ == "Resumed" for one in await _events(client))

    run(scene)


async def _upto(items: AsyncGenerator[Any, None], name: str) -> list[int]:
    """Return the ids of the events up to the end of an ask."""
    seen = []
    async with aclosing(items):
        async for item in items:
            if isinstance(item, StreamEvent):
                seen.append(item.event.seq)
                if isinstance(item.event.body, AskEnded) and item.event.body.request_id == name:
                    break
    return seen


async def _events(client: Client) -> list[Event]:
    return [item.event for item in await _first(client) if isinstance(item, StreamEvent)]


async def _first(client: Client) -> list[StreamItem]:
    found: list[StreamItem] = []
    async with aclosing(client.stream("s", 0)) as items:
        async for item in items:
            found.append(item)
            if isinstance(item, StreamEvent) and isinstance(item.event.body, AskEnded):
                break
    return found


def test_a_reader_of_events_that_the_server_has_lost_is_told(world: World) -> None:
    async def scene() -> None:
        async with Runtime(world.place.log()) as runtime, Runtime.connect(world.place.url) as client:
            session = await runtime.open(PLAIN, session_id="s")
            put_back = world.place.set_back()
            await session.ask("do it")
            items = client.stream("s", 0)
            for _ in range(session.seq):
                await anext(items)
            put_back()
            with pytest.raises(StoreFailed, match=f"event {session.seq} was read before"):
                await anext(items)

    run(scene)


@pytest.fixture
def server() -> Iterator[Server]:
    with started(Path("/tmp"), **SETTINGS) as server:  # a socket's name has at most 107 bytes
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_stream_survives_a_restart_of_the_server(server: Server, mode: str) -> None:
    async def scene() -> None:
        async with Runtime(server.url()) as runtime, Runtime.connect(server.url()) as client:
            session = await runtime.open(PLAIN, session_id="s")
            seen = asyncio.create_task(items_of(client, 0))
            await session.ask("one")
            await asyncio.to_thread(server.stop, mode)
            asking = asyncio.create_task(session.ask("two"))
            await asyncio.to_thread(server.start)
            await asking
            head = await session.close()
            assert [item.id for item in await seen] == list(range(1, head.seq + 1))

    run(scene)
