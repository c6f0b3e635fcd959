"""What the views say of programs that keep a conversation with a model, as agents of other frameworks do."""

from typing import Any

import pytest

from callboard.actors.agent.program_step import is_step
from callboard.actors.protocol.errors import CallFailed, NotApproved
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

LOOK: Any = {"name": "look", "input_schema": {"type": "object"}}


@tool(effect="read")
def look(at: str) -> str:
    """Look."""
    if at == "the cellar":
        raise OSError("it is dark")
    return f"{at} costs 4821 euros"


@tool(effect="read", approval="before")
def enter(at: str) -> str:
    """Enter."""
    return f"in {at}"


@program(tools=[look, enter], name="brain", limits=Limits(max_iterations=6))
async def brain(ctx: ProgramContext, prompt: str) -> str:
    """Do what the model wants, and tell it what came of it."""
    said: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": f"{prompt} At most 7350 euros."}]}
    ]
    while True:
        reply = await ctx.ask_model(messages=said, system="Be exact.", tools=[LOOK])
        if not reply.calls:
            return reply.text
        results = []
        for one in reply.calls:
            try:
                text, is_error = str(await ctx.call(one["name"], **one["input"])), False
            except (CallFailed, NotApproved) as error:
                text, is_error = error.text, True
            results.append(
                {"type": "tool_result", "tool_use_id": one["id"], "content": text, "is_error": is_error}
            )
        said = [*said, reply.message, {"role": "user", "content": results}]


def session(*replies: Any) -> Recording:
    """Record a host whose brain gets these replies, and then ends well."""
    left = list(replies)

    def answers(request: ModelRequest) -> Any:
        if request.profile == "host":
            return say("Done.") if request.turn > 1 else call("task", agent="brain", prompt="Find the price.")
        return left.pop(0)

    log, host = MemoryLog(), Agent("host", agents=[brain])
    Runtime(log, model=ScriptedModel(answers), approve=lambda _: False).run_sync(
        host, "Go.", session_id="one"
    )
    return Recording.open(MemoryReader(log), "one")


def source(recording: Recording, value: str) -> Any:
    """Return the event that a value in the brain's answer is from."""
    answer = next(
        event.seq
        for event in recording.events
        if isinstance(event.body, ModelReplied) and event.recipient == "host.1" and value in str(event.body)
        if event.seq > 20
    )
    return recording.why(answer, value).source[-1]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_value_of_a_tool_is_its_own_however_long_ago_the_model_read_it(turns: int) -> None:
    more = [call("look", at="the cellar") for _ in range(turns - 1)]
    found = source(session(call("look", at="home"), *more, say("It is 4821.")), "4821")
    assert isinstance(found.body, ToolReturned)


def test_a_value_that_the_program_wrote_is_its_own_and_one_of_no_request_is_the_models() -> None:
    replies = (call("look", at="home"), call("look", at="work"), say("Of 7350 there are 2529 left."))
    of_program, of_model = (source(session(*replies), value) for value in ("7350", "2529"))
    assert (of_program.recipient, is_step(of_program.body.content)) == ("host.1", True)
    assert (of_model.recipient, is_step(of_model.body.content)) == ("host.1.3", False)


@pytest.mark.parametrize(
    ("wish", "news"),
    [
        (call("look", at="the cellar"), "look had given it an error"),
        (call("enter", at="the cellar"), "its call of enter had been denied"),
    ],
)
def test_bad_news_that_only_the_model_of_a_program_read_is_untold(wish: Any, news: str) -> None:
    untold = [one for one in session(wish, say("It is 5.")).diagnose() if one.kind == "untold_error"]
    assert [news in one.says for one in untold] == [True]
    told = session(wish, say("It could not be found, sorry.")).diagnose()
    assert [one for one in told if one.kind == "untold_error"] == []
    good = session(wish, call("look", at="home"), say("It is 4821.")).diagnose()
    assert [one for one in good if one.kind == "untold_error"] == []


def test_a_question_without_room_ends_its_program_and_is_not_done_without() -> None:
    recording = session(*(call("look", at=f"place {n}") for n in range(6)))
    [refused] = [one for one in recording.diagnose() if one.kind == "refused_call"]
    assert (
        "called ask_model, which did not run, and ended as iteration_cap: No question is left" in refused.says
    )
