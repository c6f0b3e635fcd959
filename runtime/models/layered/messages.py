"""A conversation as messages of the layer. Each message is converted for itself.

    block of a user          becomes
    text                     text of the user's prompt
    image                    the same image: by its bytes, its URL or its id
    document                 its text, or the same file by its bytes, its URL or its id
    tool_result              the result of that call; "Error: " stands before the text of an error
    any other                refused as `invalid_request_error`, before anything is sent

The images in a result stay there where the dialect allows that; elsewhere the user's prompt has them, after a
line that names the call. Text blocks of a result are joined by line breaks.
"""

import base64
import binascii
import mimetypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserContent,
    UserPromptPart,
)

from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.parts import arguments_of, part_of

ERROR: Final = "Error: "
_USUAL_TYPES: Final = {"image": "image/jpeg", "document": "application/pdf"}


class _Said(msgspec.Struct):
    """A message as the log has it."""

    role: str
    content: msgspec.Raw


class _Call(msgspec.Struct):
    """A block of a reply, with the arguments of a call as they were written."""

    type: str
    input: msgspec.Raw = msgspec.Raw()  # it never changes


_MESSAGE: Final = msgspec.json.Decoder(_Said)
_BLOCKS: Final = msgspec.json.Decoder(list[_Call])


class Maker(NamedTuple):
    """The maker of replies that go back.

    name: the layer's own name for the service. has_files_in_results: of the dialect. file_provider: the
    layer's name for the keeper of linked files, if the service loads them itself.
    """

    name: str
    url: str
    has_files_in_results: bool
    file_provider: Literal["", "google"] = ""


class Converted(NamedTuple):
    """Messages of the layer. written: the arguments of their calls, in order, as the model wrote them."""

    messages: list[ModelMessage]
    written: list[str]


def converted(messages: Sequence[Json], maker: Maker) -> Converted:
    """Convert messages. Raises CallFailed for a block that the layer cannot say."""
    found: list[ModelMessage] = []
    written: list[str] = []
    calls: dict[str, tuple[str, str]] = {}  # by our id: the id that the service knows, and the tool
    for message in messages:
        said = _MESSAGE.decode(message)
        blocks = _blocks(said.content)
        if said.role == "assistant":
            inputs = _inputs(said.content)
            written += map(arguments_of, inputs)
            found.append(_reply(blocks, iter(inputs), maker, calls))
        elif said.role == "user":
            found.append(_request(blocks, maker, calls))
        else:
            raise _unsayable(f"a message of role {said.role!r}")
    return Converted(found, written)


def _blocks(content: msgspec.Raw) -> list[JsonObject]:
    plain = msgspec.json.decode(content)
    return [{"type": "text", "text": plain}] if isinstance(plain, str) else plain


def _inputs(content: msgspec.Raw) -> list[Json | None]:
    """Return the arguments of the calls in a reply, each as the bytes that the model wrote."""
    if b'"tool_use"' not in bytes(content):
        return []
    calls = (block for block in _BLOCKS.decode(content) if block.type == "tool_use")
    return [Json(call.input) if call.input else None for call in calls]


def _reply(
    blocks: list[JsonObject], inputs: Iterator[Json | None], maker: Maker, calls: dict[str, tuple[str, str]]
) -> ModelResponse:
    parts = [_part(block, inputs, calls) for block in blocks]
    return ModelResponse(parts=parts, provider_name=maker.name, provider_url=maker.url)


def _part(
    block: JsonObject, inputs: Iterator[Json | None], calls: dict[str, tuple[str, str]]
) -> ModelResponsePart:
    kind = block["type"]
    if "part" not in block and kind not in ("text", "tool_use"):
        raise _unsayable(f"a block of type {kind!r} of another service")
    part = part_of(block, next(inputs) if kind == "tool_use" else None)
    if isinstance(part, ToolCallPart):
        calls[block["id"]] = (part.tool_call_id, part.tool_name)
    return part


def _request(blocks: list[JsonObject], maker: Maker, calls: dict[str, tuple[str, str]]) -> ModelRequest:
    parts: list[ModelRequestPart] = []
    prompt: list[UserContent] = []
    for block in blocks:
        if block["type"] == "tool_result":
            wire_id, name = calls.get(block["tool_use_id"], (block["tool_use_id"], "a call"))
            value, files = _result(block, name, maker)
            parts.append(ToolReturnPart(name, value, wire_id))
            prompt += files
        else:
            prompt.append(_user_content(block, maker))
    if prompt or not parts:
        parts.append(UserPromptPart(_alone(prompt)))
    return ModelRequest(parts=parts)


def _alone(prompt: list[UserContent]) -> str | list[UserContent]:
    """Return the text of a prompt that is one text, else all of the prompt."""
    first = prompt[0] if len(prompt) == 1 else None
    return first if isinstance(first, str) else prompt


def _result(block: JsonObject, name: str, maker: Maker) -> tuple[object, list[UserContent]]:
    """Return the value of a result, and the files that the prompt has instead."""
    texts, files = _texts_and_files(block.get("content", ""), maker)
    text = ERROR * bool(block.get("is_error")) + "\n".join(texts)
    if not files:
        return text or "(empty)", []
    if maker.has_files_in_results:
        return [*filter(None, [text]), *files], []
    return text or "(see below)", [f"Files in the result of {name}:", *files]


def _texts_and_files(content: Any, maker: Maker) -> tuple[list[str], list[UserContent]]:
    if isinstance(content, str):
        return [content], []
    items = [_user_content(block, maker) for block in content]
    texts = [item for item in items if isinstance(item, str)]
    return texts, [item for item in items if not isinstance(item, str)]


def _user_content(block: JsonObject, maker: Maker) -> UserContent:
    source = block.get("source") or {}
    by = source.get("type", "")
    if maker.file_provider and by in ("url", "file"):
        return _linked(block["type"], source, maker.url, maker.file_provider)
    make = _CONTENTS.get((block["type"], by))
    if make is None:
        raise _unsayable(f"a block of type {block['type']!r} by {by!r}")
    return make(source or block)


def _linked(kind: str, source: JsonObject, url: str, provider: Literal["google"]) -> UploadedFile:
    """Return a file that the service loads itself: the layer would load a URL here, and send the bytes."""
    address = str(source.get("url", source.get("file_id")))
    if address.startswith("files/"):
        address = f"{url.rstrip('/')}/v1beta/{address}"
    if not address.startswith("https://"):
        raise _unsayable(f"a file by {address!r}, which is not an https address")
    guess = mimetypes.guess_type(urlsplit(address).path)[0] or _USUAL_TYPES[kind]
    return UploadedFile(address, provider, media_type=source.get("media_type", guess))


def _data(source: JsonObject) -> bytes:
    try:
        return base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise _unsayable(f"a file whose data is not base64 ({error})") from None


def _file(source: JsonObject) -> BinaryContent:
    return BinaryContent(data=_data(source), media_type=source["media_type"])


_CONTENTS: Final[dict[tuple[str, str], Callable[[JsonObject], UserContent]]] = {
    ("text", ""): lambda block: str(block["text"]),
    ("image", "url"): lambda source: ImageUrl(url=source["url"]),
    ("image", "base64"): _file,
    ("document", "base64"): _file,
    ("document", "text"): lambda source: str(source["data"]),
}
"""Make content of a block of a user: by its type, and the type of its source."""


def _unsayable(what: str) -> CallFailed:
    text = f"nothing was sent: this service has no form for {what}"
    return CallFailed(ModelFailure("invalid_request_error", text), ZERO)


def system_text(system: Json) -> str:
    """Return the system prompt as text: its blocks joined by blank lines. Raises CallFailed."""
    plain = msgspec.json.decode(system)
    if plain is None or isinstance(plain, str):
        return plain or ""
    return "\n\n".join(_texts(plain))


def _texts(blocks: Iterable[JsonObject]) -> list[str]:
    found = []
    for block in blocks:
        if block.get("type") != "text":
            raise _unsayable(f"a block of type {block.get('type')!r} in the system prompt")
        found.append(str(block["text"]))
    return found
