"""The cost of streaming sessions to browsers: CPU seconds of the server, through uvicorn over real sockets.

    python benchmarks/stream.py [--clients 100] [--asks 20] [--idle 1000] [--seconds 30]

The server is a process of its own, so its CPU time is that of streaming: first the work alone, without
readers, then the same work with clients that read all of it, then clients that hear nothing.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from asyncio.subprocess import Process
from typing import Final

from callboard import Agent, ModelRequest, Runtime, ScriptedModel, ToolContext, call, calls, say, tool
from callboard.log import MemoryLog
from callboard.runtime.models.scripted import Step

HOST: Final = "127.0.0.1"


def cpu_s() -> float:
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@tool(effect="read")
async def look(place: int) -> str:
    """Look at a place."""
    return f"nothing at {place}"


@tool(effect="read")
async def walk(steps: int, ctx: ToolContext) -> str:
    """Walk, and say so at each step: items that come one by one, each a write of its own."""
    for step in range(steps):
        ctx.progress(f"step {step}")
        await asyncio.sleep(0.02)
    return "there"


def policy(request: ModelRequest) -> Step:
    last = request.conversation[-1]
    if "tool_result" in str(last["content"])[:200]:
        return say("Nothing is there, at none of the places that I looked at.")
    if "walk" in str(last["content"]):
        return call("walk", steps=100)
    return calls(*(call("look", place=place) for place in range(8)), text="Let me look at all the places.")


async def serve(kind: str) -> None:
    """Serve the stream of a session. A line on stdin says how many asks to make; figures answer it."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async with Runtime(MemoryLog(), model=ScriptedModel(policy)) as runtime:
        session = await runtime.open(Agent("host", tools=[look, walk]))

        async def events(request: Request) -> StreamingResponse:
            return StreamingResponse(session.stream().sse(), media_type="text/event-stream")

        app = Starlette(routes=[Route("/events", events)])
        config = uvicorn.Config(
            app, host=HOST, port=0, log_level="error", backlog=4_096, http=kind, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  # uvicorn tells of its start by this flag only
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            prompt, asks, seconds = json.loads(line)
            events_before, before, begun = session.hub.board.seq, cpu_s(), time.perf_counter()
            for _ in range(asks):
                await session.ask(prompt)
                await asyncio.sleep(0.002)  # as if people typed, so that the sockets have their turn
            await asyncio.sleep(seconds)
            found = {
                "cpu_s": cpu_s() - before,
                "wall_s": time.perf_counter() - begun,
                "events": session.hub.board.seq - events_before,
                "readers": len(session.hub._readers),
            }
            print(json.dumps(found), flush=True)
        server.should_exit = True
        await serving


class Client:
    """A client that counts the events of the log that it is sent, and the items that came alone."""

    def __init__(self) -> None:
        self.events = 0
        self.alone = 0
        self.comments = 0
        self.is_cut = False

    async def run(self, port: int) -> None:
        """Read until this is cancelled."""
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            writer.write(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
            while line := await reader.readline():
                self.events += line == b"event: event\n"
                self.alone += line == b"event: progress\n"
                self.comments += line == b": keep-alive\n"
                self.is_cut |= line == b"event: cut\n"
        finally:
            writer.close()


async def ask(server: Process, prompt: str, asks: int, seconds: float) -> dict[str, float]:
    """Let the server make asks and be quiet for some seconds. Return its figures."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps([prompt, asks, seconds]).encode() + b"\n")
    found: dict[str, float] = json.loads(await server.stdout.readline())
    return found


async def measure(chosen: argparse.Namespace) -> None:
    """Start the server, measure, print."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", chosen.http, stdin=-1, stdout=-1, env=dict(os.environ)
    )
    assert server.stdin is not None
    assert server.stdout is not None
    port = int(await server.stdout.readline())
    await ask(server, "look", chosen.asks, 0.5)
    unwatched = [await ask(server, "look", chosen.asks, 1.0), await ask(server, "walk", 1, 1.0)]
    clients = [Client() for _ in range(chosen.clients)]
    running = [asyncio.create_task(one.run(port)) for one in clients]
    await asyncio.sleep(2)
    watched = [await ask(server, "look", chosen.asks, 1.0), await ask(server, "walk", 1, 1.0)]
    await asyncio.sleep(1)
    counts = sum(one.events for one in clients), sum(one.alone for one in clients)
    events = sum(found["events"] for found in watched)
    assert watched[0]["readers"] == chosen.clients
    assert counts == (events * chosen.clients, 100 * chosen.clients), counts
    assert not any(one.is_cut for one in clients)
    print(f"{chosen.http}, {chosen.clients} clients, CPU of the server for an item and client:")
    names = ("events as they are committed", "items that come alone")
    numbers = (watched[0]["events"] * chosen.clients, counts[1])
    for name, number, before, after in zip(names, numbers, unwatched, watched, strict=True):
        print(f"  {name}: {1e6 * (after['cpu_s'] - before['cpu_s']) / number:.1f} us")
    for one in running:
        one.cancel()
    await asyncio.sleep(1)
    idle = [Client() for _ in range(chosen.idle)]
    for one in idle:
        running.append(asyncio.create_task(one.run(port)))
        await asyncio.sleep(0.002)
    await asyncio.sleep(3)
    quiet = await ask(server, "", 0, chosen.seconds)
    assert quiet["readers"] == chosen.idle, quiet
    share = 100 * quiet["cpu_s"] / quiet["wall_s"]
    signs = sum(one.comments for one in idle)
    print(f"{chosen.idle} idle clients, {chosen.seconds:g} s, {signs} signs of life: {share:.2f} % of a core")
    for one in running:
        one.cancel()
    server.stdin.close()
    await server.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--asks", type=int, default=20)
    parser.add_argument("--idle", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--http", choices=["httptools", "h11"], default="httptools")
    parser.add_argument("--serve", default="")
    chosen = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 16_384), limit))
    asyncio.run(serve(chosen.serve) if chosen.serve else measure(chosen))


if __name__ == "__main__":
    main()
