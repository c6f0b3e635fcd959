import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest

from callboard import Budget
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from tests.openai_api import Call, ProviderApi, Reply, Thought
from tests.runtime.gateway.kit import recording
from tests.runtime.imports.transcripts import bodies, sent

FUNCTION: Any = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}
THOUGHT = "Two and three."
ANSWERS = [
    Reply((Thought(THOUGHT), Call("add", '{"a":2,"b":3}'))),
    Reply(("It is 5.",)),
    Reply(("Still 5.",)),
]


async def chat(client: openai.AsyncOpenAI, *, stream: bool) -> None:
    """Ask two questions of Chat Completions with the official client."""
    said: list[Any] = [{"role": "system", "content": "Be terse."}]
    settings: Any = {"model": "m", "tools": [{"type": "function", "function": FUNCTION}]}
    if stream:
        settings["stream_options"] = {"include_usage": True}
    for question in ("2+3?", "Again?"):
        said.append({"role": "user", "content": question})
        while True:
            if stream:
                async with client.chat.completions.stream(messages=said, **settings) as streamed:
                    made = (await streamed.get_final_completion()).choices[0].message
            else:
                made = (await client.chat.completions.create(messages=said, **settings)).choices[0].message
            calls = [one.model_dump() for one in made.tool_calls or ()]
            said.append(
                {"role": "assistant", "content": made.content, **({"tool_calls": calls} if calls else {})}
            )
            if not calls:
                break
            said += [{"role": "tool", "tool_call_id": one["id"], "content": "5"} for one in calls]


async def responses(client: openai.AsyncOpenAI, *, stream: bool, keeps: bool = False) -> None:
    """Ask two questions of the Responses API. keeps: the service keeps the conversation."""
    said: list[Any] = []
    before: Any = {}
    settings: Any = {"model": "m", "instructions": "Be terse.", "tools": [{"type": "function", **FUNCTION}]}
    for question in ("2+3?", "Again?"):
        said.append({"role": "user", "content": question})
        while True:
            if stream:
                async with client.responses.stream(input=said, **settings, **before) as streamed:
                    made = await streamed.get_final_response()
            else:
                made = await client.responses.create(input=said, **settings, **before)
            items: list[Any] = [one.model_dump(exclude_none=True) for one in made.output]
            said = [] if keeps else [*said, *items]
            before = {"previous_response_id": made.id} if keeps else {}
            calls = [one for one in items if one["type"] == "function_call"]
            said += [
                {"type": "function_call_output", "call_id": one["call_id"], "output": "5"} for one in calls
            ]
            if not calls:
                break


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses", "responses that are kept"])
def test_the_apis_of_openai_are_recorded(tmp_path: Path, api: str, stream: bool) -> None:
    async def run(url: str) -> list[str]:
        async with recording(tmp_path, {"openai": f"{url}/v1"}) as (gateway, recorder):
            async with openai.AsyncOpenAI(base_url=f"{gateway}/openai/v1", api_key="sk-secret-key") as client:
                if api == "chat":
                    await chat(client, stream=stream)
                else:
                    await responses(client, stream=stream, keeps=api != "responses")
            return recorder.sessions

    with ProviderApi(list(ANSWERS), is_strict=False) as service:
        (session,) = asyncio.run(run(service.url))
    replies = bodies(tmp_path, session, ModelReplied)
    assert [(one.status, one.differs) for one in replies] == [("ok", ())] * 3
    assert [(one.usage.input_tokens, one.usage.output_tokens) for one in replies] == [(10, 5)] * 3
    thought, use = json.loads(bytes(replies[0].content))
    assert (thought["type"], thought["thinking"], use["name"]) == ("thinking", THOUGHT, "add")
    (asked,) = bodies(tmp_path, session, CallTool)
    assert (asked.tool, bytes(asked.arguments)) == ("add", b'{"a":2,"b":3}')
    assert [bytes(one.output) for one in bodies(tmp_path, session, ToolReturned)] == [b'"5"']
    assert [end.text for end in bodies(tmp_path, session, AskEnded)] == ["It is 5.", "Still 5."]
    assert [one["role"] for one in sent(tmp_path, session)] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert b"sk-secret-key" not in (tmp_path / "log.db").read_bytes()


def test_a_request_for_more_tokens_than_are_reserved_begins_a_session_of_its_own(tmp_path: Path) -> None:
    async def run(api: ProviderApi, budget: Budget | None) -> int:
        name = "free" if budget is None else "bound"
        (tmp_path / name).mkdir()
        async with recording(tmp_path / name, {"openai": api.url}, budget) as (url, recorder):
            async with openai.AsyncOpenAI(base_url=f"{url}/openai/v1", api_key="k") as client:
                said: list[Any] = [{"role": "user", "content": "Hi."}]
                for most in (100, 100, 5_000):
                    made = await client.chat.completions.create(model="gpt-x", messages=said, max_tokens=most)
                    reply: Any = made.choices[0].message.model_dump(exclude_none=True)
                    said += [reply, {"role": "user", "content": "And?"}]
            return len(recorder.sessions)

    replies = [Reply((f"{number}",), {"input": 9, "output": 2}) for number in range(6)]
    with ProviderApi(replies) as api:
        assert asyncio.run(run(api, None)) == 1
        assert asyncio.run(run(api, Budget(tokens=1_000_000))) == 2
