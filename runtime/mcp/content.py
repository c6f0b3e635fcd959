"""The answers of a server: a result as a model reads it, or a question to a person."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import mcp.types as types
import msgspec

from callboard.actors.protocol.errors import InvalidPrompt, ToolError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.value_types import InputAsked, InputGiven
from callboard.runtime.mcp.foreign_json import shown
from callboard.runtime.sanitize import clean_text, without_blanks
from callboard.runtime.tools.input_forms import InputNeeded, checked_forms
from callboard.runtime.tools.output import Blocks

_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF: Final = "application/pdf"
_DATA_BYTES_MAX: Final = 5_000_000  # bytes of an image that the Messages API takes
_MARKS: Final = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF": _PDF,
}
_DATA_URL: Final = re.compile(r"(?i)data:([\w.+-]{1,100}/[\w.+-]{1,100})?(?:;[\w=.+-]{1,100}){0,9};base64,")
_BLOCKS_MAX: Final = 1_000
_BLOCK_CHARS: Final = 4_000  # of a block that is shown as its JSON
_WORD: Final = re.compile(r"-?\w+(?:\.\w+)*(?:[+-]\d+)?")
_COMPARED_CHARS: Final = 100_000_000  # in the texts of a result, for the values of its structured data
_TRUE: Final = (True, "true", "True", 1)
Block = dict[str, object]
KEPT_CHARS_MAX: Final = 1_000_000
"""Characters of a server's own state of a call, which the log holds."""


class Unreadable(Exception):
    """An answer that is not a result; its text says why."""


class Result(NamedTuple):
    """A result of a tool. is_error: the tool says that it failed."""

    blocks: list[Block]
    is_error: bool

    @property
    def value(self) -> "str | Blocks":
        """The value that a tool function returns for this result."""
        blocks = [dict(block) for block in without_blanks(self.blocks)]
        if len(blocks) == 1 and blocks[0]["type"] == "text":
            return str(blocks[0]["text"])
        return Blocks(blocks) if blocks else "(no output)"

    @property
    def text(self) -> str:
        """The texts of the result, for an error."""
        return "\n".join(str(block["text"]) for block in self.blocks if block["type"] == "text")


def read_result(given: object) -> Result:
    """Read the result of a call. Raises Unreadable."""
    if not isinstance(given, dict):
        raise Unreadable(f"its result is not an object: {shown(given)}")
    content, data = given.get("content"), given.get("structuredContent")
    if content is None and data is None:
        return _oldest(given)
    blocks = _blocks(content) if data is None else _with_structured(_blocks(content), data)
    return Result(blocks, given.get("isError") in _TRUE)


def _with_structured(blocks: list[Block], data: object) -> list[Block]:
    """Return the blocks of a result, with its structured data where their texts leave a value out."""
    if blocks and _tells(blocks, data):
        return blocks
    more = _structured(data)
    if not blocks or blocks[-1]["type"] != "text":
        return [*blocks, more]
    return [*blocks[:-1], _text(f"{blocks[-1]['text']}\n{more['text']}")]  # one text stays one


def _oldest(given: dict[str, object]) -> Result:
    """Read a result in the form of the protocol 2024-10-07."""
    held = given.get("toolResult")
    if held is None:
        raise Unreadable(f"its result has neither content nor structuredContent: {shown(given)}")
    is_result = isinstance(held, dict) and "content" in held
    return read_result(held if is_result else {**given, "structuredContent": held})


def _blocks(content: object) -> list[Block]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise Unreadable(f"the content of its result is not a list: {shown(content)}")
    blocks = [_block(block) for block in content[:_BLOCKS_MAX]]
    if len(content) > _BLOCKS_MAX:
        blocks.append(_text(f"[cut: these are the first {_BLOCKS_MAX:,} of {len(content):,} blocks]"))
    return blocks


def _tells(blocks: list[Block], data: object) -> bool:
    """Return whether the texts of a result have every value of its structured data, in any form.

    Most servers say the same twice, as the protocol asks them to. Others say only how much there is.
    """
    text = "\n".join(str(block["text"]) for block in blocks if block["type"] == "text")
    try:
        if json.loads(text) == data:
            return True  # however large
    except (ValueError, RecursionError):
        pass
    words = set(_WORD.findall(text.lower()))
    left, looks = [data], _COMPARED_CHARS // (len(text) + 1)
    while left and looks:
        looks -= 1
        match left.pop():
            case dict(held):
                left += held.values()
            case list(held):
                left += held
            case str(said):
                forms = (said.strip(), *(json.dumps(said, ensure_ascii=one)[1:-1] for one in (True, False)))
                if not any(form in text for form in forms):
                    return False
            case bool() | int() | float() as said if json.dumps(said) not in words:
                return False
    return not left


def _structured(data: object) -> Block:
    try:
        return _text(json.dumps(data, ensure_ascii=False))
    except RecursionError:
        raise Unreadable("its structuredContent is nested too deeply") from None


def _block(given: object) -> Block:
    match given:
        case {"type": "text", "text": str(text)}:
            return _text(text)
        case {"type": "image", "data": str(data), **more}:
            return _data("image", _kind(more), data)
        case {"type": "resource", "resource": {"blob": str(blob), **more}}:
            return _data(f"resource {_name(more)}", _kind(more), blob)
        case {"type": "resource", "resource": {"text": str(text), **more}}:
            source = {"type": "text", "media_type": "text/plain", "data": clean_text(text)}
            return {"type": "document", "source": source, "title": _name(more)} if text else _text("")
        case {"type": "resource_link", "uri": str(uri), **more}:
            about = f": {more['description']}" if more.get("description") else ""
            return _text(f"[link to {more.get('name', uri)}, {uri}{about}]")
        case {"type": "audio", "data": str(), **more}:
            return _text(f"[audio of type {_kind(more) or 'unknown'}: models do not take it]")
        case {"type": str(kind)}:
            return _text(f"[block of type {kind:.64} in a form that is not known: {_shown(given)}]")
        case _:
            return _text(f"[block without a type: {_shown(given)}]")


def _shown(block: object) -> str:
    return shown(block, _BLOCK_CHARS)


def _kind(more: Mapping[object, object]) -> str:
    kind = more.get("mimeType")
    return kind.partition(";")[0].strip().lower() if isinstance(kind, str) else ""


def _name(more: Mapping[object, object]) -> str:
    uri = more.get("uri")
    return clean_text(uri) if isinstance(uri, str) else ""


def _data(what: str, media_type: str, data: str) -> Block:
    """Return a block with base64 data, or a text with the reason for its absence."""
    if (found := _DATA_URL.match(data)) is not None:  # some servers give the address of the data
        media_type, data = (found[1] or media_type).lower(), data[found.end() :]
    data = "".join(data.split())  # some encoders write lines
    media_type = _seen(data) or media_type  # a service refuses a request whose image is of another type
    kind = "image" if media_type in _IMAGES else "document" if media_type == _PDF else ""
    if not kind:
        return _text(f"[{what} of type {media_type or 'unknown'}: models do not take it]")
    if len(data) * 3 // 4 > _DATA_BYTES_MAX:
        return _text(
            f"[{what} left out: it has {len(data) * 3 // 4:,} bytes, models take {_DATA_BYTES_MAX:,}]"
        )
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return _text(f"[{what} left out: its data is not base64]")
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": kind, "source": source}


def _seen(data: str) -> str:
    """Return the type of data by its first bytes; empty if they say none."""
    try:
        begin = base64.b64decode(data[:16], validate=True)
    except (binascii.Error, ValueError):
        return ""
    if begin[:4] == b"RIFF" and begin[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _MARKS.items() if begin.startswith(mark)), "")


def _text(text: str) -> Block:
    return {"type": "text", "text": clean_text(text)}


async def refuse_request(context: object, params: object) -> types.ErrorData:
    """Refuse a request for input in the middle of a call."""
    why = "this client takes requests for input as the result of a call only (protocol 2026-07-28)"
    return types.ErrorData(code=types.INVALID_REQUEST, message=why)


def params_of(
    name: str, arguments: dict[str, object], given: InputGiven | None
) -> types.CallToolRequestParams:
    """Return the parameters of a call, with the input of its round."""
    if given is None:
        return types.CallToolRequestParams(name=name, arguments=arguments)
    return types.CallToolRequestParams(
        name=name,
        arguments=arguments,
        input_responses=_answers(given) or None,
        request_state=given.kept or None,
    )


def _answers(given: InputGiven) -> types.InputResponses:
    values = msgspec.json.decode(given.values) or {}
    return {
        form: types.ElicitResult(action=given.action, content=fields or None)
        for form, fields in values.items()
    }


def input_needed(server: str, elicits: bool, result: types.InputRequiredResult) -> InputNeeded:
    """Return the wish of a call for input. Raises ToolError where it is refused."""
    if not elicits:
        raise ToolError(
            f"{server} asks a person for input before it continues, which MCPServer(elicit=True) allows"
        )
    text = f"{server} asked a person for input, and the call did not go on"
    forms = _forms(server, result.input_requests or {})
    return InputNeeded(text, InputAsked(forms, _kept(server, result.request_state or "")))


def _kept(server: str, state: str) -> str:
    if state != clean_text(state) or len(state) > KEPT_CHARS_MAX:
        raise ToolError(f"{server} asks for input, with a state of the call that cannot be kept")
    return state


def _forms(server: str, requests: types.InputRequests) -> Json:
    try:
        return checked_forms({name: _form(server, one) for name, one in requests.items()})
    except InvalidPrompt as error:
        raise ToolError(f"{server} asks for input in a way that no person can answer: {error}") from None


def _form(server: str, request: types.InputRequest) -> dict[str, object]:
    if not isinstance(request, types.ElicitRequest):
        raise ToolError(f"{server} asks for {request.method}, which is refused")
    params = request.params
    if isinstance(params, types.ElicitRequestURLParams):
        return {"message": params.message, "url": params.url}
    return {"message": params.message, "schema": params.requested_schema}
