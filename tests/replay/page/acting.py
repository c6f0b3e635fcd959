"""A page that acts, served by a thread of this process: hostile sessions, one of which waits for a person."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from callboard import Agent, ModelRequest, Runtime, ScriptedModel, Tool, ToolContext, call, calls, say, tool
from callboard.actors.protocol.value_types import InputAsked
from callboard.cli.page_acts import Acts, Owned
from callboard.cli.page_guard import Guard
from callboard.cli.page_server import PageServer, listening, serve
from callboard.cli.page_views import PageViews
from callboard.cli.recordings import keyed_log
from callboard.runtime.log.reading import open_reader
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.input_forms import InputNeeded, checked_forms

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'
HOSTILE_ID = f'"><img src=x onerror=alert(3)>&log=7#1?{HOSTILE}'[:120]
ACCOUNT = 2**53 + 1  # a browser that parses it into a number shows another one
TOKEN, ACT_TOKEN = "token-of-the-address", "token-of-the-acts"
_FIELDS = {
    HOSTILE: {"type": "string", "title": HOSTILE, "description": HOSTILE},
    "seats": {"type": "integer"},
    "class": {"enum": [HOSTILE, "second"]},
    "pin": {"writeOnly": True},
}


@tool(effect="write", approval="before")
def pay(to: str, account: int = 0) -> str:
    """Pay."""
    return f"paid {to} from {account}"


async def _book(arguments: dict[str, Any], ctx: ToolContext) -> str:
    if ctx.given is None:
        schema = {"type": "object", "properties": _FIELDS, "required": ["seats"]}
        visit = {"message": HOSTILE, "url": f"https://pay.example/{HOSTILE}"}
        raise InputNeeded(
            "it asks",
            InputAsked(checked_forms({HOSTILE: {"message": HOSTILE, "schema": schema}, "visit": visit})),
        )
    return f"booked {bytes(ctx.given.values).decode()}"


@tool(effect="read")
def measure(place: int) -> str:
    """Measure."""
    return f"{place * 10} degrees {HOSTILE}"


def policy(request: ModelRequest) -> Step:
    told = str(request.conversation)
    if request.address != "host":
        return call("measure", place=1) if request.turn == 1 else say("hot" if "99" in told else HOSTILE)
    if request.turn == 1 and "warm" in told:
        return calls(*(call("task", agent="child", prompt=HOSTILE) for _ in (1, 2)))
    if request.turn == 1:
        return call("book") if "Book" in told else call("pay", to=HOSTILE, account=ACCOUNT)
    return say("all hot" if "hot" in told else HOSTILE)


_CHILD = Agent("child", description=HOSTILE, instructions=HOSTILE, tools=[measure])
_TOOLS = [pay, Tool("book", "Books.", {"type": "object"}, _book)]
HOST = Agent("host", instructions=HOSTILE, agents=[_CHILD], tools=_TOOLS)


class Acting:
    """The served page. address: of the list of sessions."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._runtime = Runtime(log, model=ScriptedModel(policy))
        self._asks: set[asyncio.Task[object]] = set()
        self.address = ""
        self.server: PageServer

    def run(self, ready: threading.Event) -> None:
        """Serve until `stop`."""
        self._loop.run_until_complete(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        async with self._runtime as runtime:
            async with runtime.open(
                HOST, session_id=HOSTILE_ID, tags=[HOSTILE], metadata={"x": HOSTILE}
            ) as session:
                await session.ask(f"How warm is it? {HOSTILE}")
            with listening(0) as (held, port):
                self.address = f"http://127.0.0.1:{port}/{TOKEN}/"
                logs = [str(self._log), str(self._log)]
                openers = [partial(open_reader, log) for log in logs]
                words = {"token": ACT_TOKEN, "by": HOSTILE, "has_list": True}
                views = PageViews([HOSTILE, "other"], openers, None, words)
                acts = Acts(logs, keyed_log, Owned(runtime, HOST))
                self.server = PageServer(Guard(port, TOKEN, ACT_TOKEN), views, acts)
                task = asyncio.ensure_future(serve(self.server, held))
                ready.set()
                await self._stop.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await asyncio.gather(*self._asks, return_exceptions=True)  # they were detached

    def ask(self, prompt: str, session_id: str) -> None:
        """Begin a session with a prompt, and wait until a call of it waits for a person."""

        async def begin() -> None:
            session: Session[Any, Any] = await self._runtime.open(HOST, session_id=session_id)
            self._asks.add(asyncio.ensure_future(session.ask(prompt)))
            await anext(session.approvals())

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result(30)

    def fork(self, session_id: str, at: int = 2) -> None:
        """Begin a fork of a session behind an event, and let it be."""

        async def begin() -> None:
            session = await self._runtime.fork(session_id, HOST, at=at)
            await session.detach()

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result(30)

    def stop(self) -> None:
        """End the server and the runtime."""
        self._loop.call_soon_threadsafe(self._stop.set)


@contextlib.contextmanager
def acting(log: Path) -> Iterator[Acting]:
    """Serve a page that acts."""
    found, ready = Acting(log), threading.Event()
    thread = threading.Thread(target=found.run, args=(ready,), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield found
    finally:
        found.stop()
        thread.join(30)
