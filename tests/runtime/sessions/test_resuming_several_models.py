"""A session that goes on with another model, over a crash and over resumes."""

import asyncio
import json
from typing import Any

import pytest

from callboard import Agent, Outcome, Reply, Runtime, ScriptedModel, tool
from callboard.actors.protocol.conversation import is_by
from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.port_messages import CallModel, ModelReplied, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import messages_for
from callboard.log import MemoryLog
from callboard.replay.testing.rules.requests import check_requests
from callboard.runtime.models.anthropic.model import AnthropicModel
from callboard.runtime.models.protocol import Model
from tests.messages_api import MessagesApi, message, sse_answer
from tests.messages_api import text as answered
from tests.runtime.sessions.test_resuming import NAME, log_of, recorded, recording
from tests.several_models import FILE, decoded, result, text, use

PART = {"id": "rs_1", "encrypted_content": "AAAA"}
THOUGHT: dict[str, object] = {"type": "thinking", "thinking": "hm", "part": PART}
LOOKS: list[dict[str, object]] = [THOUGHT, use("fc:1", "look", part=PART), text("I look.", part=PART)]


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


def host(model: Model | None = None, *, lossy: bool = False) -> Agent:
    return Agent("host", tools=[look], model=model, lossy=lossy)


def layered(request: ModelRequest) -> Reply:
    """Answer as a model whose adapter keeps its own parts."""
    last = json.dumps(request.conversation[-1])
    if "tool_result" in last or "three" in last:
        return Reply(content=[text("Seen.", part=PART)])
    return Reply(content=LOOKS)


async def asks(log: MemoryLog, model: Model, prompt: str, *, lossy: bool = False) -> Outcome:
    """Resume with a model, ask, and leave."""
    async with Runtime(log, model=model) as runtime:
        session = await runtime.resume(NAME, host(lossy=lossy), accept_changes=True)
        if not prompt:
            return await session.outcome
        return await session.ask(prompt)


async def prefix(model: ScriptedModel) -> list[Event]:
    """Record the session with one model, and cut it as a crash does, before the result of its tool."""
    events = await recorded(host(), model)
    return events[: next(event.seq for event in events if isinstance(event.body, ToolReturned)) - 1]


def test_a_session_goes_on_with_another_model_and_back() -> None:
    scripted = ScriptedModel(layered, name="a")
    thought = {"type": "thinking", "thinking": "so", "signature": "s"}
    with MessagesApi([sse_answer(message(thought, answered("Two.")))]) as api:
        claude = AnthropicModel("claude-sonnet-4-5", base_url=api.url, api_key="key", cache=False)

        asked: list[tuple[Model, str]] = [(scripted, ""), (claude, "two"), (scripted, "three")]

        async def main() -> tuple[MemoryLog, list[str]]:
            log = await log_of(await prefix(scripted))
            told = [await asks(log, model, say) for model, say in asked]
            return log, [one.text for one in told]

        log, told = asyncio.run(main())
        (seen,) = api.seen
    assert told == ["Seen.", "Two.", "Seen."]
    said: Any = seen.body["messages"]
    call_id = said[1]["content"][0]["id"]
    assert [one["content"] for one in said] == [
        "go",
        [use(call_id, "look"), text("I look.")],
        [result(call_id, "seen")],
        [text("Seen.")],
        "two",
    ]
    found = recording(log)
    found.verify().check()
    assert check_requests(found.events) == []
    assert [one.body.breaks_cache for one in found.events if isinstance(one.body, TurnRequested)] == [
        False, False, True, True,
    ]  # fmt: skip
    last = found.request([one.seq for one in found.events if isinstance(one.body, CallModel)][-1])
    claude_at = Origin("anthropic", endpoint=api.url, model="claude-sonnet-4-5")
    find = maker_of(last.origins)
    makers = [find(at) for at, one in enumerate(last.messages) if is_by("assistant", one)]
    assert makers == [named("a"), named("a"), claude_at]
    back = messages_for(last)
    assert [one is mine for one, mine in zip(back, last.messages, strict=True)] == [True] * 5 + [False, True]
    assert decoded(back)[5]["content"] == [text("Two.")]
    assert [one["origin"]["model"] for one in json.loads(bytes(last.body()))["origins"]] == [
        "a",
        claude_at.model,
    ]


def test_a_block_that_the_other_service_cannot_take_ends_the_ask_or_gets_a_text_in_its_place() -> None:
    scripted = ScriptedModel([Reply(content=[text("Drawn."), FILE])], name="a")
    with MessagesApi([sse_answer(message(answered("Two.")))]) as api:
        claude = AnthropicModel("claude-sonnet-4-5", base_url=api.url, api_key="key", cache=False)

        async def main() -> tuple[MemoryLog, Outcome, Outcome]:
            events = await recorded(host(), scripted)
            log = await log_of(events[: next(one.seq for one in events if one.kind == "AskEnded")])
            refused = await asks(log, claude, "two")
            return log, refused, await asks(log, claude, "two", lossy=True)

        log, refused, outcome = asyncio.run(main())
        (seen,) = api.seen
    assert (refused.kind, outcome.text) == ("model_error", "Two.")
    said: Any = seen.body["messages"]
    assert said[1]["content"] == [
        text("Drawn."),
    ]
    assert "Left out" in json.dumps(said[2])
    found = recording(log)
    found.verify().check()
    (failed,) = [one for one in found.events if isinstance(one.body, ModelReplied) and one.body.failure]
    assert isinstance(failed.body, ModelReplied)
    assert failed.body.failure is not None
    assert (
        f"message 2, block 2 (image with source file) of request {failed.cause}"
        in failed.body.failure.message
    )
    assert refused.detail.startswith("unsayable: message 2, block 2")


def test_a_rule_for_such_blocks_that_is_no_flag_is_refused() -> None:
    wrong: Any = "yes"
    with pytest.raises(InvalidAgent, match="lossy"):
        host(lossy=wrong)
