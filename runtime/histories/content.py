"""The content of a message in any shape, as blocks of the Messages API.

text, input_text, output_text      text; a blank one is left out
refusal                            its text
image_url, input_image             image, from a data URL or an address
file, input_file                   document, from a data URL or an address
image, document, thinking, ...     the same block without its cache mark
audio, the id of a file            a text that names the part left out
any other part                     its JSON as text

The faults of a history, and the repairs that make up for them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.blocks import is_private
from callboard.actors.protocol.errors import InvalidHistory
from callboard.actors.protocol.immutable import JsonObject

Block: TypeAlias = JsonObject
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "summary_text"})
_IMAGES: Final = frozenset({"image_url", "input_image"})
_FILES: Final = frozenset({"file", "input_file"})
_WITHOUT: Final = frozenset({"input_audio", "audio", "output_audio", "input_video", "video_url"})
_KEPT: Final = frozenset({"image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"})
_READ: Final = _TEXTS | _IMAGES | _FILES | _WITHOUT | _KEPT | {"refusal"}
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
_FAULT_CHARS_MAX: Final = 300


def text_of(text: str) -> Block:
    """Return a text as a block."""
    return {"type": "text", "text": text}


def blocks_in(content: object) -> list[Block]:
    """Return the blocks of a content: a text, a list of parts, one part, or nothing."""
    if isinstance(content, list):
        return [block for part in content for block in _blocks_of(part)]
    return list(_blocks_of(content))


def _blocks_of(part: object) -> Iterator[Block]:
    if isinstance(part, str):
        if part.strip():
            yield text_of(part)
    elif isinstance(part, dict):
        yield from _of_part(part)
    elif part is not None:
        yield text_of(str(part))


def _of_part(part: Block) -> Iterator[Block]:
    kind = _kind_of(part)
    if kind in _TEXTS:
        yield from _blocks_of(_inner(part.get("text"), "value"))
    elif kind == "refusal":
        yield from _blocks_of(part.get("refusal"))
    elif kind in _IMAGES:
        yield _medium("image", _inner(part.get("image_url"), "url"))
    elif kind in _FILES:
        file = part["file"] if isinstance(part.get("file"), dict) else part
        yield _medium("document", file.get("file_data") or file.get("file_url"))
    elif kind in _WITHOUT:
        yield left_out(kind)
    elif is_known(part):
        yield without_marks(part)
    else:
        yield text_of(msgspec.json.encode(part).decode())


def _kind_of(part: Block) -> str:
    return str(part.get("type", "text" if "text" in part else ""))


def is_known(part: object) -> bool:
    """Return False for a part of a type that none of the shapes has, or without a type."""
    if not isinstance(part, dict):
        return True
    kind = _kind_of(part)
    return kind in _READ or is_private(kind)


def _inner(value: object, key: str) -> object:
    """Return the value itself, or that under a key of it: `image_url` is a text or an object with `url`."""
    return value.get(key) if isinstance(value, Mapping) else value


def _medium(kind: str, place: object) -> Block:
    """Return an image or a document. place: a data URL or an address."""
    if not isinstance(place, str) or not place:  # the id of a file, which another service keeps
        return left_out(kind)
    if found := _DATA_URL.match(place):
        source = {"type": "base64", "media_type": found[1], "data": place[found.end() :]}
    elif place.startswith(("https://", "http://")):
        source = {"type": "url", "url": place}
    else:
        return left_out(kind)
    return {"type": kind, "source": source}


def left_out(what: str) -> Block:
    """Return the block in place of a part that cannot be handed on."""
    return text_of(f"[Left out: {what}]")


def without_marks(block: Block) -> Block:
    """Return a block without its cache mark: a request has few, and the agent sets its own."""
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    content = kept.get("content")
    if isinstance(content, list):
        kept["content"] = [without_marks(one) if isinstance(one, dict) else one for one in content]
    return kept


class Repair(msgspec.Struct, frozen=True):
    """A repair of a history. index: of the message, from 0. fault: of it. done: the change made for it.

    >>> print(Repair(3, "is empty", "it is left out"))
    messages[3] is empty: it is left out
    """

    index: int
    fault: str
    done: str

    def __str__(self) -> str:
        return f"messages[{self.index}] {self.fault}: {self.done}"


class Repairs:
    """The repairs of one history, in the order in which they were made."""

    def __init__(self) -> None:
        self._made: list[Repair] = []

    def add(self, index: int, fault: str, done: str) -> None:
        """Add a repair."""
        self._made.append(Repair(index, fault[:_FAULT_CHARS_MAX], done))

    @property
    def made(self) -> tuple[Repair, ...]:
        """Return the repairs in the order of the messages."""
        return tuple(sorted(self._made, key=lambda one: one.index))

    def refuse(self) -> None:
        """Raise InvalidHistory for the first fault, if there is one."""
        for first in self.made[:1]:
            left = len(self._made) - 1
            raise InvalidHistory(first.index, first.fault, left)
