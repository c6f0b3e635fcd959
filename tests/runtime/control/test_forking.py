"""A fork on command: it runs in the owner of the log, with that process's agents, under a stated limit."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, ModelRequest, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.client_messages import AskEnded, Forked
from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.actors.protocol.events import Event
from callboard.runtime.control.server import carry_out
from callboard.runtime.control.wire import ForkSession, StartedFork
from callboard.runtime.models.scripted import Step


@tool(effect="read")
def measure() -> str:
    """Measure."""
    return "20 degrees"


def policy(request: ModelRequest) -> Step:
    told = str(request.conversation)
    if request.turn == 1 and "no tool" not in str(request.system):
        return call("measure")
    return say("It is hot." if "99" in told else "It is mild.")


HOST = Agent("host", instructions="Measure.", tools=[measure])


def beside(log: Path, talk: Callable[[Runtime, list[Event]], Awaitable[None]]) -> None:
    """Record a session, close it, and talk with the runtime that owns its log."""

    async def scene() -> None:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            async with runtime.open(HOST, session_id="one") as session:
                await session.ask("How warm?")
            await talk(runtime, [event async for event in session.events()])

    asyncio.run(scene())


async def forked(runtime: Runtime, **fields: Any) -> list[Event]:
    """Fork the session, wait for its end, and return its events."""
    fields.setdefault("limits", {"tokens": 100_000.0})
    started = await carry_out(runtime, ForkSession("one", **fields))
    assert isinstance(started, StartedFork)
    session = runtime.running(started.session)
    await session.outcome
    return [event async for event in session.events()]


def result_seq(events: list[Event]) -> int:
    return next(event.seq for event in events if event.kind == "ToolReturned")


def text_of(events: list[Event]) -> str:
    return next(event.body.text for event in reversed(events) if isinstance(event.body, AskEnded))


def test_a_fork_runs_with_the_agents_of_the_owner_and_asks_a_person_about_effects(tmp_path: Path) -> None:
    async def talk(runtime: Runtime, events: list[Event]) -> None:
        seq = result_seq(events)
        found = await forked(runtime, changes={str(seq): "99 degrees"}, seen=len(events), fork_id="two")
        assert text_of(found) == "It is hot."
        mark = next(event.body for event in found if isinstance(event.body, Forked))
        assert (mark.origin, mark.at, mark.effects) == ("one", seq - 1, "ask")
        other = await forked(runtime, instructions={"host": "Use no tool."})
        assert [event.kind for event in other].count("ToolReturned") == 0

    beside(tmp_path / "a.db", talk)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"limits": {}}, "needs a limit that bounds its cost"),
        ({"limits": {"deadline_s": 5.0}}, "needs a limit that bounds its cost"),
        ({"limits": {"tokens": 1.5}}, "whole number"),
        ({"limits": {"token": 5.0}}, "there is no limit 'token'"),
        ({"changes": {"x": "y"}}, "name the recorded answer by its seq"),
        ({"changes": {"999999": "y"}}, "there is no 999999"),
        ({"instructions": {"nobody": "y"}}, "no agent 'nobody'"),
        ({"at": 4, "seen": 3, "changes": {}}, "does not show yet"),
    ],
)
def test_a_fork_that_cannot_be_made_is_refused_in_words(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    async def talk(runtime: Runtime, events: list[Event]) -> None:
        changes = {str(result_seq(events)): "99"}
        with pytest.raises(CallboardError, match=said):
            await forked(runtime, **{"changes": changes, **fields})

    beside(tmp_path / "a.db", talk)


def test_an_owner_without_the_agents_refuses_in_words(tmp_path: Path) -> None:
    async def talk(runtime: Runtime, events: list[Event]) -> None:
        pass

    beside(tmp_path / "a.db", talk)

    async def scene() -> None:
        async with Runtime(tmp_path / "a.db", model=ScriptedModel(policy)) as runtime:
            with pytest.raises(MisuseError, match=r"has no agent 'host'.*ui --act --with"):
                await forked(runtime)

    asyncio.run(scene())
