"""The requests of the Claude client as questions of a program, and the replies in the form that it reads.

Rules
  - What describes this machine, this moment or this client is left out: its environment, its version, its
    ids. So a client that is started again sends the same requests.
  - Cache marks are left out, too: they move from turn to turn, and the session's model sets its own.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.common import SETTINGS_PASSED
from callboard.runtime.programs.kept_requests import Written
from callboard.runtime.programs.model_reply import ModelReply, whole_request

Block = JsonObject

_ABOUT_CLIENT: Final = ("x-anthropic-billing-header", "# Environment")
_PLACEHOLDER: Final = "DeferredToolPlaceholder"
_TOOL_KEYS: Final = ("name", "description", "input_schema")


def written_of(body: JsonObject) -> Written:
    """Return the body of a request as a whole request. Raises InvalidPrompt for any other body."""
    messages: list[Block] = []
    for said in _dicts(body, "messages"):
        is_client, blocks = said.get("role") == "system", _blocks(said.get("content"))
        if is_client:
            blocks = _without_client(blocks)
        role = "user" if is_client else said.get("role")
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role == "user":
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    tools: list[Block] = [
        {key: tool[key] for key in _TOOL_KEYS if key in tool}
        for tool in _dicts(body, "tools")
        if tool.get("name") != _PLACEHOLDER
    ]
    choice = body.get("tool_choice")
    forced = choice.get("name", "") if isinstance(choice, dict) and choice.get("type") == "tool" else ""
    settings = {key: body[key] for key in SETTINGS_PASSED if body.get(key) is not None}
    system = _without_client(_blocks(body.get("system") or ""))
    return whole_request(messages, tools, system, settings, body.get("max_tokens"), forced)


def _dicts(body: JsonObject, key: str) -> list[Block]:
    found = body.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidPrompt(f"{key}: the client's request has no list of objects here")
    return found


def _blocks(content: object) -> list[Block]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise InvalidPrompt("content: the client's message has neither a text nor a list of blocks")
    return [_unmarked(block) for block in content if block.get("text") != ""]


def _without_client(blocks: list[Block]) -> list[Block]:
    """Return blocks of the system without those that the client says of itself. A user may say the same."""
    return [one for one in blocks if not str(one.get("text", "")).startswith(_ABOUT_CLIENT)]


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    if not isinstance(value, dict):
        return value
    # The arguments of a call are the model's own, and may have a key of this name.
    return {
        key: one if key == "input" else _unmarked(one)
        for key, one in value.items()
        if key not in ("cache_control", "caller")
    }


def message_of(reply: ModelReply, model: str, ask: str) -> Block:
    """Return a reply as a message of the Messages API.

    model: that the client has asked. ask: the id of the question, the same after a restart.
    """
    usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
    return {
        "id": f"msg_{ask}",  # the client joins messages of one id
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": reply.blocks,
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def stream_of(message: Block) -> bytes:
    """Return a message as the events of a stream."""
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode({"type": name, **event}))
        for name, event in _events(message)
    )


def _events(message: Block) -> Iterator[tuple[str, Block]]:
    yield "message_start", {"message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        start, deltas = _parts(block)
        yield "content_block_start", {"index": index, "content_block": start}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": delta, "usage": message["usage"]}
    yield "message_stop", {}


def _parts(block: Block) -> tuple[Block, list[Block]]:
    """Return the start of a block in a stream, and what follows."""
    kind = block["type"]
    if kind == "text":
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if kind == "tool_use":
        written = msgspec.json.encode(block["input"]).decode()
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": written}]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
        if block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    return block, []
