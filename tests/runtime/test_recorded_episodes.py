"""Recorded pure tool loops, end to end: a real server gives the recorded answers, the tools return the
recorded results, and the messages of every request must equal the recorded ones.

They are compared without the additions of the recorded clients: cache marks, keys without content (`null`,
`"is_error": false`, a `caller` that is always the same), text blocks of white space, and a text as a string
instead of one text block. Some of the recorded steps (`tool_use-equal`) are of clients that dropped text
blocks or marks from the answer before they sent it back. callboard keeps answers verbatim, so in these steps
only the calls of the answer must be equal, and all the rest of the request.
"""

import asyncio
from typing import Any

import pytest

from callboard import Agent, AnthropicModel, Limits, Outcome, Runtime, Tool, ToolContext
from callboard.errors import ToolError
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from tests.messages_api import MessagesApi, recorded
from tests.realdata import LOOPS, episodes, record

EPISODES = episodes(is_pure_tool_loop=True)


def plain(value: Any) -> Any:
    """Return a message without its empty parts."""
    if isinstance(value, list):
        return [plain(item) for item in value if not is_blank(item)]
    if not isinstance(value, dict):
        return value
    found = {key: plain(item) for key, item in value.items() if key != "cache_control" and item is not None}
    if found.get("is_error") is False:
        del found["is_error"]
    if found.get("caller") == {"type": "direct"}:
        del found["caller"]
    if isinstance(found.get("content"), str) and "role" in found:
        found["content"] = [{"type": "text", "text": found["content"]}]
    return found


def is_blank(block: Any) -> bool:
    """Return True for a text block that some clients add because an empty text is refused."""
    return isinstance(block, dict) and block.get("type") == "text" and not str(block["text"]).strip()


def without_own_words(message: Any) -> Any:
    """Return a message, or the calls alone of an assistant's."""
    if message["role"] != "assistant":
        return message
    uses = [block for block in message["content"] if block["type"] == "tool_use"]
    return {
        "role": "assistant",
        "content": [{key: use[key] for key in ("id", "name", "input")} for use in uses],
    }


def results_of(requests: list[Any]) -> dict[str, Any]:
    """Return the recorded result of each call, by the call's id."""
    found = {}
    for request in requests:
        for message in request["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            found.update({block["tool_use_id"]: block for block in blocks if block["type"] == "tool_result"})
    return found


def tools_of(requests: list[Any]) -> list[Tool]:
    """Build the tools of the request; each returns the recorded result of its call."""
    results = results_of(requests)

    async def recorded_result(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        result = results[ctx.call_id]
        if result.get("is_error"):
            raise ToolError(result["content"])
        return result["content"]

    return [
        Tool(tool["name"], tool.get("description", ""), tool["input_schema"], recorded_result, "read")
        for tool in requests[0]["tools"]
    ]


async def run(episode: Any, requests: list[Any], model: AnthropicModel) -> tuple[Outcome, MemoryLog]:
    log = MemoryLog()
    first = requests[0]
    (prompt,) = first["messages"]
    host = Agent("host", instructions=first.get("system") or "", tools=tools_of(requests))
    async with Runtime(log, model=model, limits=Limits(max_iterations=len(requests))) as runtime:
        return await runtime.run(host, prompt["content"]), log


def test_the_recorded_tool_loops_are_here() -> None:
    assert len(EPISODES) >= LOOPS


@pytest.mark.parametrize("episode", EPISODES, ids=[str(episode["id"]) for episode in EPISODES])
def test_the_messages_of_every_request_equal_the_recorded_ones(episode: Any) -> None:
    found: list[Any] = [record(record_id) for record_id in episode["records"]]
    requests = [one["request"]["body"] for one in found]
    with MessagesApi([recorded(one) for one in found]) as api:
        model = AnthropicModel(
            requests[0]["model"],
            max_tokens=requests[0]["max_tokens"],
            base_url=api.url,
            api_key="test",
            stream=bool(episode["stream"]),
            cache=False,
            api_version="2023-06-01",
        )
        outcome, log = asyncio.run(run(episode, requests, model))
        sent = [plain(seen.body["messages"]) for seen in api.seen]
    expected = [plain(request["messages"]) for request in requests]
    if "tool_use-equal" in episode["links"]:
        sent = [[without_own_words(m) for m in messages] for messages in sent]
        expected = [[without_own_words(m) for m in messages] for messages in expected]
    assert sent == expected
    assert outcome.is_ok or outcome.kind == "iteration_cap", outcome
    assert outcome.usage.calls == len(requests)
    verified = Recording.open(MemoryReader(log)).verify()
    assert verified.is_ok, "\n".join(verified.lines())
