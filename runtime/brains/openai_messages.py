"""The items of the Responses API as the messages of a request, and a reply as such items.

    item of a request        becomes
    message of a user        texts, images and documents, by their bytes or their URL
    system, developer        a part of the system prompt; one in mid-conversation, a text of the user
    message, function call   a text, a call
    output of a call         the result of that call, an error if its tool failed
    reasoning                left out, unless it came from the model that is asked

A reply keeps its blocks: its items go back as the very message that came, unless they have been changed.
Each call gets an id of its own, because the framework takes a second call with an id for the first one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from agents.items import ModelResponse, TResponseInputItem, TResponseOutputItem
from agents.usage import Usage as FrameworkUsage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.usage import Usage
from callboard.runtime.brains.common import EMPTY, NOTHING_SAID, with_note
from callboard.runtime.programs.model_reply import ModelReply

Block = JsonObject
Item = Mapping[str, Any]
Said = JsonObject

FINAL: Final = "final_output"
"""The tool by which a model gives an output of a type."""

GO_ON: Final = "Go on."
"""What a model is told where a hand-off, or a filter of its input, ends with words of a model."""

_SYSTEM: Final = ("system", "developer")


class Conversation:
    """The items of one run, with those of the runs inside it.

    failed: the ids of the calls whose tools failed. notes: by the ids of calls, the words for the model that
    stand before their results.
    """

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.notes: dict[str, str] = {}
        self._replies: dict[str, tuple[list[JsonObject], list[Block]]] = {}
        self._blocks: dict[str, Block] = {}
        self._calls: dict[str, Block] = {}

    # --- replies ----------------------------------------------------------------------

    def response(self, reply: ModelReply) -> ModelResponse:
        """Return a reply as the framework's response."""
        place = len(self._replies)
        blocks = _with_output(reply)
        if reply.stop_reason == "refusal":
            output: list[TResponseOutputItem] = [_message(f"cb{place}_0", blocks, ResponseOutputRefusal)]
        else:
            output = self._items(place, blocks)
        response = ModelResponse(output=output, usage=usage_of(reply.usage), response_id=None)
        items = [dict(item) for item in response.to_input_items()]
        self._replies[str(items[0]["id"])] = items, blocks
        return response

    def _items(self, place: int, blocks: list[Block]) -> list[TResponseOutputItem]:
        texts = [block for block in blocks if block["type"] == "text"]
        found: list[TResponseOutputItem] = []
        for at, block in enumerate(blocks):
            name = f"cb{place}_{at}"
            if block["type"] == "tool_use":
                found.append(self._call(name, block))
            elif block["type"] != "text":
                self._blocks[name] = block
                found.append(_reasoning(name, block))
            elif block is texts[0]:  # one message with all of them: the framework reads the last message
                found.append(_message(name, texts, ResponseOutputText))
        return found or [_message(f"cb{place}_0", [], ResponseOutputText)]

    def _call(self, name: str, block: Block) -> ResponseFunctionToolCall:
        given = str(block["id"])
        call = given if given not in self._calls else f"{given}_{name}"
        self._calls[call] = block
        arguments = written_input(block["input"])
        return ResponseFunctionToolCall(
            id=name,
            call_id=call,
            name=block["name"],
            arguments=arguments,
            type="function_call",
            status="completed",
        )

    # --- requests ---------------------------------------------------------------------

    def written(self, items: str | Sequence[TResponseInputItem]) -> tuple[list[str], list[Said]]:
        """Return the system prompts before the conversation, and its messages.

        Messages of one role in a row become one. Raises MisuseError for an item that has no form here.
        """
        if isinstance(items, str):
            return [], [{"role": "user", "content": [_text(items)]}]
        system: list[str] = []
        said: list[Said] = []
        at = 0
        while at < len(items):
            item: Item = items[at]
            count, blocks = self._reply(items, at)
            if count:
                _add(said, "assistant", blocks)
            elif item.get("role") in _SYSTEM and not said:
                system += [block["text"] for block in _content(item["content"]) if "text" in block]
            else:
                _add(said, *self._said(item))
            at += count or 1
        if said and said[0]["role"] == "assistant":  # no service takes one that begins so
            said.insert(0, NOTHING_SAID)
        if said and said[-1]["role"] == "assistant":  # a service would take it for the start of its reply
            said.append({"role": "user", "content": [_text(GO_ON)]})
        return system, said

    def _reply(self, items: Sequence[Item], at: int) -> tuple[int, list[Block]]:
        """Return the blocks of the reply whose unchanged items come next, and their number."""
        known = self._replies.get(str(items[at].get("id")))
        if known is None or [*map(dict, items[at : at + len(known[0])])] != known[0]:
            return 0, []
        return len(known[0]), known[1]

    def _said(self, item: Item) -> tuple[str, list[Block]]:
        match item.get("type", "message"):
            case "message":
                role = "assistant" if item["role"] == "assistant" else "user"
                return role, _content(item["content"])
            case "function_call":
                return "assistant", [self._call_block(item)]
            case "function_call_output":
                return "user", [self._result(item)]
            case "reasoning":
                known = self._blocks.get(str(item.get("id")))
                return "assistant", [] if known is None else [known]
            case kind:
                raise MisuseError(
                    f"a brain has no form for an item of type {kind!r:.40}: leave it out of its input"
                )

    def _call_block(self, item: Item) -> Block:
        arguments = str(item["arguments"] or "")
        known = self._calls.get(item["call_id"])
        if known is not None and known["name"] == item["name"]:
            return {**known, "input": input_of_call(arguments)}
        return {
            "type": "tool_use",
            "id": item["call_id"],
            "name": item["name"],
            "input": input_of_call(arguments),
        }

    def _result(self, item: Item) -> Block:
        call = item["call_id"]
        known = self._calls.get(call)
        block: Block = {"type": "tool_result", "tool_use_id": call if known is None else known["id"]}
        output = item["output"]
        told = output or EMPTY if isinstance(output, str) else _content(output)
        block["content"] = with_note(self.notes.get(call, ""), told)
        return {**block, "is_error": True} if call in self.failed else block


def _with_output(reply: ModelReply) -> list[Block]:
    """Return the blocks of a reply. The first output of a type stands for all that is said beside it."""
    outputs = [block for block in reply.blocks if block["type"] == "tool_use" and block["name"] == FINAL]
    if not outputs:
        return reply.blocks
    # Kept as a text, too: there will be no result of this call.
    output = _text(msgspec.json.encode(outputs[0]["input"]).decode())
    kept = [block for block in reply.blocks if block["type"] != "text" and block not in outputs]
    return [*kept, output]


def _message(
    name: str, texts: Iterable[Block], kind: type[ResponseOutputText] | type[ResponseOutputRefusal]
) -> ResponseOutputMessage:
    parts: list[Any] = []
    for block in texts:
        text = block.get("text", "")
        if kind is ResponseOutputRefusal:
            parts.append(ResponseOutputRefusal(type="refusal", refusal=text))
        else:
            parts.append(ResponseOutputText(type="output_text", text=text, annotations=[]))
    return ResponseOutputMessage(id=name, content=parts, role="assistant", status="completed", type="message")


def _reasoning(name: str, block: Block) -> ResponseReasoningItem:
    thought = block.get("thinking") if block["type"] == "thinking" else None
    summary = [Summary(type="summary_text", text=thought)] if thought else []
    return ResponseReasoningItem(id=name, summary=summary, type="reasoning")


def _add(said: list[Said], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if said and said[-1]["role"] == role:
        said[-1] = {"role": role, "content": [*said[-1]["content"], *blocks]}
    else:
        said.append({"role": role, "content": blocks})


def _text(text: str) -> Block:
    return {"type": "text", "text": text or EMPTY}


def written_input(given: object) -> str:
    """Return the input of a call as its arguments: text that is not an object goes back as it came."""
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def input_of_call(arguments: str) -> object:
    """Return the arguments of a call as its input: an object, or a text that is not one."""
    try:
        found = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return arguments
    return found if isinstance(found, dict) else arguments


def _content(content: object) -> list[Block]:
    if isinstance(content, str):
        return [_text(content)]
    assert isinstance(content, Iterable)
    return [part_block(part) for part in content] or [_text("")]


def part_block(part: Item) -> Block:
    """Return a part of a message, or of a tool's output, as a block. Raises MisuseError."""
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return _text(part["text"])
    if kind == "refusal":
        return _text(part["refusal"])
    if kind == "input_image" and (url := part.get("image_url")):
        return {"type": "image", "source": _source(url)}
    if kind == "input_file" and (url := part.get("file_url") or part.get("file_data")):
        return {"type": "document", "source": _source(url)}
    raise MisuseError(
        f"a brain has no form for a part of type {kind!r:.40} without its bytes or a URL: "
        "give texts, images or files"
    )


def _source(url: str) -> Block:
    head, comma, data = url.partition(";base64,")
    if not comma:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}


def output_part(block: Block) -> JsonObject:
    """Return a block of a tool's result as a part of an output. Raises MisuseError."""
    part = input_part(block)
    return {**part, "type": part["type"].removeprefix("input_")}


# --- prompts ----------------------------------------------------------------------------


def input_of(prompt: Json, earlier: Iterable[tuple[str, str]]) -> list[TResponseInputItem]:
    """Return earlier asks of a session, and the prompt of this one, as input. Raises MisuseError.

    earlier: the prompt and the answer of each.
    """
    found: list[Any] = []
    for asked, answer in earlier:
        found.append({"role": "user", "content": asked or EMPTY})
        found.append({"role": "assistant", "content": answer or EMPTY})
    plain = msgspec.json.decode(prompt)
    content = plain if isinstance(plain, str) else [input_part(block) for block in plain]
    return [*found, {"role": "user", "content": content}]


def input_part(block: Block) -> JsonObject:
    """Return a block of a user as a part of an input. Raises MisuseError."""
    source = block.get("source") or {}
    url = source.get("url", "")
    if source.get("type") == "base64":
        url = f"data:{source['media_type']};base64,{source['data']}"
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    if block["type"] == "image" and url:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if block["type"] == "document" and url:
        return {"type": "input_file", ("file_url" if source.get("url") else "file_data"): url}
    raise MisuseError(f"the OpenAI Agents SDK takes texts, images and documents, not {block['type']!r:.40}")


def usage_of(usage: Usage) -> FrameworkUsage:
    """Return the usage of a question as the framework counts it: cached tokens are input."""
    cached = usage.cache_read_tokens
    input_tokens = usage.input_tokens + cached + usage.cache_write_tokens
    return FrameworkUsage(
        requests=1,
        input_tokens=input_tokens,
        input_tokens_details=InputTokensDetails(
            cached_tokens=cached, cache_write_tokens=usage.cache_write_tokens
        ),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        total_tokens=input_tokens + usage.output_tokens,
    )
