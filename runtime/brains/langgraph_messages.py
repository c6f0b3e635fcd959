"""The messages of LangChain as those of a request, and a reply as its message.

    message             becomes
    system              a part of the system prompt; one in mid-conversation, a text of the user
    human               texts, images and documents, by their bytes or their URL
    AI                  the reply that it was made of, unless it has been changed; else its texts and calls
    tool                the result of that call, an error by its status
    any other           refused

Ids of messages are made of the run, not of chance, so that an execution has those of the one before.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.usage import Usage
from callboard.runtime.brains.common import EMPTY, with_note
from callboard.runtime.programs.model_reply import ModelReply

Block = JsonObject
Said = JsonObject

_OWN_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call", "invalid_tool_call"})
THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
NOTE: Final = "callboard_note"
"""The key in the `additional_kwargs` of a tool message with the words that stand before its result."""
_DATA: Final = "data:"


class _Reply(NamedTuple):
    """A reply as it came, and what the message has that was made of it."""

    blocks: list[Block]
    content: object
    calls: list[ToolCall]


class Conversation:
    """The messages of one run. Each reply is known by the id of its message."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._replies: dict[str, _Reply] = {}

    def message(self, reply: ModelReply) -> AIMessage:
        """Return a reply as the framework's message."""
        calls, wrong = _calls(reply.calls)
        message = AIMessage(
            content=reply.text,
            tool_calls=calls,
            invalid_tool_calls=wrong,
            usage_metadata=usage_metadata(reply.usage),
            response_metadata={"stop_reason": reply.stop_reason, "model_name": "callboard"},
            id=f"{self._run}:{len(self._replies)}",
        )
        self._replies[str(message.id)] = _Reply(reply.blocks, message.content, [*message.tool_calls])
        return message

    def written(self, messages: Iterable[BaseMessage]) -> tuple[list[str], list[Said]]:
        """Return the system prompts before the conversation, and its messages.

        Messages of one role in a row become one. Raises MisuseError for a message that has no form here.
        """
        system: list[str] = []
        said: list[Said] = []
        for message in messages:
            if isinstance(message, SystemMessage) and not said:
                system.append(message.text)
            elif isinstance(message, AIMessage):
                _add(said, "assistant", self._blocks(message))
            else:
                _add(said, "user", _user_blocks(message))
        return system, said

    def _blocks(self, message: AIMessage) -> list[Block]:
        reply = self._replies.get(message.id or "")
        if reply and reply.content == message.content and reply.calls == message.tool_calls:
            return reply.blocks
        texts = [block for block in content_blocks(message.content) if block.get("text") != EMPTY]
        calls = [
            {"type": "tool_use", "id": call["id"] or "call", "name": call["name"], "input": call["args"]}
            for call in message.tool_calls
        ]
        return [*texts, *calls] or [{"type": "text", "text": EMPTY}]


def _add(said: list[Said], role: str, blocks: list[Block]) -> None:
    if said and said[-1]["role"] == role:
        said[-1] = {"role": role, "content": [*said[-1]["content"], *blocks]}
    else:
        said.append({"role": role, "content": blocks})


def _calls(blocks: Sequence[Block]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    calls: list[ToolCall] = []
    wrong: list[InvalidToolCall] = []
    for block in blocks:
        name, given, call = block["name"], block["input"], block["id"]
        if isinstance(given, dict):
            calls.append(ToolCall(name=name, args=given, id=call, type="tool_call"))
        else:
            told = "its arguments are not a JSON object"
            wrong.append(
                InvalidToolCall(name=name, args=given, id=call, error=told, type="invalid_tool_call")
            )
    return calls, wrong


def _user_blocks(message: BaseMessage) -> list[Block]:
    if isinstance(message, ToolMessage):
        content = message.content
        told = content if isinstance(content, str) else content_blocks(content)
        told = with_note(message.additional_kwargs.get(NOTE, ""), told)
        block = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": told or EMPTY}
        return [{**block, "is_error": True} if message.status == "error" else block]
    if isinstance(message, HumanMessage | SystemMessage):
        return content_blocks(message.content)
    raise MisuseError(
        f"a brain has no form for {type(message).__name__} of LangChain: say it as a human message"
    )


def content_blocks(content: str | Sequence[str | JsonObject]) -> list[Block]:
    """Return the content of a message as blocks, without its calls and thoughts.

    Raises MisuseError for one that has no form here.
    """
    items = [content] if isinstance(content, str) else content
    found = [
        _block({"type": "text", "text": item} if isinstance(item, str) else item)
        for item in items
        if isinstance(item, str) or item.get("type") not in (_OWN_CALLS | THOUGHTS)
    ]
    return found or [{"type": "text", "text": EMPTY}]


def _block(item: JsonObject) -> Block:
    kind = item.get("type")
    if kind == "text":
        return {"type": "text", "text": item.get("text") or EMPTY}
    if kind == "image_url":
        image = item["image_url"]
        return {"type": "image", "source": _source_of_url(image if isinstance(image, str) else image["url"])}
    if kind in ("image", "document", "file"):
        what = "image" if kind == "image" else "document"
        if isinstance(source := item.get("source"), Mapping):
            return {"type": what, "source": dict(source)}
        if url := item.get("url"):
            return {"type": what, "source": _source_of_url(url)}
        if data := item.get("base64") or item.get("data"):
            return {"type": what, "source": _bytes(item.get("mime_type") or "image/jpeg", data)}
    raise MisuseError(
        f"a brain has no form for content of type {kind!r:.40}: give texts, images or documents"
    )


def _source_of_url(url: str) -> Block:
    if not url.startswith(_DATA):
        return {"type": "url", "url": url}
    kind, _, data = url.removeprefix(_DATA).partition(";base64,")
    return _bytes(kind, data)


def _bytes(kind: str, data: str) -> Block:
    return {"type": "base64", "media_type": kind, "data": data}


def usage_metadata(usage: Usage) -> UsageMetadata:
    """Return the usage of a question as the framework counts it: cached tokens are input."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    given = usage.input_tokens + cached
    return UsageMetadata(
        input_tokens=given,
        output_tokens=usage.output_tokens,
        total_tokens=given + usage.output_tokens,
        input_token_details=InputTokenDetails(
            cache_read=usage.cache_read_tokens, cache_creation=usage.cache_write_tokens
        ),
    )


def usage_of(metadata: UsageMetadata | None) -> Usage:
    """Return the usage that a message of the framework states."""
    if metadata is None:
        return Usage()
    details = metadata.get("input_token_details") or {}
    read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
    return Usage(
        input_tokens=max(0, metadata["input_tokens"] - read - written),
        output_tokens=metadata["output_tokens"],
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def from_blocks(messages: Iterable[JsonObject]) -> list[AnyMessage]:
    """Return the messages of a request as the framework's. Raises MisuseError for a block without a form."""
    found: list[AnyMessage] = []
    for said in messages:
        content = said["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [_reply(blocks)] if said["role"] == "assistant" else _requests(blocks)
    return found


def _reply(blocks: Sequence[Block]) -> AIMessage:
    calls, wrong = _calls([block for block in blocks if block["type"] == "tool_use"])
    texts = [block for block in blocks if block["type"] == "text" and block["text"] != EMPTY]
    content: Any = "\n".join(block["text"] for block in texts)
    if any("part" in block for block in blocks):  # thoughts, which go back to the service that signed them
        content = [block.get("part", block) for block in blocks if block in texts or "part" in block]
    return AIMessage(content=content, tool_calls=calls, invalid_tool_calls=wrong)


def reply_blocks(message: AIMessage, turn: int) -> list[Block]:
    """Return a reply of a chat model as blocks, with its thoughts as they came. turn: of the reply."""
    items = [message.content] if isinstance(message.content, str) else message.content
    found: list[Block] = []
    for item in items:
        if isinstance(item, dict) and item.get("type") in THOUGHTS:
            thought = item.get("thinking") or item.get("reasoning") or ""
            found.append({"type": "thinking", "thinking": thought, "part": item})
        elif item and (isinstance(item, str) or item.get("type") not in _OWN_CALLS):
            found += content_blocks([item])
    calls = [(call["name"], call["args"], call["id"]) for call in message.tool_calls]
    wrong = [(call["name"], call["args"] or "", call["id"]) for call in message.invalid_tool_calls]
    used = [
        {"type": "tool_use", "id": call or f"call_{turn}_{at}", "name": name, "input": given}
        for at, (name, given, call) in enumerate([*calls, *wrong])
    ]
    return [*found, *used]


def _requests(blocks: Sequence[Block]) -> list[AnyMessage]:
    found: list[AnyMessage] = []
    prompt: list[str | dict[Any, Any]] = []
    for block in blocks:
        if block["type"] == "tool_result":
            status = "error" if block.get("is_error") else "success"
            text = result_text(block["content"])
            found.append(ToolMessage(text, tool_call_id=block["tool_use_id"], status=status))
        else:
            prompt.append(_prompt_part(block))
    if prompt:
        first = prompt[0]
        alone = first["text"] if len(prompt) == 1 and isinstance(first, dict) and "text" in first else None
        found.append(HumanMessage(alone or prompt))
    return found


def result_text(content: object) -> str:
    """Return the content of a tool's result as text."""
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    if all(isinstance(block, dict) and block.get("type") == "text" for block in content):
        return "\n".join(block["text"] for block in content)
    return json.dumps(content)


def _prompt_part(block: Block) -> JsonObject:
    source = block.get("source") or {}
    match block["type"], source.get("type", ""):
        case "text", "":
            return {"type": "text", "text": block["text"]}
        case "image" | "document" as kind, "url":
            return {"type": "image" if kind == "image" else "file", "url": source["url"]}
        case "image" | "document" as kind, "base64":
            what = "image" if kind == "image" else "file"
            return {"type": what, "base64": source["data"], "mime_type": source["media_type"]}
        case kind, by:
            raise MisuseError(f"LangChain has no form for a block of type {kind!r:.40} by {by!r:.40}")


def prompt_message(prompt: object) -> HumanMessage:
    """Return the prompt of an ask, a text or blocks, as the framework's message."""
    if isinstance(prompt, str):
        return HumanMessage(prompt)
    assert isinstance(prompt, list)
    return HumanMessage([_prompt_part(block) for block in prompt])


def earlier_messages(runs: Iterable[tuple[str, str]]) -> list[AnyMessage]:
    """Return earlier asks of the session as a history. runs: the prompt and the answer of each."""
    found: list[AnyMessage] = []
    for prompt, answer in runs:
        found += [HumanMessage(prompt), AIMessage(answer or EMPTY)]
    return found
