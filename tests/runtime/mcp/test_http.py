"""Servers behind HTTP on loopback: what a failure of the network says about a call."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from mcp.server import MCPServer as SdkServer

from callboard import Agent, Limits, MCPServer, ModelRequest, Reply, Runtime, ScriptedModel, call, say
from callboard.errors import InvalidAgent
from callboard.log import MemoryLog
from tests.runtime.mcp.kit import NAME, asking, played, returned
from tests.waiting import until

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class Gate:
    """An ASGI app in front of a server, which can break what passes. calls: the tools called."""

    def __init__(self, is_json: bool = False) -> None:
        self.calls: list[str] = []
        self.cancelled = asyncio.Event()
        self.wakes = asyncio.Event()
        self.breaks = ""
        self.headers: list[dict[str, str]] = []
        server = SdkServer("gate")

        @server.tool()
        async def note(text: str) -> str:
            """Note a text."""
            self.calls.append(text)
            return text.upper()

        @server.tool()
        async def nap() -> str:
            """Sleep until it is woken."""
            self.calls.append("nap")
            try:
                await self.wakes.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "awake"

        self.app: Asgi = server.streamable_http_app(json_response=is_json)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        sent = {key.decode(): value.decode() for key, value in scope.get("headers", ())}
        is_call = sent.get("mcp-method") == "tools/call"  # not the stream of changes, which comes any time
        if is_call and not self.breaks:
            self.headers.append(sent)
        if not is_call or not self.breaks:
            await self.app(scope, receive, send)
            return
        how, self.breaks = self.breaks, ""
        if how.isdigit():
            await send({"type": "http.response.start", "status": int(how), "headers": []})
            await send({"type": "http.response.body", "body": b"<html>no</html>"})
            return
        if how == "cut":  # the request is handled, and its answer cut off

            async def cut(message: Any) -> None:
                if message["type"] == "http.response.body":
                    raise ConnectionError("cut")
                await send(message)

            await self.app(scope, receive, cut)
        if how == "big":
            kind = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": kind})
            for _ in range(50):
                await send({"type": "http.response.body", "body": b" " * 2**20, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


@contextlib.asynccontextmanager
async def serving(app: Asgi, port: int = 0) -> AsyncIterator[int]:
    """Serve on a port of loopback, and yield it."""
    held = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on", ws="none"))
    task = asyncio.create_task(server.serve(sockets=[held]))
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event of its start
        await asyncio.sleep(0.01)
    try:
        yield int(held.getsockname()[1])
    finally:
        server.should_exit = server.force_exit = True
        await task
        held.close()


def through(*asked: Any, breaks: str = "", is_json: bool = False, **options: Any) -> tuple[Gate, list[Any]]:
    """Return the gate, and what calls of an agent came to. breaks: how the first call's request fails."""
    gates: list[Gate] = []
    found: list[Any] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        gate = Gate(is_json)
        gates.append(gate)
        async with serving(gate) as port:
            limits = options.pop("limits", None)
            server = MCPServer(f"http://127.0.0.1:{port}/mcp", **options)
            async with runtime.open(Agent("host", tools=[server]), session_id=NAME, limits=limits) as session:
                gate.breaks = breaks
                await session.ask("go")
                found.extend(await returned(log))
            await runtime.aclose()

    played(scene, asking(*asked))
    return gates[0], found


@pytest.mark.parametrize("is_json", [False, True])
def test_a_call_goes_there_and_back(is_json: bool) -> None:
    gate, found = through(("note", {"text": "a\u2603"}), is_json=is_json, headers={"x-key": "swordfish-42"})
    assert found == [("ok", "A\u2603")]
    assert gate.calls == ["a\u2603"]
    assert all(headers["x-key"] == "swordfish-42" for headers in gate.headers)


@pytest.mark.parametrize("is_json", [False, True])
def test_a_cut_answer_leaves_a_write_interrupted_and_sent_once(is_json: bool) -> None:
    gate, found = through(("note", {"text": "a"}), ("note", {"text": "b"}), breaks="cut", is_json=is_json)
    assert [status for status, _ in found] == ["interrupted", "ok"]
    assert gate.calls == ["a", "b"]


def test_a_read_is_sent_once_more_after_a_cut() -> None:
    gate, found = through(("note", {"text": "a"}), breaks="cut", effects={"note": "read"})
    assert found == [("ok", "A")]
    assert gate.calls == ["a", "a"]


@pytest.mark.parametrize("status", ["401", "404", "429"])
def test_a_refused_request_was_not_looked_at_and_is_sent_again(status: str) -> None:
    gate, found = through(("note", {"text": "a"}), breaks=status)
    assert found == [("ok", "A")]
    assert gate.calls == ["a"]


@pytest.mark.parametrize("how", ["500", "503"])
def test_a_failure_of_the_server_may_come_after_the_effect(how: str) -> None:
    _, ((status, text),) = through(("note", {"text": "a"}), breaks=how)
    assert status == "interrupted"
    assert "not known" in text


def test_an_answer_above_the_limit_is_cut_off() -> None:
    _, ((status, text),) = through(("note", {"text": "a"}), breaks="big")
    assert status == "interrupted"  # blanks are no answer
    assert "its answer is above 33,554,432 bytes" in text


def test_a_call_that_times_out_is_cancelled_at_the_server() -> None:
    gate, ((status, text),) = through("nap", limits=Limits(tool_timeout_s=1.5))  # to get there
    assert status == "interrupted"
    assert "timed out" in text
    assert gate.calls == ["nap"]
    assert gate.cancelled.is_set()


def test_a_server_that_is_gone_is_unavailable_and_one_that_is_back_works() -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        gate = Gate()
        async with serving(gate) as port:
            server = MCPServer(f"http://127.0.0.1:{port}/mcp")
            session = await runtime.open(Agent("host", tools=[server]), session_id=NAME)
        await session.ask("go")
        ((status, text),) = await returned(log)
        assert status == "error"
        assert text.startswith("unavailable: ")
        assert "Connect" in text
        async with serving(Gate(), port):
            await asyncio.sleep(0.6)  # the delay after two failures
            await session.ask("again")
            assert (await returned(log))[1:] == [("ok", "B")]
            await runtime.aclose()

    played(scene, asking(("note", {"text": "a"}), None, ("note", {"text": "b"})))


def test_a_url_that_is_no_server_is_refused_at_open() -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]}
            )
            await send({"type": "http.response.body", "body": b"<html>hello</html>"})

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        async with serving(page) as port:
            with pytest.raises(InvalidAgent, match="text/html"):
                await runtime.open(Agent("host", tools=[MCPServer(f"http://127.0.0.1:{port}/mcp")]))
        with pytest.raises(InvalidAgent, match=r"Connect.*; start it, or correct it"):
            await runtime.open(Agent("host", tools=[MCPServer(f"http://127.0.0.1:{port}/mcp")]))

    played(scene, asking())


def test_a_list_that_is_no_list_is_named_and_not_the_status_of_another_request() -> None:
    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        status, kind, said = 405, b"application/json", b""
        if scope["method"] == "POST":
            asked = json.loads((await receive())["body"])
            status, result = 200, {"protocolVersion": "2025-06-18", "capabilities": {}}
            result["serverInfo"] = {"name": "proxy", "version": "1"}
            if asked["method"] == "tools/list":
                kind, said = b"text/event-stream", b"no route"
            elif "id" in asked:
                said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": said})

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        async with serving(proxy) as port:
            with pytest.raises(InvalidAgent, match=r'used: it answered with text/event-stream .*"no route"'):
                await runtime.open(Agent("host", tools=[MCPServer(f"http://127.0.0.1:{port}/mcp")]))

    played(scene, asking())


@pytest.mark.parametrize("status", [404, 501])
def test_a_url_that_refuses_is_named_with_its_status(status: int) -> None:
    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        async with serving(refusing) as port:
            with pytest.raises(InvalidAgent, match=f"it answered with HTTP status {status}: "):
                await runtime.open(Agent("host", tools=[MCPServer(f"http://127.0.0.1:{port}/mcp")]))

    played(scene, asking())


def test_a_failure_of_one_call_leaves_the_others_of_its_connection_alone() -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        gate = Gate()
        async with serving(gate) as port:
            server = MCPServer(f"http://127.0.0.1:{port}/mcp", share="runtime")
            host = Agent("host", tools=[server])
            slow, other = (
                await runtime.open(host, session_id="slow"),
                await runtime.open(host, session_id=NAME),
            )
            waiting = asyncio.create_task(slow.ask("nap"))
            await until(lambda: gate.calls == ["nap"])
            gate.breaks = "500"
            await other.ask("note")
            assert [status for status, _ in await returned(log)] == ["interrupted"]
            gate.wakes.set()
            assert (await waiting).text == "done"
            assert await returned(log, "slow") == [("ok", "awake")]
            await runtime.aclose()

    def policy(request: ModelRequest) -> Reply:
        prompt: Any = request.conversation[0]["content"]
        name = prompt if isinstance(prompt, str) else prompt[0]["text"]
        arguments = {"text": "a"} if name == "note" else {}
        return say("done") if len(request.conversation) > 1 else Reply(calls=[call(str(name), **arguments)])

    played(scene, ScriptedModel(policy))


def test_a_server_of_the_old_transport_answers_and_one_that_is_gone_is_opened_again() -> None:
    calls: list[str] = []
    server = SdkServer("old")

    @server.tool()
    async def note(text: str) -> str:
        """Note a text."""
        calls.append(text)
        return text.upper()

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        async with serving(server.sse_app()) as port:
            tools = MCPServer(f"http://127.0.0.1:{port}/sse", transport="sse", headers={"x-key": "a"})
            session = await runtime.open(Agent("host", tools=[tools]), session_id=NAME)
            await session.ask("go")
        async with serving(server.sse_app(), port):
            await session.ask("again")
        assert await returned(log) == [("ok", "A"), ("ok", "B")]
        await runtime.aclose()

    played(scene, asking(("note", {"text": "a"}), None, ("note", {"text": "b"})))
    assert calls == ["a", "b"]
