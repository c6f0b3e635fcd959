"""The three APIs that the gateway records: their requests as conversations, and their answers.

    messages    POST /v1/messages           Anthropic's Messages API
    chat        POST /v1/chat/completions   OpenAI's Chat Completions
    responses   POST /v1/responses          OpenAI's Responses API

A conversation is compared in the form of the Messages API, so that the reply that a program sends back is the
one that it was given, however its client writes it down. Cache marks and ids of items do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callboard.actors.agent.handed_history import FOREIGN
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.profiles import ToolSpec
from callboard.runtime.histories.content import Repairs, blocks_in
from callboard.runtime.histories.history import Joiner
from callboard.runtime.histories.shapes import Reader
from callboard.runtime.imports.items import tools_in, usage_in
from callboard.runtime.imports.pieces import reasoning_in
from callboard.runtime.imports.traffic import Block
from callboard.runtime.models.anthropic.answer import answer_of, encoded
from callboard.runtime.models.failures import UNREPORTED, CallFailed, garbage_answer
from callboard.runtime.models.protocol import ModelAnswer

Dialect: TypeAlias = Literal["messages", "chat", "responses"]
PATHS: Final[Mapping[str, Dialect]] = {
    "/v1/messages": "messages",
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
}
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_SYSTEM: Final = ("system", "developer")


class Asked(msgspec.Struct, gc=False):
    """A request of the program.

    items: its conversation as it was sent; messages: the same in the form of the Messages API. instructions:
    None for none. tools: by name. before: of the Responses API, the id of the answer that it goes on from,
    whose conversation the service keeps.
    """

    dialect: Dialect
    body: bytes
    items: list[Any]
    messages: list[Block]
    instructions: object = None
    tools: dict[str, ToolSpec] = {}
    model: str = ""
    max_tokens: int = 0
    is_stream: bool = False
    before: str = ""


class Answered(msgspec.Struct, gc=False):
    """An answer of the service. items: as a program sends them back. id: of the answer."""

    answer: ModelAnswer
    items: list[Any]
    id: str = ""


def asked(dialect: Dialect, body: bytes) -> Asked | None:
    """Read a request; None for a body that is not a JSON object with a conversation."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    items = _items(dialect, value) if isinstance(value, dict) else None
    if not items:
        return None
    made = Asked(
        dialect, body, items, [], model=_text(value.get("model")), is_stream=value.get("stream") is True
    )
    system = value.get("system") or value.get("instructions")
    while dialect != "messages" and items and isinstance(items[0], dict) and items[0].get("role") in _SYSTEM:
        system = [*blocks_in(system), *blocks_in(items.pop(0).get("content"))]
    made.instructions = system if isinstance(system, str) else blocks_in(system) or None
    made.messages = conversation_of(dialect, items)
    made.tools = tools_in(value.get("tools"))
    made.before = _text(value.get("previous_response_id"))
    limits = (value.get(name) for name in _LIMITS)
    made.max_tokens = next((one for one in limits if type(one) is int and one > 0), 0)
    return made


def _items(dialect: Dialect, value: JsonObject) -> list[Any] | None:
    found = value.get("input" if dialect == "responses" else "messages")
    if dialect == "responses" and isinstance(found, str):
        return [{"role": "user", "content": found}]
    return [*found] if isinstance(found, list) else None


def conversation_of(dialect: Dialect | None, items: Iterable[Any]) -> list[Block]:
    """Return items as messages of the Messages API. dialect: None for items of several."""
    repairs = Repairs()
    reader, joiner = Reader(dialect, repairs), Joiner(repairs)
    for index, item in enumerate(items):
        joiner.take(index, reader.read(item, index), FOREIGN)
    found: list[Block] = [msgspec.json.decode(bytes(message)) for message, _ in joiner.messages()]
    return found


def reply_of(dialect: Dialect, items: Sequence[Any]) -> Block:
    """Return the items of an answer as a message of the Messages API."""
    messages = conversation_of(dialect, [{"role": "user", "content": "?"}, *items])
    found = [one for one in messages if one["role"] == "assistant"]
    return {"role": "assistant", "content": [block for one in found for block in one["content"]]}


def answered(dialect: Dialect, value: object) -> Answered:
    """Read an answer that came whole. Raises CallFailed for any other text."""
    if not isinstance(value, dict):
        raise _garbage("the answer is not a JSON object")
    if dialect == "messages":
        found = answer_of(value)
        content = msgspec.json.decode(bytes(found.content))
        return Answered(found, [{"role": "assistant", "content": content}], _text(value.get("id")))
    items = _output(dialect, value)
    thoughts = [block for item in items if isinstance(item, dict) for block in reasoning_in(item)]
    blocks = [*thoughts, *reply_of(dialect, items)["content"]]
    usage = usage_in(value.get("usage")) or UNREPORTED
    return Answered(
        ModelAnswer(encoded(blocks), _reason(dialect, value), usage, model=_text(value.get("model"))),
        items,
        _text(value.get("id")),
    )


def _output(dialect: Dialect, value: JsonObject) -> list[Any]:
    if dialect == "responses":
        output = value.get("output")
        if not isinstance(output, list):
            raise _garbage("the answer has no output")
        return output
    return [_message_in(value.get("choices"))]


def _message_in(choices: object) -> object:
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        raise _garbage("the answer has no message")
    return first["message"]


def _reason(dialect: Dialect, value: JsonObject) -> str:
    """Return why an answer stopped, in the words of the Messages API where it has them."""
    if dialect == "responses":
        return "max_tokens" if value.get("status") == "incomplete" else "end_turn"
    reason = _text(value["choices"][0].get("finish_reason"))
    return {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}.get(reason, reason)


def refusal(dialect: Dialect | None, kind: str, message: str) -> bytes:
    """Return the body of an error in the form of the API. dialect: None for another request."""
    error = {"type": kind, "message": message}
    whole = {"type": "error", "error": error} if dialect == "messages" else {"error": {**error, "code": kind}}
    return msgspec.json.encode(whole)


def _garbage(why: str) -> CallFailed:
    return garbage_answer(why)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
