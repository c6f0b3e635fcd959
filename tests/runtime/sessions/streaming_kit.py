"""A model that types its replies, a slow log, and a client that checks each item."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.sanitize import to_json
from callboard.runtime.sessions.snapshots import text_of_reply
from callboard.runtime.sessions.stream_items import (
    AnyStreamItem,
    Snapshot,
    StreamCut,
    StreamEvent,
    TextDelta,
    TextLost,
    TextReset,
    ToolProgress,
)

BUSY = ModelFailure("overloaded_error", "busy", is_retryable=True, retry_after_ms=0)


class Typed(NamedTuple):
    """A reply: its pieces, then calls of tools as (name, arguments), or a failure in place of both."""

    pieces: Sequence[str] = ()
    calls: Sequence[tuple[str, dict[str, object]]] = ()
    failure: ModelFailure | None = None


class TypingModel:
    """A model that types: after each piece it lets the loop pass, or waits for its gate."""

    spec = ModelSpec("typing", 1_000)

    def __init__(self, reply: Callable[[ModelRequest], Typed], gate: asyncio.Event | None = None) -> None:
        self.reply = reply
        self.gate = gate

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        pieces, calls, failure = self.reply(request)
        for piece in pieces:
            on_text(piece)
            await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()
        if failure is not None:
            return ModelAnswer(failure=failure)
        blocks: list[dict[str, object]] = [{"type": "text", "text": "".join(pieces)}] if pieces else []
        blocks += [
            {"type": "tool_use", "id": f"c{place}", "name": name, "input": arguments}
            for place, (name, arguments) in enumerate(calls)
        ]
        return ModelAnswer(to_json(blocks), "tool_use" if calls else "end_turn", Usage(1, 1, calls=1))

    async def aclose(self) -> None:
        """Nothing is held."""


class SlowLog(MemoryLog):
    """A log whose commits take some passes of the loop, each another number of them."""

    def __init__(self, passes: Sequence[int] = (5,)) -> None:
        super().__init__()
        self.passes = passes
        self.commits = 0

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        self.commits += 1
        for _ in range(self.passes[self.commits % len(self.passes)]):
            await asyncio.sleep(0)
        return await super().append(batch)


Name = tuple[str, int, int]


class Client:
    """A view that is fed by a stream, with checks of everything that the stream promises.

    last: the last id, with which it comes back. texts: of the replies under way. finished: of those that it
    saw from their start to their event.
    """

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self.first = last
        self.snapshot: Snapshot | None = None
        self.events: list[Event] = []
        self.texts: dict[Name, str] = {}
        self.finished: dict[Name, str] = {}
        self.shown: list[tuple[int, Name]] = []
        self.progress: list[str] = []
        self.resets: list[Name] = []
        self.is_cut = False
        self._reset: Name | None = None

    def connect(self) -> None:
        """Begin a connection: replies under way are sent from their start."""
        self.texts.clear()
        self.is_cut = False
        self._reset = None

    def take(self, item: AnyStreamItem) -> None:
        """Take the next item."""
        assert not self.is_cut, f"{item} came after the cut"
        match item:
            case Snapshot():
                assert self.last is None
                self.snapshot, self.first, self.last = item, item.seq, item.seq
            case StreamEvent(event=event):
                self._event(event)
            case TextDelta(address, turn, attempt, offset, text):
                name = (address, turn, attempt)
                assert text
                assert offset == len(self.texts.get(name, "")), f"{item} leaves a gap"
                assert self.last is not None
                self.shown.append((self.last, name))
                self.texts[name] = self.texts.get(name, "") + text
            case TextLost():
                raise AssertionError(f"{item} in the process that runs the session")
            case TextReset(address, turn, attempt):
                self._reset = (address, turn, attempt)
                self.resets.append(self._reset)
                self.texts.pop((address, turn, attempt), None)
            case ToolProgress():
                self.progress.append(item.text)
            case StreamCut():
                assert item.after == self.last
                self.is_cut = True

    def _event(self, event: Event) -> None:
        assert self.last is not None
        assert event.seq == self.last + 1, f"event {event.seq} came after {self.last}"
        self.last = event.seq
        self.events.append(event)
        body = event.body
        if isinstance(body, ModelReplied):
            name = (event.recipient, body.turn, body.attempt)
            assert self._reset == (None if body.status == "ok" else name), f"{event} and {self._reset}"
            self._reset = None
            if name in self.texts:
                self.finished[name] = self.texts.pop(name)
                assert self.finished[name] == text_of_reply(body.content)

    def check(self, events: Sequence[Event]) -> None:
        """Compare everything with the events of the log, once the session is over."""
        assert self.first is not None
        assert self.events == list(events[self.first :])
        spans: dict[Name, tuple[int, int]] = {}
        for event in events:
            if isinstance(event.body, ModelReplied):
                assert isinstance(events[event.cause - 1].body, CallModel)
                spans[event.recipient, event.body.turn, event.body.attempt] = (event.cause, event.seq)
        for last, name in self.shown:
            grant, reply = spans[name]
            assert grant <= last < reply, f"text of {name} came after event {last}"
        failed = [
            (event.recipient, event.body.turn, event.body.attempt)
            for event in self.events
            if isinstance(event.body, ModelReplied) and event.body.status != "ok"
        ]
        assert list(dict.fromkeys(self.resets)) == failed
