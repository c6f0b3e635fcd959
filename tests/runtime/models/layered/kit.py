"""What the tests of layered models share: a server, models of all dialects, and conversations."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.layered.bedrock import BedrockModel
from callboard.runtime.models.layered.gemini import GeminiModel
from callboard.runtime.models.layered.model import LayeredModel
from callboard.runtime.models.layered.openai import OpenAICompatibleModel
from callboard.runtime.models.protocol import ModelAnswer
from tests.bedrock_api import CONVERSE
from tests.gemini_api import GEMINI
from tests.messages_api import Canned, Seen
from tests.openai_api import OPENAI, Answer, ProviderApi
from tests.runtime.models.anthropic.kit import request_with

Api: TypeAlias = Literal["chat", "responses", "generate-content", "converse"]
OPENAI_DIALECTS: Sequence[Api] = ("chat", "responses")
DIALECTS: Sequence[Api] = (*OPENAI_DIALECTS, "generate-content", "converse")
WIRES = (OPENAI, GEMINI, CONVERSE)
STREAM_PATHS: Mapping[Api, str] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "generate-content": "/v1beta/models/test-model:streamGenerateContent?alt=sse",
    "converse": "/model/test-model/converse-stream",
}
KEY = "sk-test-0123456789"
LOOK: Mapping[str, object] = {
    "name": "look",
    "description": "Look at a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
Block = dict[str, Any]


class Service:
    """A server, and models that ask it on one event loop: a client takes 50 ms to make."""

    def __init__(self, api: ProviderApi) -> None:
        self.api = api
        self._runner = asyncio.Runner()
        self._models: dict[str, LayeredModel] = {}

    def model(self, dialect: Api = "chat", **settings: Any) -> LayeredModel:
        """Return a model of this server."""
        made = model_at(self.api.url, dialect, **{"max_tokens": 100, **settings})
        return self._models.setdefault(f"{dialect} {settings!r}", made)

    def ask(
        self, request: ModelRequest | None = None, dialect: Api = "chat", **settings: Any
    ) -> tuple[ModelAnswer, str]:
        """Call a model once. Return its answer and the streamed text."""
        texts: list[str] = []
        model = self.model(dialect, **settings)
        answer = self._runner.run(model.call(request or asked(model=model.spec), texts.append))
        return answer, "".join(texts)

    def failure(self, *answers: Answer, dialect: Api = "chat", **settings: Any) -> ModelAnswer:
        """Ask once of a server that answers so, and return the failed answer."""
        self.api.reply(*answers)
        answer, _ = self.ask(dialect=dialect, **settings)
        assert answer.failure is not None, answer
        assert answer.content == NULL
        return answer

    def run(self, work: Any) -> Any:
        """Run a coroutine on the loop of the models."""
        return self._runner.run(work)

    def close(self) -> None:
        """Close the models, then the loop."""
        for model in self._models.values():
            self._runner.run(model.aclose())
        self._runner.close()


def model_at(url: str, dialect: Api, **settings: Any) -> LayeredModel:
    """Make a model of a server that speaks this dialect."""
    settings = {"api_key": KEY, **settings}
    if dialect == "generate-content":
        return GeminiModel("test-model", **{"base_url": url, **settings})
    if dialect == "converse":
        return BedrockModel("test-model", **{"base_url": url, "region": "us-east-1", **settings})
    return OpenAICompatibleModel("test-model", api=dialect, **{"base_url": f"{url}/v1", **settings})


@contextmanager
def serving() -> Iterator[Service]:
    """Serve all tests of a module."""
    with ProviderApi(wires=WIRES) as api:
        service = Service(api)
        try:
            yield service
        finally:
            service.close()


def asked(messages: Sequence[object] = ({"role": "user", "content": "Hello."},), **more: Any) -> ModelRequest:
    """Make a request with this conversation and one tool."""
    model = more.pop("model", ModelSpec("compatible:test-model", 100))
    return request_with(messages, tools=more.pop("tools", [LOOK]), model=model, **more)


def failure_of(answer: ModelAnswer) -> ModelFailure:
    """Return the failure of an answer."""
    assert answer.failure is not None
    return answer.failure


def blocks_of(answer: ModelAnswer) -> list[Block]:
    """Return the blocks of an answer without a failure."""
    assert answer.failure is None, answer.failure
    blocks: list[Block] = json.loads(bytes(answer.content))
    return blocks


def bare(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks without the parts of the layer."""
    return [{key: value for key, value in block.items() if key != "part"} for block in blocks]


def said(answer: ModelAnswer) -> list[object]:
    """Return the messages that follow an answer: itself, and a result for each of its calls."""
    blocks = blocks_of(answer)
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": f"result {at}"}
        for at, block in enumerate(block for block in blocks if block["type"] == "tool_use")
    ]
    prompt = {"type": "text", "text": "Go on."}
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results or [prompt]}]


def items_of(seen: Seen) -> list[Any]:
    """Return the conversation in a request, of any dialect."""
    found = seen.body.get("messages") or seen.body.get("input") or seen.body.get("contents")
    assert isinstance(found, list)
    return found


def words_of(item: Any) -> str:
    """Return the text of a user's message, of any dialect."""
    content = item.get("parts") or item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def ids_of(seen: Seen) -> list[str]:
    """Return the ids of the calls in a request, then those that the results name."""
    calls: list[str] = []
    results: list[str] = []
    for item in items_of(seen):
        calls += [call["id"] for call in item.get("tool_calls", ())]
        calls += [item["call_id"]] if item.get("type") == "function_call" else []
        results += [item["call_id"]] if item.get("type") == "function_call_output" else []
        results += [item["tool_call_id"]] if item.get("role") == "tool" else []
        for part in item.get("parts", ()):
            calls += [part["functionCall"]["id"]] if "functionCall" in part else []
            results += [part["functionResponse"]["id"]] if "functionResponse" in part else []
        for block in item["content"] if isinstance(item.get("content"), list) else ():
            calls += [block["toolUse"]["toolUseId"]] if "toolUse" in block else []
            results += [block["toolResult"]["toolUseId"]] if "toolResult" in block else []
    return calls + results


def html(status: int = 200) -> Canned:
    """Return a web page, as a proxy sends it."""
    page = b"<!doctype html><html><body><h1>Welcome</h1></body></html>"
    return Canned(page, status, {"content-type": "text/html; charset=utf-8"})
