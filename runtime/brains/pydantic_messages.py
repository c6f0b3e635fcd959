"""The messages of Pydantic AI as those of a request, and a reply as its response.

    part of a request       becomes
    system prompt           a part of the system prompt; one in mid-conversation, a text of the user
    user prompt             texts, images and documents, by their bytes or their URL
    tool return             the result of that call, an error if it failed or is to be made again
    retry prompt, feedback  the same result, or a text of the user

A reply keeps its blocks: its response goes back as the very message that came, unless it has been changed.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.layered.parts import blocks_of, part_of
from callboard.runtime.programs.model_reply import ModelReply

Block = JsonObject
Said = JsonObject

_FINISHES: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_call",
    "refusal": "content_filter",
}
_EMPTY: Final = "(empty)"


class Conversation:
    """The messages of one run. Each reply is known by its place, which its response carries."""

    def __init__(self) -> None:
        self._replies: list[tuple[list[Block], Sequence[object]]] = []

    def response(self, reply: ModelReply, model: str) -> ModelResponse:
        """Return a reply as the framework's response."""
        parts = [part_of(block, _input(block)) for block in reply.blocks]
        self._replies.append((reply.blocks, list(parts)))
        return ModelResponse(
            parts=parts,
            usage=usage_of(reply.usage),
            model_name=model,
            finish_reason=_FINISHES.get(reply.stop_reason),  # type: ignore[arg-type]  # one of its words
            metadata={"callboard": len(self._replies) - 1},
        )

    def written(self, messages: Iterable[ModelMessage]) -> tuple[list[str], list[Said]]:
        """Return the system prompts before the conversation, and its messages.

        Messages of one role in a row become one. Raises MisuseError for a part that has no form here.
        """
        system: list[str] = []
        said: list[Said] = []
        for message in messages:
            if isinstance(message, ModelResponse):
                _add(said, "assistant", self._blocks(message))
                continue
            blocks: list[Block] = []
            for part in message.parts:
                if isinstance(part, SystemPromptPart) and not said and not blocks:
                    system.append(part.content)
                else:
                    blocks += _request_blocks(part)
            _add(said, "user", blocks)
        return system, said

    def _blocks(self, response: ModelResponse) -> list[Block]:
        place = (response.metadata or {}).get("callboard")
        if isinstance(place, int) and place < len(self._replies):
            blocks, parts = self._replies[place]
            if list(response.parts) == parts:
                return blocks
        content = msgspec.json.decode(blocks_of(response.parts, len(self._replies)))
        return content or [{"type": "text", "text": _EMPTY}]


def _add(said: list[Said], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if said and said[-1]["role"] == role:
        said[-1] = {"role": role, "content": [*said[-1]["content"], *blocks]}
    else:
        said.append({"role": role, "content": blocks})


def _input(block: Block) -> Json | None:
    return Json(msgspec.json.encode(block["input"])) if block["type"] == "tool_use" else None


def _request_blocks(part: object) -> list[Block]:
    if isinstance(part, UserPromptPart):
        return user_blocks(part.content)
    if isinstance(part, ToolReturnPart):
        return [_result(part.tool_call_id, part.model_response_str(), is_error=part.outcome != "success")]
    if isinstance(part, RetryPromptPart) and part.tool_name is not None:
        return [_result(part.tool_call_id, part.model_response(), is_error=True)]
    if isinstance(part, SystemPromptPart):
        return [{"type": "text", "text": part.content}]
    told = getattr(part, "model_response", None)
    if callable(told):
        return [{"type": "text", "text": told()}]
    raise MisuseError(
        f"a brain has no form for {type(part).__name__} of Pydantic AI: leave it out of its messages"
    )


def _result(call: str, text: str, *, is_error: bool) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call, "content": text or _EMPTY}
    return {**block, "is_error": True} if is_error else block


def user_blocks(content: str | Sequence[UserContent]) -> list[Block]:
    """Return the content of a user's prompt as blocks. Raises MisuseError for one that has no form here."""
    items = [content] if isinstance(content, str) else content
    return [block for item in items for block in _content(item)]


def _content(item: UserContent) -> list[Block]:
    if isinstance(item, CachePoint):  # the model that is asked sets its own marks
        return []
    if isinstance(item, str):
        return [{"type": "text", "text": item or _EMPTY}]
    if isinstance(item, TextContent):
        return [{"type": "text", "text": item.content or _EMPTY}]
    if isinstance(item, ImageUrl):
        return [{"type": "image", "source": {"type": "url", "url": item.url}}]
    if isinstance(item, DocumentUrl):
        return [{"type": "document", "source": {"type": "url", "url": item.url}}]
    if isinstance(item, BinaryContent) and (item.is_image or item.is_document):
        data = base64.b64encode(item.data).decode()
        source = {"type": "base64", "media_type": item.media_type, "data": data}
        return [{"type": "image" if item.is_image else "document", "source": source}]
    raise MisuseError(
        f"a brain has no form for {type(item).__name__} in a prompt: give texts, images or documents"
    )


def user_content(prompt: Json) -> str | list[UserContent]:
    """Return the prompt of an ask as the framework takes it. Raises MisuseError for other blocks."""
    plain = msgspec.json.decode(prompt)
    if isinstance(plain, str):
        return plain
    return [_prompt_part(block) for block in plain]


def _prompt_part(block: Block) -> UserContent:
    source = block.get("source") or {}
    match block["type"], source.get("type", ""):
        case "text", "":
            return str(block["text"])
        case "image" | "document", "base64":
            return BinaryContent(base64.b64decode(source["data"]), media_type=source["media_type"])
        case "image", "url":
            return ImageUrl(url=source["url"])
        case "document", "url":
            return DocumentUrl(url=source["url"])
        case kind, _:
            raise MisuseError(f"a brain of Pydantic AI takes texts, images and documents, not {kind!r:.40}")


def usage_of(usage: Usage) -> RequestUsage:
    """Return the usage of a question as the framework counts it: cached tokens are input."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return RequestUsage(
        input_tokens=usage.input_tokens + cached,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


def earlier_messages(runs: Iterable[tuple[str, str]]) -> list[ModelMessage]:
    """Return earlier asks of the session as a history. runs: the prompt and the answer of each."""
    history: list[ModelMessage] = []
    for prompt, answer in runs:
        history.append(ModelRequest(parts=[UserPromptPart(prompt)]))
        parts = [part_of({"type": "text", "text": answer or _EMPTY}, None)]
        history.append(ModelResponse(parts=parts))
    return history
