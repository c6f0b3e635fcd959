"""Messages of a conversation, as JSON in the shape of the Messages API. None of them ever changes."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, Literal

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import NULL, Json, JsonObject


class _ToolResult(
    msgspec.Struct, frozen=True, tag="tool_result", tag_field="type", omit_defaults=True, gc=False
):
    tool_use_id: str
    content: Json
    is_error: bool = False


class _ProgramResult(_ToolResult, frozen=True, tag="tool_result", tag_field="type", gc=False):
    status: str = ""
    value: Json = NULL
    text: str = ""
    ends: str = ""
    reply: Json = NULL
    changed: Json = NULL


class _Text(msgspec.Struct, frozen=True, tag="text", tag_field="type", gc=False):
    text: str


def text_json(text: str) -> Json:
    """Return a text as a JSON string."""
    return Json(encode(text))


def message(role: Literal["user", "assistant"], content: Json) -> Json:
    """Build a message. content: a JSON string or a list of blocks."""
    return Json(b"".join((b'{"role":"', role.encode(), b'","content":', content, b"}")))


def decoded(messages: Iterable[Json]) -> list[JsonObject]:
    """Decode a conversation into Python values, which belong to the caller."""
    return [msgspec.json.decode(one, type=JsonObject) for one in messages]


def tool_result(use_id: str, output: Json, is_error: bool) -> Json:
    """Build the block that answers a tool call."""
    return Json(encode(_ToolResult(use_id, output, is_error)))


def program_result(
    use_id: str,
    output: Json,
    status: str,
    *,
    is_error: bool,
    value: Json = NULL,
    text: str = "",
    ends: str = "",
    reply: Json = NULL,
    changed: Json = NULL,
) -> Json:
    """Build the block that answers a program's ask.

    status: `ok`, `error`, `interrupted`, `denied`, `cancelled`, or the kind of a delegation that failed.
    value: the value of a delegation, null for none. text: the last words of one that failed.
    ends: the kind of the end that its program cannot avert from here on, empty for none.
    reply: of a question with a whole request, why its reply stopped, and the usage; null for any other ask.
    changed: the arguments that a person gave the call instead of the program's; null for none.
    """
    return Json(encode(_ProgramResult(use_id, output, is_error, status, value, text, ends, reply, changed)))


def text_block(text: str) -> Json:
    """Build a block of text."""
    return Json(encode(_Text(text)))


def user_message(blocks: tuple[Json, ...], prompt: Json = NULL) -> Json:
    """Build a user's message: the results, then the prompt."""
    if not blocks:
        return message("user", prompt)
    parts: list[Json | bytes] = list(blocks)  # first: the API refuses results behind other blocks
    if bytes(prompt).startswith(b"["):
        inner = bytes(prompt).strip()[1:-1].strip()
        parts += [inner] if inner else []
    elif prompt != NULL:
        parts.append(b"".join((b'{"type":"text","text":', prompt, b"}")))
    return Json(b"".join((b'{"role":"user","content":[', b",".join(parts), b"]}")))


def system_message(blocks: tuple[Json, ...]) -> Json:
    """Build a message about the conversation itself, such as one that changes the tools."""
    return Json(b"".join((b'{"role":"system","content":[', b",".join(blocks), b"]}")))


_START: Final = {role: f'{{"role":"{role}"'.encode() for role in ("user", "assistant", "system")}


def is_by(role: Literal["user", "assistant", "system"], said: Json) -> bool:
    """Return True if a message that this module has built is of this role."""
    return bytes(memoryview(said)[: len(_START[role])]) == _START[role]


_BLOCKS: Final = msgspec.json.Decoder(tuple[Json, ...])


def blocks_of(content: Json) -> tuple[Json, ...]:
    """Return the blocks of a content: those of a list, one for a text, none for null."""
    if content == NULL:
        return ()
    if bytes(content).lstrip().startswith(b"["):
        return _BLOCKS.decode(content)
    return (Json(b"".join((b'{"type":"text","text":', content, b"}"))),)


def joined(first: Json, second: Json) -> Json:
    """Return one content with the blocks of two. Null has none."""
    if first == NULL:
        return second
    return Json(b"".join((b"[", b",".join((*blocks_of(first), *blocks_of(second))), b"]")))


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def merged(first: Json, second: Json) -> Json:
    """Return a JSON object with the values of two; a value of the second one counts. Null has none."""
    if first == NULL or second == NULL:
        return second if first == NULL else first
    return Json(encode({**_OBJECT.decode(first), **_OBJECT.decode(second)}))


# Copied for each digest: a new hash object costs as much as hashing a message.
_FRESH: Final = blake2b(digest_size=16, person=b"callboard/req")


def rolled(digest: str, *parts: Json) -> str:
    """Digest the parts of a request that follow those of a digest: 128 bits of blake2b, in hex."""
    state = _FRESH.copy()
    state.update(digest.encode())
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.hexdigest()
