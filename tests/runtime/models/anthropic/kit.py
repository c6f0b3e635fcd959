"""What the tests of AnthropicModel share: requests made from plain values, and one call against a server."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.anthropic.model import AnthropicModel
from callboard.runtime.models.protocol import ModelAnswer
from tests.messages_api import MessagesApi

KEY = "sk-test-0123456789"
HELLO: list[object] = [{"role": "user", "content": "Hello."}]


def as_json(value: object) -> Json:
    """Encode a value as compact JSON, its keys in their order."""
    return Json(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def request_with(
    messages: Sequence[object] = HELLO,
    *,
    system: object = None,
    tools: Sequence[object] = (),
    model: ModelSpec | None = None,
    force_tool: str = "",
) -> ModelRequest:
    """Make a request with this conversation, for a model that allows everything."""
    history: IntMap[Json] = IntMap()
    for at, message in enumerate(messages):
        history = history.put(at, as_json(message))
    return ModelRequest(
        address="host",
        profile="host",
        model=model or ModelSpec("claude-sonnet-4-5", 100),
        turn=1,
        attempt=1,
        system=NULL if system is None else as_json(system),
        tools=tuple(as_json(tool) for tool in tools),
        history=history,
        force_tool=force_tool,
    )


def model_at(url: str, **settings: Any) -> AnthropicModel:
    """Make a model whose service is at this address."""
    settings = {"api_key": KEY, **settings}
    return AnthropicModel("claude-sonnet-4-5", max_tokens=100, base_url=url, **settings)


async def ask(model: AnthropicModel, request: ModelRequest | None = None) -> tuple[ModelAnswer, str]:
    """Call a model once. Return its answer and the streamed text."""
    texts: list[str] = []
    answer = await model.call(request or request_with(), texts.append)
    return answer, "".join(texts)


class Calls:
    """Calls to one server on one event loop, by models that are kept: making a client costs 50 ms."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._runner = asyncio.Runner()
        self._models: dict[str, AnthropicModel] = {}

    def ask(self, request: ModelRequest | None, settings: dict[str, Any]) -> tuple[ModelAnswer, str]:
        """Call a model with these settings once."""
        model = self._models.setdefault(repr(settings), model_at(self._url, **settings))
        return self._runner.run(ask(model, request))

    def close(self) -> None:
        """Close the models, then the loop."""
        for model in self._models.values():
            self._runner.run(model.aclose())
        self._runner.close()


_CALLS: dict[str, Calls] = {}


@contextmanager
def serving() -> Iterator[MessagesApi]:
    """Serve all tests of a module, with models that last as long."""
    with MessagesApi() as api:
        _CALLS[api.url] = Calls(api.url)
        yield api
        _CALLS.pop(api.url).close()


def ask_at(url: str, request: ModelRequest | None = None, **settings: Any) -> tuple[ModelAnswer, str]:
    """Call the model at this address once. Return its answer and the streamed text."""
    if url in _CALLS:
        return _CALLS[url].ask(request, settings)
    calls = Calls(url)
    try:
        return calls.ask(request, settings)
    finally:
        calls.close()


def failure_at(url: str, **settings: Any) -> tuple[ModelFailure, ModelAnswer]:
    """Call the model at this address once. Return the failure and the whole answer."""
    answer, _ = ask_at(url, **settings)
    assert answer.failure is not None, answer
    assert answer.content == NULL
    return answer.failure, answer


def content_of(answer: ModelAnswer) -> list[dict[str, object]]:
    """Return the content blocks of an answer without a failure."""
    assert answer.failure is None, answer.failure
    blocks = json.loads(bytes(answer.content))
    assert isinstance(blocks, list)
    return blocks
