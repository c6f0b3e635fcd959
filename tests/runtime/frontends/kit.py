"""Sessions for tests of front ends, and the clients that read them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from callboard import Agent, ModelRequest, Runtime, Session, ToolContext, tool
from callboard.actors.protocol.value_types import ModelFailure
from callboard.frontends import AGUI, FrontEnd, FrontEndRequest, UIMessages
from tests.runtime.sessions.streaming_kit import BUSY, Typed, TypingModel

Policy = Callable[[ModelRequest], Typed]


NO_SEQS = ("", "-3", " 5", "5.0", "\u00b2", "\u0663", "5" * 5_000)
"""Ids that are no seq. Two are digits elsewhere, and one has more of them than Python reads."""


def say(text: str) -> Typed:
    """Make a reply that is typed in two pieces."""
    return Typed([text[:2], text[2:]])


def call(name: str, /, **arguments: object) -> Typed:
    """Make a reply of one call."""
    return Typed((), [(name, arguments)])


def calls(*made: Typed, text: str = "") -> Typed:
    """Make a reply of several calls, after a text."""
    return Typed([text] if text else [], [one for reply in made for one in reply.calls])


def fail(after: str = "", failure: ModelFailure = BUSY) -> Typed:
    """Make an attempt that fails after it has typed a text."""
    return Typed([after] if after else [], failure=failure)


@tool(approval="before")
def pay(euros: int) -> str:
    """Pay an amount."""
    return f"paid {euros}"


@tool
def look(q: str) -> str:
    """Look something up."""
    return f"seen {q}"


@tool
def note(text: str, ctx: ToolContext) -> str:
    """Note a text in the shared state."""
    ctx.update_state("notes/all", text)
    return "noted"


def pays(request: ModelRequest) -> Typed:
    """The host delegates and pays; the reader calls a tool that is there, and one that is not."""
    if request.profile == "reader":
        reads = calls(call("look", q="x"), call("nope", a=1), text="reading")
        return reads if request.turn == 1 else say("I read it.")
    if request.turn > 1:
        return say("Done.")
    return calls(call("task", agent="reader", prompt="Read"), call("pay", euros=3), text="Let me.")


def host_of(policy: Policy, gate: asyncio.Event | None = None, **options: Any) -> Agent:
    reader = Agent("reader", tools=[look, pay])
    return Agent("host", agents=[reader], tools=[pay, note], model=TypingModel(policy, gate), **options)


def with_session(body: Callable[[Session], Awaitable[None]], policy: Policy = pays, **options: Any) -> None:
    """Run a test's body with an open session `t`. options: of its host, and `gate` of its model."""

    async def main() -> None:
        async with Runtime(":memory:") as runtime, asyncio.timeout(20):
            await body(await runtime.open(host_of(policy, **options), session_id="t"))

    asyncio.run(main())


async def answer(
    front_end: FrontEnd, session: Session, request: FrontEndRequest, seen: Callable[[bytes], object] = len
) -> list[dict[str, Any]]:
    """Return the events of an answer, without the signs of life. seen: called with each piece of it."""
    pieces = []
    async for piece in front_end.answer(session, request):
        pieces.append(piece)
        seen(piece)
    text = b"".join(pieces).decode()
    frames = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]
    return [json.loads(frame) for frame in frames if frame != "[DONE]"]


def opens(gate: asyncio.Event, word: bytes) -> Callable[[bytes], object]:
    """Return a reader that opens a gate once it has seen a word."""

    def seen(piece: bytes) -> None:
        if word in piece:
            gate.set()

    return seen


def agui_body(text: object = "Go", message: str = "m1", run: str = "r", **more: object) -> bytes:
    """Return the body of a run, as `HttpAgent` posts it."""
    messages = [] if text is None else [{"id": message, "role": "user", "content": text}]
    fields = {"threadId": "t", "runId": run, "messages": messages, "tools": [], "context": [], "state": {}}
    return json.dumps({**fields, "forwardedProps": {}, **more}).encode()


def resumed(seq: int, *, status: str = "resolved", **payload: object) -> bytes:
    """Return the body of a run that answers an interrupt."""
    entry = {"interruptId": str(seq), "status": status, "payload": {"approved": True, **payload}}
    return agui_body(run="r2", resume=[entry])


def chat_body(*parts: object, message: str = "m1", **more: object) -> bytes:
    """Return the body of a new message, as `DefaultChatTransport` posts it."""
    said = {"id": message, "role": "user", "parts": list(parts) or [{"type": "text", "text": "Go"}]}
    return json.dumps({"id": "t", "messages": [said], "trigger": "submit-message", **more}).encode()


async def ask(
    front_end: FrontEnd, session: Session, text: str = "Go", message: str = "m1"
) -> list[dict[str, Any]]:
    """Return the events of the answer to a prompt."""
    is_agui = isinstance(front_end, AGUI)
    body = agui_body(text, message) if is_agui else chat_body({"type": "text", "text": text}, message=message)
    return await answer(front_end, session, front_end.read(body))


def come_back(front_end: FrontEnd) -> FrontEndRequest:
    """Return the request of a client that comes back."""
    if isinstance(front_end, UIMessages):
        return front_end.back("t")
    return front_end.read(agui_body(None))
