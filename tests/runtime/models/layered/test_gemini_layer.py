"""The conversation that goes to Gemini: the same as the client of Google writes, in other spelling."""

import asyncio
import base64
import json
from typing import Any

import pytest
from google import genai

from callboard.replay.testing.input_rules.gemini import camel
from callboard.runtime.models.layered.dialects import GENERATE_CONTENT
from callboard.runtime.models.layered.gemini_layer import QuickClient, named
from callboard.runtime.models.layered.wire import EXCHANGE, Exchange, client_with
from tests.gemini_api import GEMINI
from tests.openai_api import ProviderApi, Reply
from tests.runtime.models.layered.kit import KEY

SEAL = bytes(range(200, 256))  # its base64 holds + and /
BLOB = {"data": SEAL, "mime_type": "image/png"}
CALL = {"name": "look", "args": {"file_path": None, "mime_type": [1.5, {"file_uri": 2**70}]}, "id": "c1"}
ANSWER = {
    "name": "look",
    "response": {"return_value": {"inline_data": None}},
    "id": "c1",
    "parts": [{"inline_data": BLOB}],
}
CONTENTS: list[dict[str, Any]] = [
    {
        "role": "user",
        "parts": [{"text": 'ä "quoted" \u2028'}, {"inline_data": {"data": SEAL, "mime_type": "a/b"}}],
    },
    {
        "role": "model",
        "parts": [{"text": "Hm.", "thought": True}, {"text": "So.", "thought_signature": SEAL}],
    },
    {"role": "model", "parts": [{"function_call": CALL, "thought_signature": SEAL}]},
    {"role": "user", "parts": [{"function_response": ANSWER}]},
    {"role": "user", "parts": [{"file_data": {"file_uri": "https://a.org/b", "mime_type": None}}]},
]


def plain(conversation: Any) -> Any:
    """Return a conversation in one spelling of names and of base64."""
    text = json.dumps(camel(conversation))
    return json.loads(text.replace("-", "+").replace("_", "/"))


@pytest.mark.parametrize("stream", [True, False])
def test_a_conversation_goes_out_as_the_client_writes_it(stream: bool) -> None:
    with ProviderApi(lambda seen: Reply(("Hi.",)), is_strict=False, wires=(GEMINI,)) as api:

        async def ask(quick: bool) -> None:
            exchange = Exchange(GENERATE_CONTENT)
            EXCHANGE.set(exchange)
            async with client_with({}, 10, 10) as http:
                options = genai.types.HttpOptions(base_url=api.url, httpx_async_client=http)
                client = genai.Client(api_key=KEY, http_options=options)
                models: Any = (QuickClient(client) if quick else client).aio.models
                if stream:
                    async for _ in await models.generate_content_stream(
                        model="m", contents=CONTENTS, config={}
                    ):
                        pass
                else:
                    await models.generate_content(model="m", contents=CONTENTS, config={})

        asyncio.run(ask(quick=True))
        asyncio.run(ask(quick=False))
        ours, theirs = (seen.body for seen in api.seen)
    assert plain(ours) == plain(theirs)


def test_bytes_are_base64_that_every_reader_takes() -> None:
    exchange = Exchange(GENERATE_CONTENT)
    exchange.take(named([{"thought_signature": SEAL, "text": None}]))
    assert json.loads(exchange.written) == {"thoughtSignature": base64.b64encode(SEAL).decode()}
