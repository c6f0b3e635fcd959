"""Lists that change while sessions are live: each session is told, at most once in 10 seconds."""

import asyncio
import contextlib
import itertools
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer as SdkServer
from mcp.server.mcpserver import Context

from callboard import Agent, MCPServer, Runtime, tool
from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.mcp import connection, live
from callboard.runtime.mcp.live import ListChanges
from callboard.runtime.tools.sources import Scope
from tests.runtime.mcp.kit import NAME, asking, calls_of, events_of, played, raw, returned
from tests.runtime.mcp.test_http import serving
from tests.virtual_clock import run_virtually


def workshop() -> SdkServer:
    """Return a server with a tool that adds another, and says so."""
    server = SdkServer("workshop")

    def saw(wood: str, length: int = 1) -> str:
        """Saw some wood."""
        return f"sawed {wood} {length}"

    def old_saw(wood: str) -> str:
        """Saw some wood."""
        return f"sawed {wood}"

    @server.tool()
    async def build(ctx: Context[Any, Any]) -> str:
        """Build a saw."""
        with contextlib.suppress(Exception):
            server.remove_tool("saw")
        server.add_tool(saw, name="saw")
        await ctx.notify_tools_changed()
        return "built"

    server.add_tool(old_saw, name="saw")
    return server


@tool(effect="read")
def look() -> str:
    """Look."""
    return "a workshop"


async def changes_of(log: MemoryLog, name: str = NAME) -> list[list[str]]:
    bodies = [event.body for event in await events_of(log, name)]
    return [[spec.name for spec in body.change.tools] for body in bodies if isinstance(body, ToolsChanged)]


async def until_told(log: MemoryLog, times: int = 1, name: str = NAME) -> None:
    async with asyncio.timeout(10):
        while len(await changes_of(log, name)) < times:  # noqa: ASYNC110  # a log has no event of an append
            await asyncio.sleep(0.01)


def test_every_live_session_of_the_server_gets_the_new_list() -> None:
    server = MCPServer(workshop())
    host = Agent("host", tools=[look, server])

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        one = await runtime.open(host, session_id=NAME)
        await runtime.open(host, session_id="two")
        await one.ask("go")
        for name in (NAME, "two"):
            await until_told(log, name=name)
            assert await changes_of(log, name) == [["look", "build", "saw"]]
        await one.ask("again")
        assert await returned(log) == [("ok", "built"), ("ok", "sawed oak 3")]
        assert Recording.open(MemoryReader(log), NAME).verify().is_ok

    played(scene, asking("build", None, ("saw", {"wood": "oak", "length": 3})))


def test_a_resume_goes_on_with_the_changed_tools_and_is_no_change_of_the_agents() -> None:
    log, sdk = MemoryLog(), workshop()

    async def main() -> None:
        async with Runtime(log, model=asking("build")) as runtime:
            session = await runtime.open(Agent("host", tools=[MCPServer(sdk)]), session_id=NAME)
            await session.ask("go")
            await until_told(log)
        asked = asking("build", None, ("saw", {"wood": "oak", "length": 3}))
        async with Runtime(log, model=asked) as runtime:
            session = await runtime.resume(NAME, Agent("host", tools=[MCPServer(sdk)]))
            await session.ask("again")
            assert (await returned(log))[1:] == [("ok", "sawed oak 3")]
            assert len(await changes_of(log)) == 1

    asyncio.run(main())


def test_a_call_by_an_old_schema_is_not_sent_and_brings_the_new_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LIST_FRESH_S", 0.0)
    sdk, sawed = SdkServer("quiet"), []

    def old_saw(wood: str) -> str:
        return wood

    def saw(wood: str, length: int) -> str:
        sawed.append((wood, length))
        return "sawed"

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        sdk.add_tool(old_saw, name="saw")
        session = await runtime.open(Agent("host", tools=[MCPServer(sdk)]), session_id=NAME)
        sdk.remove_tool("saw")
        sdk.add_tool(saw, name="saw")  # without a notice
        await session.ask("go")
        await until_told(log)
        ((status, text),) = await returned(log)
        assert status == "error"
        assert "saw changed" in text
        assert "the call was not sent" in text
        await session.ask("again")
        assert (await returned(log))[1:] == [("ok", "sawed")]
        assert sawed == [("oak", 2)]

    played(scene, asking(("saw", {"wood": "oak"}), None, ("saw", {"wood": "oak", "length": 2})))


def test_a_notice_over_stdio_brings_the_new_list(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        session = await runtime.open(Agent("host", tools=[raw(notes, "grows")]), session_id=NAME)
        await session.ask("go")
        await until_told(log)
        assert (await changes_of(log))[0][-1] == "new"
        await session.ask("again")
        first, second = await returned(log)
        assert first == ("ok", "{}")
        assert second == ("ok", "{}")
        assert calls_of(notes) == ["echo", "new"]

    played(scene, asking("echo", None, "new"))


def test_a_change_is_heard_over_http_too() -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        async with serving(workshop().streamable_http_app()) as port:
            server = MCPServer(f"http://127.0.0.1:{port}/mcp")
            session = await runtime.open(Agent("host", tools=[server]), session_id=NAME)
            await session.ask("go")
            await until_told(log)
            await session.ask("again")
            assert await returned(log) == [("ok", "built"), ("ok", "sawed oak 3")]
            await runtime.aclose()

    played(scene, asking("build", None, ("saw", {"wood": "oak", "length": 3})))


def test_an_agent_does_not_get_back_the_tools_that_it_was_not_left() -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        session = await runtime.open(Agent("host", tools=[look, MCPServer(workshop())]), session_id=NAME)
        await session.set_tools(["look", "build"], agent="host")
        await session.ask("go")
        assert await returned(log) == [("ok", "built")]
        await asyncio.sleep(0.1)
        assert await changes_of(log) == [["look", "build"]]

    played(scene, asking("build"))


def test_changes_are_told_at_most_once_in_their_time() -> None:
    assert live.TOLD_EVERY_S == 10
    told: list[float] = []
    read: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def list_now(place: Any) -> tuple[()]:
            read.append(loop.time())
            return ()

        scope = Scope()
        scope.tell = lambda source, known, now: told.append(loop.time())
        source: Any = object()
        news = ListChanges(source, list_now)
        news.know(scope, ())
        for _ in range(50):
            news.changed((None, ""))
            await asyncio.sleep(0.5)
        await asyncio.sleep(15)
        assert len(told) == 4
        assert all(later - earlier >= 9.9 for earlier, later in itertools.pairwise(told))
        before = len(told)
        news.changed((None, ""))
        news.close()
        await asyncio.sleep(15)
        assert len(told) == before == len(read)

    run_virtually(main())


def test_a_session_that_has_left_is_told_nothing() -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        host = Agent("host", tools=[MCPServer(workshop())])
        gone = await runtime.open(host, session_id="gone")
        await gone.close()
        session = await runtime.open(host, session_id=NAME)
        await session.ask("go")
        await until_told(log)
        assert await changes_of(log, "gone") == []

    played(scene, asking("build"))


def test_a_changed_list_that_cannot_be_used_leaves_the_tools_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        session = await runtime.open(
            Agent("host", tools=[raw(tmp_path / "notes", "grows_twins")]), session_id=NAME
        )
        await session.ask("go")
        async with asyncio.timeout(10):
            while "two different tools named" not in caplog.text:  # noqa: ASYNC110  # a log has no event
                await asyncio.sleep(0.01)
        assert await changes_of(log) == []

    played(scene, asking("echo"))
