"""A program that writes its own requests: live, verified, shown, resumed, bound by its budget."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.recovery import recover
from callboard.replay.recording import Recording
from callboard.runtime.models.scripted import ScriptedModel, call, calls
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

TURNS = 50
MANY = Limits(max_iterations=99)
ADD = {"name": "add", "description": "Add.", "input_schema": {"type": "object"}}


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@program(tools=[add])
async def brain(ctx: ProgramContext, prompt: str) -> str:
    """Think in turns."""
    said: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    while True:
        reply = await ctx.ask_model(messages=said, tools=[ADD], system="Be terse.", max_tokens=500)
        said.append(reply.message)
        if not reply.calls:
            return f"{reply.text} {reply.stop_reason} {reply.usage.calls}"
        sums = [(one["id"], await ctx.call(add, **one["input"])) for one in reply.calls]
        results = [{"type": "tool_result", "tool_use_id": id, "content": str(found)} for id, found in sums]
        said.append({"role": "user", "content": results})


def thinking(chars: int, turns: int = TURNS) -> ScriptedModel:
    """Return a model that thinks aloud at this length in each turn."""

    def policy(request: ModelRequest) -> Any:
        turn = sum(said["role"] == "assistant" for said in request.conversation)
        if turn >= turns:
            return f"done at {request.model.max_tokens}"
        return calls(call("add", a=turn, b=1), text=(f"{turn:04} " * chars)[:chars])

    return ScriptedModel(policy)


async def recorded(path: Path, chars: int, limits: Limits = MANY) -> Any:
    async with Runtime(path, model=thinking(chars), limits=limits, durability="process") as runtime:
        return await runtime.run(brain, "go", session_id="s")


def test_fifty_turns_take_the_room_of_their_text_and_verify(tmp_path: Path) -> None:
    short, long = tmp_path / "short.db", tmp_path / "long.db"
    outcome = asyncio.run(recorded(short, 1))
    assert (outcome.text, outcome.usage.calls) == ("done at 500 end_turn 1", TURNS + 1)
    asyncio.run(recorded(long, 2_000))
    sizes = [sum(one.stat().st_size for one in tmp_path.glob(f"{path.name}*")) for path in (short, long)]
    assert sizes[1] - sizes[0] < 1.5 * TURNS * 2_000
    with Recording.open(long, "s") as recording:
        assert recording.verify().is_ok
        last = [event for event in recording.events if event.kind == "CallModel"][-1]
        request = recording.request(last.seq)
        assert (request.length, len(request.tools)) == (2 * TURNS + 1, 1)
        assert "cut_answer" not in {finding.kind for finding in recording.diagnose()}
        begun = [event.body.description for event in recording.events if isinstance(event.body, Begin)]
        assert begun[1:3] == ["a request of 1 message", "a request of 3 messages"]


def test_a_question_with_one_tool_call_costs_twelve_events(tmp_path: Path) -> None:
    asyncio.run(recorded(tmp_path / "log.db", 1))
    with Recording.open(tmp_path / "log.db", "s") as recording:
        kinds = [event.kind for event in recording.events]
    asked = [place for place, kind in enumerate(kinds) if kind == "Delegate"]
    step = ["RunStep", "ModelReplied"]
    turn = ["Begin", "CallModel", "ModelReplied", "Finished"]
    tool_call = ["CallTool", "ToolReturned"]
    assert kinds[asked[0] : asked[1]] == ["Delegate", *turn, "DelegationEnded", *step, *tool_call, *step]
    assert {after - before for before, after in pairwise(asked)} == {12}


AGAIN: tuple[tuple[str, str, str], ...] = (
    ("Delegate", "", "CallModel"),
    ("Begin", "", "CallModel"),
    ("CallModel", "lost", "CallModel"),
    ("ModelReplied", "", "RunStep"),
    ("Finished", "", "RunStep"),
    ("DelegationEnded", "", "RunStep"),
    ("RunStep", "lost", "RunStep"),
    ("ModelReplied", "", "CallTool"),
    ("CallTool", "", "CallTool"),
    ("ToolReturned", "", "RunStep"),
    ("RunStep", "lost", "RunStep"),
    ("ModelReplied", "", "CallModel"),
)
"""The events of a question and its tool call: kind, answer that a crash behind it leaves, next request."""


def test_a_crash_behind_any_event_of_a_question_loses_no_answer_and_repeats_only_an_open_request(
    tmp_path: Path,
) -> None:
    asyncio.run(recorded(tmp_path / "log.db", 1))
    with Recording.open(tmp_path / "log.db", "s") as recording:
        events = tuple(recording.events)
    first, after = [place for place, event in enumerate(events) if event.kind == "Delegate"][:2]
    assert tuple(after_crash(events[: place + 1]) for place in range(first, after)) == AGAIN


def after_crash(events: tuple[Event, ...]) -> tuple[str, str, str]:
    """Return the kind of the last event, the status of the answer to its request, and the next request."""
    found = recover(events, Resumed(2), events[-1].at)
    replies = [event.body.status for event in found.posted if isinstance(event.body, ModelReplied)]
    (start,) = found.starts
    return events[-1].kind, "".join(replies), start.request.kind


def test_the_tokens_that_a_request_states_are_reserved(tmp_path: Path) -> None:
    outcome = asyncio.run(recorded(tmp_path / "log.db", 1, Limits(tokens=1_400, max_iterations=99)))
    assert "(budget)" in outcome.detail
    assert outcome.usage.calls == 0
