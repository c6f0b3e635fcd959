"""The view of a context function prints as text, and what it hands on is as without that."""

import asyncio
from typing import Any, cast

import pytest

from callboard import (
    Agent,
    Brief,
    ContextRequest,
    Runtime,
    ScriptedModel,
    Transcript,
    WholeHistory,
    call,
    calls,
    say,
)
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.runtime.contexts import ReadableContext
from callboard.runtime.models.scripted import Reply
from callboard.testing import Scenario

PLAIN = ContextRequest(
    parent="host",
    parent_profile="host",
    profile="kid",
    system=Json(b'"You say \\"found\\"."'),
    messages=(
        Json(b'{"role":"user","content":"What was\\nfound?"}'),
        Json(b'{"role":"assistant","content":[{"type":"text","text":"Nothing."}]}'),
    ),
    prompt=Json(b'"go"'),
)
VIEW = ReadableContext.of(PLAIN)


def test_every_part_prints_as_its_text() -> None:
    for part in (
        VIEW,
        VIEW.messages,
        VIEW.messages[0],
        VIEW.messages[:1],
        [*VIEW.messages],
        VIEW.conversation,
    ):
        assert "found" in str(part)
        assert "object at" not in str(part)
        assert "lost" not in str(part)
    assert "was\nfound" in str(VIEW.messages)
    assert '"found"' in str(VIEW.system)
    assert "Nothing." in str(VIEW.messages[-1])


def test_a_text_is_looked_for_in_the_text_of_messages_only() -> None:
    with pytest.raises(TypeError, match=r"in str\(request\.messages\)"):
        _ = cast(object, "found") in VIEW.messages


@pytest.mark.parametrize("ready", [Brief(), Transcript(), WholeHistory()], ids=repr)
def test_a_ready_context_makes_the_same_of_both(ready: Any) -> None:
    assert VIEW.plain is PLAIN
    assert PLAIN.plain is PLAIN
    assert ready(VIEW) == ready(PLAIN)


def policy(request: ModelRequest) -> Reply:
    if request.profile == "host" and request.turn == 1:
        return calls(call("task", agent="kid", prompt="go"))
    return say("done")


def team(context: Any) -> Agent:
    return Agent("host", agents=[Agent("kid", context=context)])


def looks(view: ContextRequest) -> str:
    return f"{'look here' in str(view.messages)} {'nowhere' in str(view.messages)}"


def hands_on(view: ContextRequest) -> Any:
    handed = WholeHistory()(view)
    assert handed is None or not isinstance(handed, str)
    return handed and handed.__class__(view.messages[:1], handed.makers, handed.note)


async def told(context: Any) -> str:
    asked: list[str] = []

    def noting(request: ModelRequest) -> Reply:
        if request.profile == "kid":
            asked.append(str(request.messages))
        return policy(request)

    async with Runtime(":memory:", model=ScriptedModel(noting)) as runtime:
        await runtime.run(team(context), "look here")
    return asked[0]


@pytest.mark.parametrize(("context", "words"), [(looks, "True False"), (hands_on, "look here")])
def test_a_function_reads_and_hands_on_what_was_said_live_and_simulated(context: Any, words: str) -> None:
    assert words in asyncio.run(told(context))
    world = SessionWorld(Scenario(team(context), policy, "look here").pure).run()
    asked = [one for one in world.asked.values() if one.profile == "kid"]
    assert words in str(asked[0].messages)
