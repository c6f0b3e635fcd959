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
NO_WORDS: Final = text_block("(no words)")
"""Stands for a reply that has none."""


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
    speaker = Speaker()
    return tuple(map(speaker.said, messages))


class Speaker:
    """Says one conversation in words, message after message."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of the tools, by the ids of the calls

    def said(self, message: Json) -> Json:
        """Return the next message in words."""
        return self._reply(message) if is_by("assistant", message) else self._heard(message)

    def _reply(self, said: Json) -> Json:
        found: list[Json] = []
        for block in blocks_of(content_of(said)):
            if kind_of(block) == "text":
                found += texts_of(block)
            elif kind_of(block) == "tool_use":
                use = _USE.decode(block)
                self._names[use.id] = use.name
                found.append(text_block(f"[call of {use.name}: {bytes(use.input).decode()}]"))
        return message("assistant", as_list(found or [NO_WORDS]))

    def _heard(self, said: Json) -> Json:
        blocks = blocks_of(content_of(said))
        if not any(kind_of(block) == "tool_result" for block in blocks):
            return said
        return message("user", as_list([part for block in blocks for part in self._spoken(block)]))

    def _spoken(self, block: Json) -> list[Json]:
        """Return a block of a user; for a result its words, and the images and files in it."""
        if kind_of(block) != "tool_result":
            return [block]
        result = _RESULT.decode(block)
        head = text_block(f"[result of {self._names.get(result.tool_use_id, 'a call')}:]")
        inner = blocks_of(Json(result.content))
        return [head, *(one for one in inner if kind_of(one) != "text" or texts_of(one))]
