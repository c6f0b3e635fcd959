"""`Recording.against` on whole recordings: forks, races, programs, empty logs."""

import asyncio

import pytest

from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.changed.replaying import request_lines
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, Step, call, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from tests.replay.changed.sessions import now, record, recording_of
from tests.replay.changed.test_following import host, kid, policy


def test_a_fork_is_replayed_with_its_shared_prefix() -> None:
    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            await runtime.run(host(), "go", session_id="one")
            session = await runtime.fork("one", host(), fork_id="two", changes={("host.1", 1, 0): "other"})
            await session.outcome
        return log

    recording = Recording.open(MemoryReader(asyncio.run(main())), "two")
    found = recording.against()
    assert found.is_same
    assert [*(found.log or ())] == [*recording.events]
    changed = recording.against(now(host(kid(instructions="Look twice."))))
    assert [one.agent for one in changed.requests] == ["host.1", "host.2"]
    assert not changed.decisions


def test_a_race_of_nested_agents_is_replayed() -> None:
    middle = Agent("middle", agents=[kid()])
    top = Agent("host", agents=[middle])

    def races(request: ModelRequest) -> Step:
        profile, turn = request.profile, request.turn
        if profile == "host":
            return call("task", agent="middle", prompt="a", copies=2) if turn == 1 else say("done")
        if profile == "middle":
            return call("task", agent="kid", prompt="b") if turn == 1 else call("report_back", value="x")
        return say("7")

    recording = record(races, top)
    assert recording.against().is_same
    today = Agent("host", agents=[Agent("middle", agents=[kid(description="Other.")])])
    found = recording.against(now(today))
    assert {one.agent for one in found.requests} == {"host.1", "host.2"}
    assert not found.decisions


KID = kid()


@program(agents=[KID])
async def conductor(ctx: ProgramContext, prompt: str) -> str:
    return str(await ctx.delegate(KID, prompt))


def test_a_program_host_is_replayed_by_its_recorded_steps() -> None:
    recording = record(lambda request: say("7"), conductor)
    assert recording.against().is_same
    found = recording.against(now(host()))
    assert (found.decisions[0].actor, found.decisions[0].path) == ("supervisor", "Begin.profile")


def test_a_session_without_events_is_refused() -> None:
    with pytest.raises(UnknownName, match="events 1 to 0"):
        recording_of([]).against()


def test_each_value_is_a_line_with_its_path_and_texts_are_cut_at_their_lines() -> None:
    request = ModelRequest(
        address="host",
        profile="host",
        model=ModelSpec("m", 50),
        turn=1,
        attempt=1,
        system=Json(b'"You are.\\nBrief."'),
        tools=(Json(b'{"name":"t","input_schema":{"type":"object","properties":{}}}'),),
        history=IntMap[Json]().append(Json(b'{"role":"user","content":[{"type":"text","text":"go"}]}')),
    )
    assert request_lines(request) == [
        "model: m",
        "tools.t.name: t",
        "tools.t.input_schema.type: object",
        "tools.t.input_schema.properties: {}",
        "max_tokens: 50",
        "system: You are.",
        "system: Brief.",
        "messages[0].role: user",
        "messages[0].content[0].type: text",
        "messages[0].content[0].text: go",
        "force_tool: ",
    ]
