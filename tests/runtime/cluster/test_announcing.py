"""Notifications from owners to followers: they carry news and text, hold nothing up, and lose nothing unsaid.

The log is asked so rarely here that only a notification can bring an event in time.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import CallboardError, StoreFailed
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.agent import Agent
from callboard.runtime.cluster import announcing, holding, interest, listening, standings
from callboard.runtime.cluster.client import Client
from callboard.runtime.log.postgres.followers import NOTIFY
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.models.scripted import ScriptedModel, Step, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.stream_items import (
    StreamEvent,
    StreamItem,
    TextDelta,
    TextLost,
    TextReset,
    ToolProgress,
)
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import tool
from tests.crash.postgres import SETTINGS
from tests.postgres_server import Server, execute, started
from tests.runtime.cluster.kit import Typist, World, run
from tests.runtime.log.postgres.places import OnServer, on_server
from tests.waiting import until


@pytest.fixture(autouse=True)
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interest, "CALM_S", 60.0)
    monkeypatch.setattr(standings, "longer", lambda pause_s, pause_max_s: pause_max_s)
    monkeypatch.setattr(holding, "TURN_MS", 20)
    monkeypatch.setattr(announcing, "EVERY_S", 0.005)


class Scene:
    """A session of a model that a test types, and a client.

    Text is typed with a blank at its end: until then it may be the beginning of a key, which is taken out.
    """

    def __init__(self, client: Client, typist: Typist, session: Session) -> None:
        self.client, self.typist, self.session = client, typist, session

    async def known(self, session: str = "s") -> None:
        """Wait until the owner has greeted this client."""
        await until(lambda: session in self.client._interest._known)

    def stream(self, after: int | None = None, of: str | None = None) -> "Viewer":
        return Viewer(self.client.stream("s", after, of=of))


class Viewer:
    """A reader of a stream: its items so far."""

    def __init__(self, items: AsyncGenerator[Any, None]) -> None:
        self.items: list[StreamItem] = []
        self.task = asyncio.create_task(self._read(items))

    async def _read(self, items: AsyncGenerator[Any, None]) -> None:
        async for item in items:
            self.items.append(item)

    async def saw(self, is_so: Callable[[StreamItem], bool]) -> None:
        await until(lambda: any(map(is_so, self.items)))

    async def read(self, text: str) -> None:
        await until(lambda: self.text == text)

    @property
    def text(self) -> str:
        """The text of the reply under way as a page shows it, with `?` for each character that is lost."""
        shown = ""
        for item in self.items:
            match item:
                case TextDelta():
                    assert item.offset in (0, len(shown)), item
                    shown = shown[: item.offset] + item.text
                case TextLost():
                    assert item.offset == len(shown), item
                    shown += "?" * item.chars
                case TextReset():
                    shown = ""
                case _:
                    pass
        return shown

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


def kinds(items: list[StreamItem]) -> list[str]:
    return [item.event.kind if isinstance(item, StreamEvent) else item.kind for item in items]


@asynccontextmanager
async def typed(place: OnServer, **options: Any) -> AsyncIterator[Scene]:
    """Open session `s` in a runtime, and a client beside it."""
    typist = Typist()
    agents = [Agent("helper", model=typist)]
    async with Runtime(place.log(), **options) as runtime, Client(place.log()) as client:
        session = await runtime.open(Agent("host", model=typist, agents=agents), session_id="s")
        yield Scene(client, typist, session)


def test_an_idle_follower_gets_text_and_events_at_once(place: OnServer) -> None:
    async def scene() -> None:
        async with typed(place, secrets=["hunter2-hunter2"]) as one:
            viewer = one.stream()
            await one.known()
            asking = asyncio.create_task(one.session.ask("do it"))
            await one.typist.is_called.wait()
            one.typist.type("It is ")
            await viewer.read("It is ")
            one.typist.type("hunter2-hunter2", "!")
            one.typist.type(None)
            await asking
            await viewer.saw(lambda item: isinstance(item, StreamEvent) and item.event.kind == "AskEnded")
            found = kinds(viewer.items)
            assert found.index("CallModel") < found.index("text")
            assert len(found) - found[::-1].index("text") == found.index("ModelReplied")
            assert "hunter2" not in viewer.text
            assert viewer.text.startswith("It is ")
            assert viewer.text.endswith("!")
            assert one.client.is_notified
            assert [row[2:] for row in (await one.client.stats()).followers] == [(1, 1)]
            await one.session.close()
            await viewer.task

    run(scene)


def test_who_joins_in_the_middle_gets_the_text_from_its_start(place: OnServer) -> None:
    async def scene() -> None:
        async with typed(place) as one:
            asking = asyncio.create_task(one.session.ask("do it"))
            await one.typist.is_called.wait()
            one.typist.type("a long story ")
            async with Client(place.log()) as other:
                first, second = one.stream(), Viewer(other.stream("s", 0))
                await first.read("a long story ")
                await second.read("a long story ")
                third = one.stream(after=2)  # in a client that has the text already
                await third.read("a long story ")
                one.typist.type("of two ", "readers ")
                for viewer in (first, second, third):
                    await viewer.read("a long story of two readers ")
                one.typist.type(None)
                await asking
                await one.session.close()
                for viewer in (first, second, third):
                    await viewer.task
                    assert viewer.text == "a long story of two readers "

    run(scene)


def test_text_of_other_agents_is_sent_only_to_those_who_ask_for_it(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    _watch(monkeypatch, sent)

    async def scene() -> None:
        async with typed(place) as one:
            viewer = one.stream()
            await one.known()
            hub = one.session._hub
            hub.board.gate.may_answer = lambda seq: True  # type: ignore[method-assign]  # a call of a helper
            hub.on_text(3, "host.1", 1, 1, "of a helper")
            hub.on_text(4, "host", 1, 1, "of the host")
            await until(lambda: any("of the host" in payload for payload in sent))
            assert not any("of a helper" in payload for payload in sent)
            every = one.stream(of="*")
            await until(lambda: any("of a helper" in payload for payload in sent))
            for one_of in (viewer, every):
                await one_of.leave()

    run(scene)


def _watch(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> None:
    """Note the payloads of all notifications."""
    build = announcing._payloads

    def noted(*given: Any) -> Iterator[tuple[str, str]]:
        for channel, payload in build(*given):
            sent.append(payload)
            yield channel, payload

    monkeypatch.setattr(announcing, "_payloads", noted)


def test_in_an_encrypted_log_no_text_is_sent_in_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    _watch(monkeypatch, sent)

    async def scene() -> None:
        with on_server(b"k" * 32) as place:
            async with typed(place) as one:
                viewer = one.stream()
                await one.known()
                asking = asyncio.create_task(one.session.ask("do it"))
                one.typist.type("a private thing ")
                await viewer.read("a private thing ")
                one.typist.type(None)
                await asking
                await viewer.leave()

    run(scene)
    assert sent
    assert not any("private" in payload or "host" in payload for payload in sent)


def test_too_much_text_is_dropped_and_named_and_nothing_waits_for_it(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "TEXT_CHARS_MAX", 1_000)

    async def scene() -> None:
        async with typed(place) as one:
            viewer = one.stream()
            await one.known()
            asking = asyncio.create_task(one.session.ask("do it"))
            one.typist.type("start ")
            await viewer.read("start ")
            flood = [chr(97 + at % 26) * 299 + " " for at in range(20)]
            one.typist.type(*flood)  # in one pass of the loop
            await until(lambda: len(viewer.text) > 500)
            one.typist.type("end ")
            whole = "start " + "".join(flood) + "end "
            await until(lambda: len(viewer.text) == len(whole))
            assert all(shown in ("?", char) for shown, char in zip(viewer.text, whole, strict=True))
            assert 4_000 < viewer.text.count("?") < 6_000
            one.typist.type(None)
            await asking
            await viewer.leave()

    run(scene)


def test_news_that_could_not_be_sent_are_sent_later(place: OnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "AGAIN_S", 0.01)
    execute_, failures = Link.execute, 0

    def fails(link: Link, query: str, *more: Any) -> list[Any]:
        nonlocal failures
        if query == NOTIFY and failures < 2:
            failures += 1
            raise StoreFailed("too many notifications in the NOTIFY queue")
        return execute_(link, query, *more)

    async def scene() -> None:
        async with typed(place) as one:
            viewer = one.stream()
            await one.known()
            monkeypatch.setattr(Link, "execute", fails)
            asking = asyncio.create_task(one.session.ask("do it"))
            one.typist.type("text", None)
            await asking
            await viewer.saw(lambda item: isinstance(item, StreamEvent) and item.event.kind == "AskEnded")
            await until(lambda: failures == 2)
            await viewer.leave()

    run(scene)
    assert failures == 2


def test_a_client_sees_the_progress_of_tools_wherever_they_run(place: OnServer) -> None:
    is_seen = asyncio.Event()

    @tool
    async def dig(ctx: ToolContext) -> str:
        """Dig."""
        ctx.progress("one metre")
        await asyncio.sleep(0)  # else the next one replaces it
        ctx.progress("hunter2-hunter2")
        await is_seen.wait()
        return "done"

    def reply(request: ModelRequest) -> Step:
        return call("dig") if request.turn == 1 else say("all done")

    async def scene() -> None:
        secrets = ["hunter2-hunter2"]
        async with Runtime(place.log(), secrets=secrets) as runtime, Client(place.log()) as client:
            agent = Agent("host", tools=[dig], model=ScriptedModel(reply))
            session = await runtime.open(agent, session_id="s")
            viewer, other = Viewer(client.stream("s")), Viewer(client.stream("s", of="host.1"))
            await until(lambda: "s" in client._interest._known)
            asking = asyncio.create_task(session.ask("dig"))
            await until(lambda: sum(isinstance(item, ToolProgress) for item in viewer.items) == 2)
            is_seen.set()
            await asking
            await viewer.saw(lambda item: isinstance(item, StreamEvent) and item.event.kind == "AskEnded")
            found = kinds(viewer.items)
            assert found.index("CallTool") < found.index("progress")
            assert len(found) - found[::-1].index("progress") == found.index("ToolReturned")
            first, second = [item for item in viewer.items if isinstance(item, ToolProgress)]
            assert first == ToolProgress("host", 1, 0, "one metre")
            assert "hunter2" not in second.text
            assert "progress" not in kinds(other.items)
            await viewer.leave()
            await other.leave()

    run(scene)


def test_what_nobody_follows_is_not_announced(place: OnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "LOOK_MS", 0)
    sent: list[str] = []
    _watch(monkeypatch, sent)

    async def scene() -> None:
        async with typed(place) as one:
            runtime = one.session._live
            assert runtime is not None
            one.typist.type("text", None)
            await one.session.ask("one")
            assert sent == []
            viewer = one.stream()
            await one.known()
            # As after a SIGKILL: nobody renews the lease of the follower any more.
            execute(f"UPDATE {place.schema}.followers SET ends_ms = 0")
            await until(lambda: runtime.hub.on_live is None)
            sent.clear()
            one.typist.type("more", None)
            await one.session.ask("two")
            assert sent == []
            await viewer.leave()

    run(scene)


def test_a_client_that_listens_again_misses_no_event_and_no_text(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "AGAIN_S", 0.01)

    async def scene() -> None:
        async with typed(place) as one:
            viewer = one.stream()
            await one.known()
            asking = asyncio.create_task(one.session.ask("do it"))
            one.typist.type("before ")
            await viewer.read("before ")
            execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT%followed%'"
            )
            one.typist.type("meanwhile ")
            await viewer.read("before meanwhile ")
            one.typist.type("after", None)
            await asking
            await one.session.close()
            await viewer.task
            assert viewer.text == "before meanwhile after"
            ids = [item.id for item in viewer.items if item.id]
            assert ids == [*range(ids[0], ids[0] + len(ids))]

    run(scene)


def test_a_session_that_is_stolen_in_the_middle_of_a_reply_begins_it_again(place: OnServer) -> None:
    async def scene() -> None:
        async with typed(place) as one:
            viewer = one.stream()
            await one.known()
            first = asyncio.create_task(one.session.ask("do it"))
            one.typist.type("of the first ")
            await viewer.read("of the first ")
            typist = Typist()
            host = Agent("host", model=typist, agents=[Agent("helper", model=typist)])
            async with Runtime(place.log()) as thief:
                session = await thief.resume("s", host, steal=True)
                one.typist.type("zombie ")
                await viewer.saw(lambda item: isinstance(item, TextReset))
                typist.type("of the second ")
                await viewer.read("of the second ")
                typist.type(None)
                await session.outcome
                await session.close()
                await viewer.task
            assert viewer.text == "of the second "
            one.typist.type(None)
            with pytest.raises(CallboardError, match="epoch"):
                await first

    run(scene)


def test_text_of_a_worker_reaches_a_client_while_the_session_changes_its_worker(world: World) -> None:
    async def scene() -> None:
        typists = [Typist(), Typist()]
        async with Client(world.place.log()) as client:
            await client.submit("s", "do it", host="host", request_id="r")
            viewer = Viewer(client.stream("s"))
            async with world.worker(Agent("host", model=typists[0])):
                await typists[0].is_called.wait()
                typists[0].type("of the first ")
                await viewer.read("of the first ")
            async with world.worker(Agent("host", model=typists[1])):
                await typists[1].is_called.wait()
                typists[1].type("of the second ")
                await viewer.read("of the second ")
                typists[1].type(None)
                assert (await client._followed.ended("s", 1, "r")).text.strip() == "of the second"
            await viewer.leave()

    run(scene)


def test_logs_in_one_database_do_not_hear_each_other(place: OnServer) -> None:
    async def scene() -> None:
        with on_server() as elsewhere:
            async with typed(place) as one, typed(elsewhere) as other:
                viewers = [one.stream(), other.stream()]
                await one.known()
                await other.known()
                asking = asyncio.create_task(one.session.ask("do it"))
                one.typist.type("only here ")
                await viewers[0].read("only here ")  # before its end: its event may overtake it
                one.typist.type(None)
                await asking
                assert kinds(viewers[1].items) == ["snapshot", "SessionOpened"][: len(viewers[1].items)]
                for viewer in viewers:
                    await viewer.leave()

    run(scene)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_notifications_come_again_after_a_restart_of_the_server(mode: str) -> None:
    async def scene(server: Server) -> None:
        typist = Typist()
        async with Runtime(server.url()) as runtime, Runtime.connect(server.url()) as client:
            session = await runtime.open(Agent("host", model=typist), session_id="s")
            one = Scene(client, typist, session)
            viewer = one.stream()
            await one.known()
            await asyncio.to_thread(server.stop, mode)
            await until(lambda: not client.is_notified)
            await asyncio.to_thread(server.start)
            await one.known()
            asking = asyncio.create_task(session.ask("do it"))
            typist.type("text ")
            await viewer.read("text ")
            typist.type(None)
            await asking
            await session.close()
            await viewer.task

    with started(Path("/tmp"), **SETTINGS) as server:
        run(lambda: scene(server))
