"""Calls and results as words, for a model that is offered no tools.

Services refuse calls in the conversation of a request without tools. A reply whose calls become words has no
signature or reasoning left either: they are valid only beside the calls that they led to.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from callboard.actors.protocol.blocks import as_list, content_of, kind_of, texts_of
from callboard.actors.protocol.conversation import blocks_of, is_by, message, text_block
from callboard.actors.protocol.immutable import NULL, Json


class _Use(msgspec.Struct, gc=False):
    id: str = ""
    name: str = ""
    input: msgspec.Raw = NULL


class _Result(msgspec.Struct, gc=False):
    tool_use_id: str = ""
    content: msgspec.Raw = NULL


_USE: Final = msgspec.json.Decoder(_Use)
_RESULT: Final = msgspec.json.Decoder(_Result)
_TEXT: Final = msgspec.json.Decoder(str)
_NO_WORDS: Final = text_block("(no words)")


def has_calls(messages: Iterable[Json]) -> bool:
    """Return True if one of these messages calls a tool."""
    return any(
        kind_of(block) == "tool_use"
        for said in messages
        if b'"tool_use"' in bytes(said)
        for block in blocks_of(content_of(said))
    )


def in_words(messages: Iterable[Json]) -> tuple[Json, ...]:
    """Return messages in which every call and result is a text, and every reply is text alone."""
    names: dict[str, str] = {}
    return tuple(
        _reply(said, names) if is_by("assistant", said) else _heard(said, names) for said in messages
    )


def _reply(said: Json, names: dict[str, str]) -> Json:
    found: list[Json] = []
    for block in blocks_of(content_of(said)):
        if kind_of(block) == "text":
            found += texts_of(block)
        elif kind_of(block) == "tool_use":
            use = _USE.decode(block)
            names[use.id] = use.name
            found.append(text_block(f"[call of {use.name}: {bytes(use.input).decode()}]"))
    return message("assistant", as_list(found or [_NO_WORDS]))


def _heard(said: Json, names: dict[str, str]) -> Json:
    blocks = blocks_of(content_of(said))
    if not any(kind_of(block) == "tool_result" for block in blocks):
        return said
    return message("user", as_list([part for block in blocks for part in _spoken(block, names)]))


def _spoken(block: Json, names: dict[str, str]) -> list[Json]:
    """Return a block of a user; for a result its words, and the images and files in it."""
    if kind_of(block) != "tool_result":
        return [block]
    result = _RESULT.decode(block)
    head = text_block(f"[result of {names.get(result.tool_use_id, 'a call')}:]")
    inner = blocks_of(Json(result.content))
    return [head, *(one for one in inner if kind_of(one) != "text" or texts_of(one))]
