"""The items of one agent: sub-agents are silent unless a reader asks for them."""

import asyncio

import pytest

from callboard import Agent, Runtime, ToolContext, call, calls, say, tool
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Stop
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import MisuseError
from callboard.log import MemoryLog
from callboard.runtime.models.scripted import Call, Reply, ScriptedModel
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.stream_choice import StreamChoice, choice_of
from callboard.runtime.sessions.stream_items import (
    AnyStreamItem,
    Snapshot,
    StreamCut,
    StreamEvent,
    TextDelta,
    TextReset,
    ToolProgress,
)
from tests.runtime.sessions.streaming_kit import Typed, TypingModel


def event(sender: str, recipient: str, body: object) -> StreamEvent:
    return StreamEvent(Event(7, 0, sender, recipient, 1, body))  # type: ignore[arg-type]  # a message


ITEMS: dict[str, AnyStreamItem] = {
    "snapshot": Snapshot("s", 1),
    "cut": StreamCut(4),
    "prompt": event("client", "supervisor", Ask("r", Json(b'"go"'))),
    "stop": event("supervisor", "host.2", Stop("cancelled")),
    "grant": event("supervisor", "model", CallModel("host.2", 5)),
    "grant of the host": event("supervisor", "model", CallModel("host", 5)),
    "stop below": event("supervisor", "host.2.1", Stop("cancelled")),
    "text of the host": TextDelta("host", 1, 1, 0, "a"),
    "text": TextDelta("host.2", 1, 1, 0, "a"),
    "reset": TextReset("host.2", 1, 1),
    "progress": ToolProgress("host.2", 1, 0, "half"),
    "progress below": ToolProgress("host.2.1", 1, 0, "half"),
}
EVENTS = {"prompt", "stop", "grant", "grant of the host", "stop below"}


@pytest.mark.parametrize(
    ("of", "shown"),
    [
        (None, {*EVENTS, "text of the host"}),
        ("*", ITEMS.keys()),
        ("host.2", {"stop", "grant", "text", "reset", "progress"}),
        ("host", {"grant of the host", "text of the host"}),
        ("host.20", set()),
    ],
)
def test_a_choice_shows_the_items_of_its_agent(of: str | None, shown: set[str]) -> None:
    choice = choice_of(of)
    assert {name for name, item in ITEMS.items() if choice.shows(item)} == {*shown, "snapshot", "cut"}


@pytest.mark.parametrize("of", ["", "reader", "host.0", "host.", "tools", "host.1 ", 7])
def test_a_text_that_is_no_address_is_refused_at_once(of: object) -> None:
    with pytest.raises(MisuseError, match=r"the address of an agent, such as 'host\.2'"):
        choice_of(of)  # type: ignore[arg-type]  # what it refuses
    assert choice_of(None) == StreamChoice()


@tool(effect="read")
def look(ctx: ToolContext) -> str:
    """Look."""
    ctx.progress("half")
    return "seen"


def reply(request: ModelRequest) -> Typed:
    if request.address != "host":
        if request.turn == 1:
            return Typed([f"I look, {request.address}. "], [("look", {})])
        return Typed([f"Done, {request.address}. "])
    tasks: list[tuple[str, dict[str, object]]] = [("task", {"agent": "kid", "prompt": "go"})] * 2
    return Typed(["I delegate. "], tasks) if request.turn == 1 else Typed(["All done. "])


KID = Agent("kid", tools=[look])


async def read(session: Session, of: str | None, after: int | None = None) -> list[AnyStreamItem]:
    return [item async for item in session.stream(after, of=of)]


def streamed(*of: str | None) -> list[list[AnyStreamItem]]:
    """Run a host with two sub-agents. Return the items of each reader."""

    async def main() -> list[list[AnyStreamItem]]:
        async with Runtime(MemoryLog(), model=TypingModel(reply)) as runtime:
            session = await runtime.open(Agent("host", agents=[KID]), session_id="s")
            reading = [asyncio.create_task(read(session, one, 0)) for one in of]
            await asyncio.sleep(0)
            await session.ask("go")
            await session.close()
            return [await one for one in reading]

    return asyncio.run(main())


def live_of(items: list[AnyStreamItem]) -> set[tuple[str, str]]:
    return {(item.kind, item.address) for item in items if isinstance(item, TextDelta | ToolProgress)}


def test_sub_agents_are_silent_until_a_reader_subscribes_to_one() -> None:
    usual, second, every, never = streamed(None, "host.2", "*", "host.9")
    assert live_of(usual) == {("text", "host")}
    assert live_of(second) == {("text", "host.2"), ("progress", "host.2")}
    assert live_of(every) >= {("text", "host"), ("text", "host.1"), ("progress", "host.2")}
    assert never == []  # an agent that never begins

    durable = [item for item in usual if isinstance(item, StreamEvent)]
    assert durable == [item for item in every if isinstance(item, StreamEvent)]
    about = [item for item in durable if StreamChoice("host.2").shows(item)]
    assert [item for item in second if isinstance(item, StreamEvent)] == about
    assert {"Begin", "CallModel", "Finished"} <= {item.event.kind for item in about}
    said = "".join(item.text for item in second if isinstance(item, TextDelta))
    assert said == "I look, host.2. Done, host.2. "


def test_the_past_and_the_live_text_of_an_agent_are_chosen_by_their_reader_alone() -> None:
    async def main() -> None:
        async with Runtime(MemoryLog(), model=TypingModel(reply)) as runtime:
            session = await runtime.open(Agent("host", agents=[KID]))
            await session.ask("go")
            past = asyncio.create_task(read(session, "host.1", 0))
            texts = [asyncio.create_task(texts_of(session, of)) for of in (None, "host.4")]
            await asyncio.sleep(0)
            await session.ask("go again")
            await session.close()
            choice = StreamChoice("host.1")
            events = [item for item in await past if isinstance(item, StreamEvent)]
            assert events
            assert all(choice.shows(item) for item in events)
            host, later = [await one for one in texts]
            assert host == {"host"}
            assert later <= {"host.4"}

    asyncio.run(main())


async def texts_of(session: Session, of: str | None) -> set[str]:
    return {item.address async for item in session.text(of=of)}


def test_the_same_agent_is_a_sub_agent_and_an_ordinary_host() -> None:
    def policy(request: ModelRequest) -> Reply | Call:
        if request.profile == "kid":
            return call("look") if request.turn == 1 else say(f"Seen by {request.address}.")
        return call("task", agent="kid", prompt="go") if request.turn == 1 else say("The kid has looked.")

    async def main() -> None:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            below, direct = await asyncio.gather(
                runtime.run(Agent("host", agents=[KID]), "go"), runtime.run(KID, "go")
            )
        assert (below.text, below.delegations[0].kind) == ("The kid has looked.", "answered")
        assert direct.text == "Seen by host."
        assert direct.delegations == ()

    asyncio.run(main())


def test_an_agent_with_contracts_of_a_sub_agent_runs_directly_with_a_schema_and_without_its_context() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    kid = Agent("kid", output_schema=schema, context=lambda view: "of the parent")
    seen: list[ModelRequest] = []

    def policy(request: ModelRequest) -> Reply | Call:
        seen.append(request)
        return calls(call("report_back", n=1))

    outcome = Runtime(":memory:", model=ScriptedModel(policy)).run_sync(kid, "go")
    assert outcome.structured_output == {"n": 1}
    assert "of the parent" not in str(seen[0].conversation)
