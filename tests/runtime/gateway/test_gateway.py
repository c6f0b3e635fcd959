import asyncio
import json
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest

from callboard import Budget
from callboard.actors.protocol.client_messages import AskEnded, SessionOpened
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.replay import Recording
from callboard.runtime.gateway import conversation
from tests.messages_api import (
    MessagesApi,
    Seen,
    error_answer,
    json_answer,
    message,
    sse_answer,
    text,
    tool_use,
)
from tests.runtime.gateway.kit import recording
from tests.runtime.imports.transcripts import bodies, sent

ADD: Any = {"name": "add", "description": "Add.", "input_schema": {"type": "object"}}
SETTINGS: Any = {"model": "claude-x", "max_tokens": 500, "system": "Be terse.", "tools": [ADD]}


def adds(seen: Seen) -> Any:
    """Answer as a model that adds by its tool: a call first, then words."""
    said: Any = seen.body["messages"]
    is_done = isinstance(said[-1]["content"], list) and said[-1]["content"][0].get("type") == "tool_result"
    call = tool_use("add", {"a": 2, "b": 3}, f"t{len(said)}")
    made = message(text("It is 5.") if is_done else call, input_tokens=200)
    return sse_answer(made) if seen.body.get("stream") else json_answer(made)


async def program(url: str, *questions: str, stream: bool = False) -> list[Any]:
    """Ask the Messages API with the official client, and run the tool. Return the conversation."""
    said: list[Any] = []
    async with anthropic.AsyncAnthropic(base_url=f"{url}/anthropic", api_key="sk-ant-secret") as client:
        for question in questions:
            said.append({"role": "user", "content": question})
            while True:
                asked = {**SETTINGS, "messages": said}
                if stream:
                    async with client.messages.stream(**asked) as streamed:
                        reply = await streamed.get_final_message()
                else:
                    reply = await client.messages.create(**asked)
                content = [block.model_dump(exclude_none=True) for block in reply.content]
                said.append({"role": "assistant", "content": content})
                uses = [block for block in content if block["type"] == "tool_use"]
                if not uses:
                    break
                results = [{"type": "tool_result", "tool_use_id": one["id"], "content": "5"} for one in uses]
                said.append({"role": "user", "content": results})
    return said


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_is_a_session_of_the_requests_that_were_sent(tmp_path: Path, stream: bool) -> None:
    async def run(api: MessagesApi) -> tuple[list[str], tuple[Any, ...]]:
        async with recording(tmp_path, {"anthropic": api.url}) as (url, recorder):
            talks = await asyncio.gather(
                program(url, "2+3?", "Again?", stream=stream), program(url, "2+3?", stream=stream)
            )
            return recorder.sessions, talks

    with MessagesApi(adds) as api:
        sessions, talks = asyncio.run(run(api))
    assert len(sessions) == 2
    counts = []
    for session in sessions:
        replies = bodies(tmp_path, session, ModelReplied)
        assert [one.differs for one in replies] == [()] * len(replies)
        counts.append(len(replies))
        (opened,) = bodies(tmp_path, session, SessionOpened)
        assert (opened.imported, opened.tags) == ("recorded", ("recording:r1",))
    assert sorted(counts) == [2, 4]
    longest = sessions[counts.index(4)]
    derived = sent(tmp_path, longest)
    assert [one["role"] for one in derived] == [one["role"] for one in talks[0][:-1]]
    assert [end.kind for end in bodies(tmp_path, longest, AskEnded)] == ["answered", "answered"]
    assert b"sk-ant-secret" not in (tmp_path / "log.db").read_bytes()


def test_a_refused_request_never_goes_to_the_service(tmp_path: Path) -> None:
    async def run(api: MessagesApi) -> tuple[str, int]:
        async with recording(tmp_path, {"anthropic": api.url}, Budget(tokens=3_000)) as (url, recorder):
            with pytest.raises(anthropic.PermissionDeniedError) as raised:
                await program(url, *["2+3?"] * 20)
            assert raised.value.response.headers["x-should-retry"] == "false"
            return str(raised.value), recorder.counts.refused

    with MessagesApi(adds) as api:
        why, refused = asyncio.run(run(api))
        assert (len(api.seen) >= 1, refused) == (True, 1)
        asked = len(api.seen)
    assert "callboard record refused this request: budget" in why
    with Recording.open(str(tmp_path / "log.db")) as found:
        replies = [event for event in found.events if event.kind == "ModelReplied"]
    assert len(replies) == asked


def test_a_cost_limit_refuses_a_model_without_a_price(tmp_path: Path) -> None:
    async def run(api: MessagesApi) -> str:
        async with recording(tmp_path, {"anthropic": api.url}, Budget(cost_usd=1.0)) as (url, _):
            with pytest.raises(anthropic.PermissionDeniedError) as raised:
                await program(url, "2+3?")
            return str(raised.value)

    with MessagesApi(adds) as api:
        why = asyncio.run(run(api))
        assert api.seen == []
    assert "prices of model 'claude-x' are not known" in why


def test_an_attempt_that_fails_stays_open_for_the_next_one(tmp_path: Path) -> None:
    answers = [
        error_answer(429, "rate_limit_error", "slow down", retry_after="0"),
        json_answer(message(text("Hi."))),
    ]

    async def run(api: MessagesApi) -> list[str]:
        async with recording(tmp_path, {"anthropic": api.url}) as (url, recorder):
            await program(url, "Hello.")
            return recorder.sessions

    with MessagesApi(answers) as api:
        (session,) = asyncio.run(run(api))
        assert len(api.seen) == 2
    (reply,) = bodies(tmp_path, session, ModelReplied)
    assert (reply.status, len(reply.differs)) == ("ok", 1)
    assert "an attempt failed: 429" in reply.differs[0]


@pytest.mark.parametrize("how", ["cut", "never", "refused"])
def test_a_service_that_breaks_off_or_never_answers_ends_the_ask(tmp_path: Path, how: str) -> None:
    whole = sse_answer(message(text("A long answer.")))
    cut = whole.__class__(whole.body, headers=whole.headers, cut_at=len(whole.body) // 2)
    answer = {"cut": cut, "never": error_answer(500, "api_error", "gone"), "refused": cut}[how]

    async def run(api: MessagesApi) -> list[str]:
        base = "http://127.0.0.1:9" if how == "refused" else api.url
        async with recording(tmp_path, {"anthropic": base}) as (url, recorder):
            async with anthropic.AsyncAnthropic(
                base_url=f"{url}/anthropic", api_key="k", max_retries=0
            ) as client:
                with pytest.raises((anthropic.APIError, httpx2.HTTPError)):
                    async with client.messages.stream(
                        model="claude-x", max_tokens=9, messages=[{"role": "user", "content": "Hi."}]
                    ) as streamed:
                        await streamed.get_final_message()
            return recorder.sessions

    with MessagesApi([answer]) as api:
        (session,) = asyncio.run(run(api))
    (end,) = bodies(tmp_path, session, AskEnded)
    assert (end.kind, end.usage.tokens) == ("model_error", 0)


def test_a_service_that_stays_silent_leaves_the_session_unfinished_when_the_program_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_ENDING_S", 0.05)
    answer = json_answer(message(text("Too late.")))
    silent = answer.__class__(answer.body, headers=answer.headers, delay_s=60)

    async def run(api: MessagesApi) -> list[str]:
        async with recording(tmp_path, {"anthropic": api.url}) as (url, recorder):
            client = anthropic.AsyncAnthropic(
                base_url=f"{url}/anthropic", api_key="k", max_retries=0, timeout=0.2
            )
            async with client:
                with pytest.raises(anthropic.APITimeoutError):
                    await client.messages.create(messages=[{"role": "user", "content": "Hi."}], **SETTINGS)
            return recorder.sessions

    with MessagesApi([silent]) as api:
        (session,) = asyncio.run(run(api))
    assert bodies(tmp_path, session, AskEnded) == []
    replies = bodies(tmp_path, session, ModelReplied)
    assert [one.status for one in replies] in ([], ["detached"])


def test_what_a_program_changed_in_its_last_reply_is_noted_beside_the_next(tmp_path: Path) -> None:
    async def run(api: MessagesApi) -> list[str]:
        async with recording(tmp_path, {"anthropic": api.url}) as (url, recorder):
            async with anthropic.AsyncAnthropic(base_url=f"{url}/anthropic", api_key="k") as client:
                said: Any = [{"role": "user", "content": "2+3?"}]
                for results in (["5", "and a word"], []):
                    reply = await client.messages.create(messages=said, **SETTINGS)
                    said.append({"role": "assistant", "content": [one.model_dump() for one in reply.content]})
                    words = [{"type": "text", "text": one} for one in results[1:]]
                    block = {"type": "tool_result", "tool_use_id": "t1", "content": "5"}
                    said.append({"role": "user", "content": [block, *words]})
            return recorder.sessions

    with MessagesApi(adds) as api:
        (session,) = asyncio.run(run(api))
    first, second = bodies(tmp_path, session, ModelReplied)
    assert first.differs == ()
    (told,) = second.differs
    assert told.startswith("messages[2] was {")
    assert "and a word" in told
    assert Recording.open(tmp_path / "log.db", session).diagnose() == []


def test_a_program_that_asks_where_the_agent_would_go_on_gets_a_session_that_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_ENDING_S", 0.05)
    paused = json_answer(message(text("Let me see."), stop_reason="pause_turn"))

    async def run(api: MessagesApi) -> list[str]:
        async with recording(tmp_path, {"anthropic": api.url}) as (url, recorder):
            async with anthropic.AsyncAnthropic(base_url=f"{url}/anthropic", api_key="k") as client:
                said: Any = [{"role": "user", "content": "2+3?"}]
                for words in ("Never mind. 4+4?", ""):
                    reply = await client.messages.create(messages=said, **SETTINGS)
                    said.append({"role": "assistant", "content": [one.model_dump() for one in reply.content]})
                    said.append({"role": "user", "content": words})
            return recorder.sessions

    with MessagesApi([paused, json_answer(message(text("8.")))]) as api:
        first, second = asyncio.run(run(api))
    (opened,) = bodies(tmp_path, second, SessionOpened)
    assert json.loads(bytes(opened.metadata))["continues"] == first
    assert bodies(tmp_path, second, AskEnded)[-1].text == "8."


def test_a_body_that_is_no_json_is_refused_and_other_requests_pass_uncounted(tmp_path: Path) -> None:
    async def run(api: MessagesApi) -> Any:
        async with recording(tmp_path, {"anthropic": api.url}) as (url, recorder):
            async with httpx2.AsyncClient() as client:
                odd = [b"no json", b"[]", b"{}", b'{"messages":7}', b"\xff"]
                codes = [
                    (await client.post(f"{url}/anthropic/v1/messages", content=one)).status_code
                    for one in odd
                ]
                codes.append(
                    (await client.post(f"{url}/anthropic/v1/messages/count_tokens", json={})).status_code
                )
                codes.append((await client.get(f"{url}/elsewhere")).status_code)
                place = f"{url}/anthropic/v1/messages"
                page = {"origin": "https://a.example"}
                codes.append((await client.post(place, json={}, headers=page)).status_code)
            return codes, recorder.counts.passed, recorder.sessions

    with MessagesApi([]) as api:
        codes, passed, sessions = asyncio.run(run(api))
    assert codes == [400, 400, 400, 400, 400, 404, 404, 403]
    assert (passed, sessions) == ({"POST /v1/messages/count_tokens": 1}, [])


def test_a_changed_history_is_a_session_that_names_the_one_it_is_like(tmp_path: Path) -> None:
    async def run(api: MessagesApi) -> list[str]:
        async with recording(tmp_path, {"anthropic": api.url}) as (url, recorder):
            said = await program(url, "2+3?")
            said[2]["content"][0]["content"] = "6"  # the program changes a result
            async with anthropic.AsyncAnthropic(base_url=f"{url}/anthropic", api_key="k") as client:
                await client.messages.create(
                    model="claude-x",
                    max_tokens=9,
                    tools=[ADD],
                    messages=[*said, {"role": "user", "content": "So?"}],
                )
            return recorder.sessions

    with MessagesApi(adds) as api:
        first, second = asyncio.run(run(api))
    (opened,) = bodies(tmp_path, second, SessionOpened)
    assert json.loads(bytes(opened.metadata))["continues"] == first
    assert [bytes(one.output) for one in bodies(tmp_path, second, ToolReturned)] == [b'"6"']
    replies = bodies(tmp_path, second, ModelReplied)
    assert [one.usage.tokens == 0 for one in replies] == [True, True, False]


def test_a_program_that_ends_with_calls_open_leaves_its_session_unfinished(tmp_path: Path) -> None:
    async def run(api: MessagesApi) -> list[str]:
        async with recording(tmp_path, {"anthropic": api.url}) as (url, recorder):
            async with anthropic.AsyncAnthropic(base_url=f"{url}/anthropic", api_key="k") as client:
                await client.messages.create(messages=[{"role": "user", "content": "2+3?"}], **SETTINGS)
            return recorder.sessions

    with MessagesApi(adds) as api:
        (session,) = asyncio.run(run(api))
    assert bodies(tmp_path, session, AskEnded, ToolReturned) == []
    assert len(bodies(tmp_path, session, ModelReplied)) == 1


@pytest.mark.parametrize("limit", [None, Budget(tokens=10_000)])
def test_a_request_of_which_no_session_can_be_made_passes_unless_there_is_a_limit(
    tmp_path: Path, limit: Budget | None
) -> None:
    odd = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}
    odd["tools"] = [{"name": "an odd name!", "input_schema": {"type": "object"}}]

    async def run(api: MessagesApi) -> Any:
        async with recording(tmp_path, {"anthropic": api.url}, limit) as (url, recorder):
            async with httpx2.AsyncClient(headers={"x-api-key": "k"}) as client:
                done = await client.post(f"{url}/anthropic/v1/messages", json=odd)
            return done.status_code, len(recorder.counts.passed), recorder.sessions

    with MessagesApi([json_answer(message(text("Hi.")))], is_strict=False) as api:
        assert asyncio.run(run(api)) == ((403, 0, []) if limit else (200, 1, []))
        assert len(api.seen) == (0 if limit else 1)
