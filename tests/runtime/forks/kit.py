"""A survey that is recorded and forked: its agents, its recording, its forks, and their posts."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from callboard.actors.protocol.addresses import PORTS
from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.tools.tool import tool

CHILDREN = 12


class Counted:
    """A model that counts the calls it gets, by agent and turn."""

    def __init__(self, answer: Callable[[ModelRequest], Any]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._model = ScriptedModel(answer)
        self.spec = self._model.spec

    def call(self, request: ModelRequest, on_text: OnText) -> "ModelAnswer | Awaitable[ModelAnswer]":
        self.asked.append((request.address, request.turn))
        return self._model.call(request, on_text)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


def said(request: ModelRequest) -> str:
    """Return all that an agent was told, as JSON text."""
    return b"".join(bytes(one) for one in request.messages).decode()


@tool(effect="read")
async def measure(place: int) -> str:
    """Measure a place."""
    await asyncio.sleep(0.001 * (place % 3))
    return f"{place * 10} degrees"


SENT: list[str] = []


@tool(effect="write")
def send(text: str) -> str:
    """Send a text."""
    SENT.append(text)
    return "sent"


def survey(request: ModelRequest) -> Any:
    """Let the host ask twelve children, each of which measures a place twice, and send the sum."""
    if request.address != "host":
        place = int(request.address.rpartition(".")[2])
        found = ", ".join(re.findall(r"\d+ degrees", said(request)))
        return call("measure", place=place) if request.turn <= 2 else say(f"{place}: {found}")
    if request.turn == 1:
        return calls(*(call("task", agent="child", prompt=f"Place {at}.") for at in range(1, CHILDREN + 1)))
    return call("send", text="report") if request.turn == 2 else say("Sent: " + said(request))


def host_of(words: str = "Find out.") -> Agent:
    """Make the host of the survey, with a child that measures."""
    child = Agent("child", description="Measures.", instructions=words, tools=[measure])
    return Agent("host", instructions="Ask all.", agents=[child], tools=[send])


async def recorded(
    log: Any, answer: Callable[[ModelRequest], Any] = survey, host: Agent | None = None
) -> Outcome[Any]:
    """Record a session named origin."""
    async with Runtime(log, model=Counted(answer)) as runtime:
        return await runtime.run(host or host_of(), "How warm is it?", session_id="origin")


async def forked(
    log: Any, answer: Callable[[ModelRequest], Any] = survey, host: Agent | None = None, **wish: Any
) -> tuple[Outcome[Any], list[tuple[str, int]]]:
    """Fork it. Return the outcome of the fork's ask and the model calls that were made for it."""
    model = Counted(answer)
    async with Runtime(log, model=model) as runtime, asyncio.timeout(20):
        session = await runtime.fork(wish.pop("session_id", "origin"), host or host_of(), **wish)
        outcome = await session.outcome
        await session.close()
    return outcome, model.asked


def events_of(log: MemoryLog, session_id: str) -> list[Event]:
    """Return the events of a session that passes verification."""
    recording = Recording.open(MemoryReader(log), session_id)
    recording.verify().check()
    return list(recording.events)


def rows_of(log: MemoryLog, session_id: str) -> list[Any]:
    return MemoryReader(log).events(session_id, 1, 100_000)


def bodies(events: Sequence[Event], base: int) -> list[tuple[str, str, object]]:
    """Return the messages behind a base without `Forked`, with the seqs of a session that has none."""
    begin = next((one.seq for one in events[base:] if isinstance(one.body, Forked)), len(events) + 1)
    return [
        (one.sender, one.recipient, shifted(one.body, begin)) for one in events[base:] if one.seq != begin
    ]


def shifted(body: AnyMessage, begin: int) -> object:
    """Return a message as values, its seqs behind `begin` one lower."""
    value: dict[str, Any] = msgspec.json.decode(encode(body))
    for name in ("request", "by"):
        if name in value:
            value[name] -= value[name] > begin
    if "new" in value:
        value["new"] = [seq - (seq > begin) for seq in value["new"]]
    value.pop("reused", None)
    return value


def is_quiet(events: Sequence[Event], base: int) -> bool:
    """Return True if every message up to the base was decided on up to there, so that none comes first."""
    late = [one for one in events[base:] if one.sender not in (*PORTS, "client")]
    return not any(one.cause <= base for one in late)


def reporting(request: ModelRequest) -> Any:
    """Let the host send what its child measured."""
    if request.address != "host":
        return call("measure", place=1) if request.turn == 1 else say(said(request)[-40:])
    if request.turn == 1:
        return call("task", agent="child", prompt="Place 1.")
    return call("send", text=said(request)[-60:]) if request.turn == 2 else say("Done.")
