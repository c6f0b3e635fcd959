"""The shared state of live sessions: given to tools, kept over resumes, shown, and checked by verify."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from callboard import Agent, Runtime, ScriptedModel, SharedKey, ToolContext, call, calls, say, tool
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.shared_state import StateUpdate
from callboard.errors import AgentsChanged
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.replay.verify import Verifier
from callboard.runtime.models.scripted import Call, Reply

KEYS = {"notes": SharedKey("append"), "count": SharedKey("add"), "stage": "start"}


@tool(effect="read")
async def note(text: str, ctx: ToolContext) -> str:
    """Note a text."""
    ctx.update_state("notes", text)
    ctx.update_state("count", 1)
    return f"before: {ctx.state['notes']}"


@tool
def fail(ctx: ToolContext) -> str:
    """Update, then fail."""
    ctx.update_state("count", 100)
    raise ValueError("no")


@tool
def wrong(ctx: ToolContext) -> str:
    """Update with a wrong type."""
    ctx.update_state("count", "one")
    return "not reached"


def noting(request: ModelRequest) -> Reply | Call:
    if request.turn == 1:
        return calls(call("note", text="a"), call("note", text="b"), call("fail"), call("wrong"))
    if request.turn == 2:
        return call("note", text="c")
    return say("done")


def recorded(path: Path) -> list[Event]:
    with Recording.open(path) as recording:
        assert recording.verify().is_ok
        return list(recording.events)


def test_tools_read_the_state_as_of_their_call_and_their_updates_count_when_they_return(
    tmp_path: Path,
) -> None:
    async def inside() -> None:
        path = tmp_path / "log.db"
        host = Agent("host", tools=[note, fail, wrong], state=KEYS)
        async with Runtime(path, model=ScriptedModel(noting)) as runtime, runtime.open(host) as session:
            assert session.state == {"notes": [], "count": 0, "stage": "start"}
            await session.ask("go")
            assert session.state == {"notes": ["a", "b", "c"], "count": 3, "stage": "start"}
        returned = [event.body for event in recorded(path) if isinstance(event.body, ToolReturned)]
        by_call = {(one.turn, one.call): one for one in returned}
        assert bytes(by_call[1, 1].output) == b'"before: []"'  # the call before it had not returned
        assert bytes(by_call[2, 0].output) == b"\"before: ['a', 'b']\""
        assert by_call[2, 0].state_read == ("notes",)
        assert (by_call[1, 2].status, by_call[1, 2].state_update) == ("error", ())
        assert b"InvalidState" in bytes(by_call[1, 3].output)
        with Recording.open(path) as recording:
            shared = recording.shared_state()
            assert shared.values()["count"] == 3
            assert shared.cells["notes"].by == "host"
            assert recording.shared_state(1).values()["count"] == 0

    asyncio.run(inside())


def test_state_outlives_agents_and_processes_and_a_resume_may_declare_more(tmp_path: Path) -> None:
    async def inside() -> None:
        path = tmp_path / "log.db"

        def policy(request: ModelRequest) -> Reply | Call:
            if request.address == "host":
                return call("task", agent="kid", prompt="go") if request.length == 1 else say("done")
            return call("note", text="from below") if request.turn == 1 else say("noted")

        def host(**more: object) -> Agent:
            kid = Agent("kid", tools=[note], state=KEYS)
            return Agent("host", agents=[kid], state=more)

        async with Runtime(path, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(host(), session_id="one")
            await session.ask("go")
        async with Runtime(path, model=ScriptedModel(policy)) as runtime:
            resumed = await runtime.resume("one", host(later=SharedKey("add", 5)))
            assert resumed.state == {"notes": ["from below"], "count": 1, "stage": "start", "later": 5}
        async with Runtime(path, model=ScriptedModel(policy)) as runtime:
            again = await runtime.resume("one", host(later=SharedKey("add", 7)))
            assert again.state["later"] == 5
        assert recorded(path)
        async with Runtime(path, model=ScriptedModel(policy)) as runtime:
            with pytest.raises(AgentsChanged, match="state key later: its reducer was add, is append"):
                await runtime.resume("one", host(later=SharedKey("append")))

    asyncio.run(inside())


def test_a_call_that_runs_again_after_a_crash_is_given_the_same_state() -> None:
    async def inside() -> None:
        log, seen, hang = MemoryLog(), [], asyncio.Event()

        @tool(effect="read")
        async def slow(ctx: ToolContext) -> str:
            """Look at the state, and wait."""
            seen.append(ctx.state["count"])
            if len(seen) == 1:
                hang.set()
                await asyncio.Event().wait()
            return "seen"

        def policy(request: ModelRequest) -> Reply | Call:
            if request.turn == 1:
                return call("note", text="a")
            if request.turn == 2:
                return calls(call("slow"), call("note", text="b"))
            return say("done")

        host = Agent("host", tools=[note, slow], state=KEYS)
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(host, session_id="one")
            await session.submit("go")
            await hang.wait()
            async for event in session.events():  # until the second note has returned
                if isinstance(event.body, ToolReturned) and event.body.turn == 2:
                    break
            await session.detach(grace_s=0)
            again = await runtime.resume("one", host)
            await again.outcome
            assert again.state["count"] == 2
        assert seen == [1, 1]

    asyncio.run(inside())


def test_a_sleeping_session_still_shows_its_state() -> None:
    async def inside() -> None:
        host = Agent("host", tools=[note, fail, wrong], state=KEYS)
        async with Runtime(":memory:", model=ScriptedModel(noting), idle_s=0.01) as runtime:
            session = await runtime.open(host)
            await session.ask("go")
            while not session._is_asleep:  # noqa: ASYNC110  # nothing tells of sleep
                await asyncio.sleep(0.005)
            assert session.state["count"] == 3

    asyncio.run(inside())


def test_verify_refuses_an_update_that_no_tools_port_would_post(tmp_path: Path) -> None:
    async def inside() -> None:
        path = tmp_path / "log.db"
        host = Agent("host", tools=[note, fail, wrong], state=KEYS)
        async with Runtime(path, model=ScriptedModel(noting)) as runtime:
            await runtime.run(host, "go")
        events = recorded(path)
        at = next(place for place, event in enumerate(events) if isinstance(event.body, ToolReturned))
        for key, value in (("count", b'"1"'), ("gone", b"1")):
            bad = replace(events[at].body, state_update=(StateUpdate(key, Json(value)),))
            found = Verifier([*events[:at], replace(events[at], body=bad), *events[at + 1 :]]).run()
            assert found is not None
            assert "keys that the session declares" in "\n".join(found.lines())

    asyncio.run(inside())
