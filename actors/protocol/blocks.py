"""Single content blocks: read them, and rebuild those of another model's message for any service.

Only the parts that every service understands are kept, so no key of ours or of its maker stays in a block.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.immutable import NULL, Json

UNKNOWN: Final = "unknown"
NAME_CHARS_MAX: Final = 64  # of a tool, with most services

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
"""The kinds of blocks that hold a model's thinking."""

_PRIVATE: Final = THOUGHTS | frozenset(
    {
        "server_tool_use",
        "mcp_tool_use",
        "compaction",
        "container_upload",
        "builtin-tool-call",  # as pydantic-ai names the calls of a service's own tools
        "builtin-tool-return",
    }
)
_OF_MEDIA: Final = ("type", "source", "title", "context")
_SOURCES: Final = frozenset({"base64", "url", "text", "content"})
_NOT_IN_NAMES: Final = re.compile("[^a-zA-Z0-9_-]")
_NAME: Final = re.compile(f"[a-zA-Z0-9_-]{{1,{NAME_CHARS_MAX}}}")


class _Typed(msgspec.Struct, gc=False):
    type: str


class _Sourced(msgspec.Struct, gc=False):
    source: Json = NULL


class _Form(msgspec.Struct, gc=False):
    type: str
    source: "_FormOfSource | None" = None
    content: "str | tuple[_Form, ...]" = ()


class _FormOfSource(msgspec.Struct, gc=False):
    type: str


class _Forms(msgspec.Struct, gc=False):
    content: str | tuple[_Form, ...]


class _Text(msgspec.Struct, gc=False):
    text: str


class _Use(msgspec.Struct, tag="tool_use", tag_field="type", gc=False):
    id: str
    name: str
    input: Json


class _Unreadable(msgspec.Struct, gc=False):
    unreadable: str


class _Message(msgspec.Struct, gc=False):
    content: Json


_TYPED: Final = msgspec.json.Decoder(_Typed)
_SOURCED: Final = msgspec.json.Decoder(_Sourced)
_FORMS: Final = msgspec.json.Decoder(_Forms)
_TEXT: Final = msgspec.json.Decoder(_Text)
_USE: Final = msgspec.json.Decoder(_Use)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.Encoder().encode


def content_of(said: Json) -> Json:
    """Return the content of a message."""
    return _MESSAGE.decode(said).content


def kind_of(block: Json) -> str:
    """Return the type of a block, or `unknown` for a block without one."""
    try:
        return _TYPED.decode(block).type
    except msgspec.DecodeError:
        return UNKNOWN


def source_of(block: Json) -> str:
    """Return the type of a block's source, or an empty text for a block without one."""
    source = _SOURCED.decode(block).source
    return kind_of(source) if starts_with(b"{", source) else ""


def forms_in(said: Json) -> list[tuple[str, str]] | None:
    """Return the type and the type of the source of each block of a message, of those in a result, too.

    None for a message with a block of another form, which is to be read block by block.
    """
    try:
        content = _FORMS.decode(said).content
    except msgspec.DecodeError:
        return None
    return [("text", "")] if isinstance(content, str) else _forms(content)


def _forms(blocks: Iterable[_Form]) -> list[tuple[str, str]]:
    found = []
    for block in blocks:
        if block.type != "tool_result":
            found.append((block.type, "" if block.source is None else block.source.type))
        elif not isinstance(block.content, str):
            found += _forms(block.content)
    return found


def starts_with(start: bytes, value: Json) -> bool:
    """Return True if the bytes of a JSON value start so."""
    return bytes(memoryview(value)[: len(start)]) == start


def is_private(kind: str) -> bool:
    """Return True if blocks of this type mean something to their maker only."""
    return kind in _PRIVATE or kind.endswith("_tool_result")


def texts_of(block: Json) -> list[Json]:
    """Return the text of a block as a block, or nothing for a blank one. Raises DecodeError."""
    text = _TEXT.decode(block).text
    return [text_block(text)] if text.strip() else []


def id_of(block: Json) -> str:
    """Return the id of a call. Raises DecodeError."""
    return _USE.decode(block).id


def call_of(block: Json, use_id: str, name: re.Pattern[str]) -> Json:
    """Return a call under another id, with a name and arguments that every service takes.

    name: the pattern of the one that will read it, which may want more of a name than others do.
    """
    use = _USE.decode(block)
    arguments = use.input if starts_with(b"{", use.input) else unreadable(use.input)
    return Json(_encode(_Use(use_id, legal_name(legal_name(use.name), name), arguments)))


def legal_name(name: str, pattern: re.Pattern[str] = _NAME, chars_max: int = NAME_CHARS_MAX) -> str:
    """Return the name of a call as a service takes it: unchanged if it fits the pattern."""
    if pattern.fullmatch(name):
        return name
    legal = _NOT_IN_NAMES.sub("_", name)
    return legal[:chars_max] if pattern.fullmatch(legal[:chars_max]) else f"_{legal}"[:chars_max]


def unreadable(arguments: Json) -> Json:
    """Return arguments that are not a JSON object as one that says so. Never an empty object."""
    is_text = starts_with(b'"', arguments)
    return Json(_encode(_Unreadable(_STRING.decode(arguments) if is_text else bytes(arguments).decode())))


def medium_of(block: Json) -> Json | None:
    """Return an image or a document that any service can read; None for one that another service keeps."""
    if source_of(block) not in _SOURCES:
        return None
    parts = _OBJECT.decode(block)
    return Json(_encode({key: parts[key] for key in _OF_MEDIA if key in parts}))


def parts_of(block: Json) -> dict[str, Json]:
    """Return the values of a block by key."""
    return _OBJECT.decode(block)


def with_parts(block: Json, changed: dict[str, Json]) -> Json:
    """Return a block with other values under some of its keys; without other values, the same object."""
    return Json(_encode({**parts_of(block), **changed})) if changed else block


def are_same(before: Sequence[Json], after: Sequence[Json]) -> bool:
    """Return True if these are the same objects."""
    return all(one is other for one, other in zip(before, after, strict=True))


def as_list(blocks: Iterable[Json]) -> Json:
    """Return blocks as one content."""
    return Json(b"".join((b"[", b",".join(blocks), b"]")))
