"""Content blocks of a reply, made of the parts of the layer, and the way back.

A block has the shape of the Messages API, and under `part` everything that the layer's part has beside it:
ids, signatures, encrypted content. To the origin that made a block the same part goes back.

    part          block
    text          {"type":"text","text":...}
    tool call     {"type":"tool_use","id":...,"name":...,"input":...}
    thinking      {"type":"thinking","thinking":...}
    image         {"type":"image","source":{"type":"base64",...}}
    any other     {"type":"<kind of the part>"}, with the whole part under `part`

The arguments of a call are the bytes that the model wrote. Arguments that are not a JSON object become a JSON
string; empty ones and null an empty object. A call that is not to be run has its arguments as a JSON string
always, and the reason under `refused`. A call without an id, or with the id of another call of its
reply, gets one of ours, `call_<turn>_<number>`; its part keeps the id that came, if one did.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    BaseToolCallPart,
    BinaryContent,
    FilePart,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.runtime.models.call_arguments import cleaned
from callboard.runtime.sanitize import check_json, clean_text, encoded

_PARTS: Final[TypeAdapter[ModelResponsePart]] = TypeAdapter(ModelResponsePart)
_OWN_ID: Final = "pyd_ai_"  # the beginning of an id that the layer made for a call that came without one
_EMPTY: Final = Json(b"{}")


def blocks_of(parts: Sequence[ModelResponsePart], turn: int, refused: Sequence[str] = ()) -> Json:
    """Return the content blocks of a reply, a JSON list.

    turn: of the reply. refused: for each call the reason not to run it, "" to run it. Raises InvalidPrompt.
    """
    ids = _ids(parts, turn)
    reasons = dict(zip(ids, refused, strict=False))
    blocks = [_block(part, ids.get(at, ""), reasons.get(at, "")) for at, part in enumerate(parts)]
    return encoded(blocks, what="The reply")


def _ids(parts: Sequence[ModelResponsePart], turn: int) -> dict[int, str]:
    """Return the ids of the calls, each once, by the place of the call."""
    found: dict[int, str] = {}
    for at, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            came = clean_text(part.tool_call_id)  # two ids may be one once they are cleaned
            is_usable = not _is_ours(came) and came not in found.values()
            found[at] = came if is_usable else f"call_{turn}_{len(found)}"
    return found


def _is_ours(call_id: str) -> bool:
    """Return whether a call came without an id."""
    return not call_id or call_id.startswith(_OWN_ID)


def _block(part: ModelResponsePart, call_id: str, refused: str) -> dict[str, object]:
    dumped: JsonObject = _PARTS.dump_python(part, mode="json", exclude_none=True, exclude_defaults=True)
    dumped["part_kind"] = part.part_kind
    if isinstance(part, (TextPart, ThinkingPart)):
        return {"type": part.part_kind, part.part_kind: dumped.pop("content", ""), "part": dumped}
    if isinstance(part, ToolCallPart):
        return _call_block(part, call_id, dumped, refused)
    if isinstance(part, FilePart) and part.content.is_image:
        return _image_block(part.content, dumped)
    return {"type": part.part_kind, "part": dumped}


def _image_block(image: BinaryContent, dumped: JsonObject) -> dict[str, object]:
    dumped.pop("content", None)
    data = base64.b64encode(image.data).decode()
    source = {"type": "base64", "media_type": image.media_type, "data": data}
    return {"type": "image", "source": source, "part": dumped}


def _call_block(part: ToolCallPart, call_id: str, dumped: JsonObject, refused: str) -> dict[str, object]:
    for key in ("tool_name", "args", "tool_call_id"):
        dumped.pop(key, None)
    if part.tool_call_id != call_id and not _is_ours(part.tool_call_id):
        dumped["tool_call_id"] = part.tool_call_id
    block: JsonObject = {"type": "tool_use", "id": call_id, "name": part.tool_name}
    if refused:
        return {**block, "input": _written(part.args), "refused": refused, "part": dumped}
    return {**block, "input": _input(part.args), "part": dumped}


def _written(arguments: object) -> str:
    """Return the arguments of a call as text."""
    # A number that JSON does not have stays in sight, as Infinity.
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _input(arguments: object) -> object:
    """Return the arguments of a call as JSON: an object, or a string for arguments that are not an object."""
    written = _written(arguments)
    if written.strip() in ("", "null"):
        return _EMPTY
    try:
        checked = check_json(cleaned(written))
    except InvalidPrompt:
        return written
    return checked if bytes(checked).startswith(b"{") else written


def part_of(block: JsonObject, raw_input: Json | None) -> ModelResponsePart:
    """Return the part of a block of an assistant message. raw_input: of a call, as bytes."""
    known: JsonObject = dict(block.get("part") or {})
    if block["type"] == "text" and known.keys() <= {"part_kind"}:
        return TextPart(block["text"])  # most are: a fifth of the time of the way below
    return _PARTS.validate_python({**known, **_told(block, known, raw_input)})


def _told(block: JsonObject, known: JsonObject, raw_input: Json | None) -> JsonObject:
    """Return the fields of a part that its block holds in the form of the Messages API."""
    kind = block["type"]
    if kind in ("text", "thinking"):
        return {"part_kind": kind, "content": block[kind]}
    if kind == "tool_use":
        return {"tool_call_id": known.get("tool_call_id", block["id"]), **_call_of(block, raw_input)}
    if kind == "image":
        return {"part_kind": "file", "content": _image_of(block["source"])}
    return {}


def _call_of(block: Mapping[str, object], raw_input: Json | None) -> JsonObject:
    # Of arguments that are not an object the layer would make something up. `bodies` writes them in.
    raw = bytes(raw_input or b"{}")
    arguments = raw.decode() if raw.startswith(b"{") else "{}"
    return {"part_kind": "tool-call", "tool_name": block["name"], "args": arguments}


def _image_of(source: JsonObject) -> BinaryContent:
    return BinaryContent(base64.b64decode(source["data"]), media_type=source["media_type"])


def arguments_of(raw_input: Json | None) -> str:
    """Return the arguments of a call as the model wrote them."""
    raw = bytes(raw_input or b"{}")
    return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()


def is_call(part: ModelResponsePart) -> bool:
    """Return whether a part is a call of a tool of ours."""
    return isinstance(part, BaseToolCallPart) and isinstance(part, ToolCallPart)
