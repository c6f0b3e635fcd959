"""The client without the walk through a request sends what OpenAI's own client sends."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI, BadRequestError, NotGiven, omit

from callboard.runtime.models.layered.dialects import CHAT as CHAT_DIALECT
from callboard.runtime.models.layered.dialects import RESPONSES as RESPONSES_DIALECT
from callboard.runtime.models.layered.openai_layer import quick_client
from callboard.runtime.models.layered.wire import EXCHANGE, Exchange, LayeredClient
from tests.several_models import IMAGE, PNG

TEXTS = st.text(max_size=20)
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": TEXTS,
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": TEXTS, "arguments": TEXTS}),
        }
    )
)
CHAT = st.fixed_dictionaries(
    {"messages": st.lists(
        st.one_of(
            st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": TEXTS}),
            st.fixed_dictionaries({"role": st.just("assistant"), "content": st.none(), "tool_calls": CALLS,
                                   "reasoning_content": TEXTS}),
            st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": TEXTS, "content": TEXTS}),
            st.just({"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]}),
        ), max_size=4),
     "stream_options": st.sampled_from([omit, {"include_usage": True}]),
     "tool_choice": st.sampled_from([omit, "auto", {"type": "function", "function": {"name": "x"}}])}
)  # fmt: skip
RESPONSES = st.fixed_dictionaries(
    {"input": st.lists(
        st.one_of(
            st.fixed_dictionaries({"role": st.just("user"), "content": TEXTS}),
            st.fixed_dictionaries({"type": st.just("function_call"), "call_id": TEXTS, "name": TEXTS,
                                   "arguments": TEXTS}),
            st.fixed_dictionaries({"type": st.just("reasoning"), "id": TEXTS, "encrypted_content": TEXTS,
                                   "summary": st.just([])}),
            st.just({"type": "function_call_output", "call_id": "c", "output": [
                {"type": "input_image", "detail": "auto", "image_url": IMAGE["source"]["data"]}]}),
        ), max_size=4),
     "instructions": st.one_of(st.just(omit), TEXTS),
     "reasoning": st.sampled_from([omit, {"effort": "low"}]),
     "store": st.booleans()}
)  # fmt: skip
TOOLS: list[Any] = [{"type": "function", "name": "x", "parameters": {"type": "object", "$defs": {"a": {}}}}]


SEEN: list[httpx2.Request] = []


def answer(request: httpx2.Request) -> httpx2.Response:
    SEEN.append(request)
    return httpx2.Response(400, json={"error": {"message": "no"}})


LOOP = asyncio.Runner()
SETTINGS: dict[str, Any] = {
    "api_key": "sk-test-0123456789",
    "max_retries": 0,
    "base_url": "http://x/v1",
}
TRANSPORT = httpx2.MockTransport(answer)
OURS = quick_client(http_client=LayeredClient(transport=TRANSPORT), **SETTINGS)
THEIRS = AsyncOpenAI(http_client=httpx2.AsyncClient(transport=TRANSPORT), **SETTINGS)


def sent(client: Any, api: str, params: Mapping[str, Any]) -> httpx2.Request:
    """Return the request that a client sends."""
    create = client.chat.completions.create if api == "chat" else client.responses.create

    async def ask() -> None:
        EXCHANGE.set(Exchange(CHAT_DIALECT if api == "chat" else RESPONSES_DIALECT))
        await create(model="m", tools=TOOLS, **params)

    with pytest.raises(BadRequestError):
        LOOP.run(ask())
    return SEEN.pop()


@given(
    st.one_of(st.tuples(st.just("chat"), CHAT), st.tuples(st.just("responses"), RESPONSES)),
    st.booleans(),
    st.sampled_from([{}, {"metadata": {"a": "b"}, "store": None}]),
    st.sampled_from([NotGiven(), 7.0]),
)
def test_both_clients_send_the_same(
    asked: tuple[str, dict[str, Any]], stream: bool, extra: dict[str, Any], timeout: Any
) -> None:
    api, params = asked
    params |= {"stream": stream, "extra_body": extra, "extra_headers": {"x-mine": "1"}, "timeout": timeout}
    ours, theirs = sent(OURS, api, params), sent(THEIRS, api, params)
    assert json.loads(ours.content) == json.loads(theirs.content)
    assert ours.url == theirs.url
    assert dict(ours.headers) == {**theirs.headers, "content-length": str(len(ours.content))}
