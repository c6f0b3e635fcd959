"""Images and files in a conversation: their tokens do not follow from the bytes that name them.

A part is `linked` if the message holds its address or id only. Its service reads as many bytes as it finds
there. An embedded part has its data in the message, as base64, which says little about its tokens either.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from callboard.actors.protocol.blocks import content_of, kind_of, source_of
from callboard.actors.protocol.conversation import blocks_of
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec

_LINKS: Final = frozenset({"url", "file"})


class Media(msgspec.Struct, frozen=True, gc=False):
    """The images and files in some messages. bytes: of their blocks. links: those that are linked."""

    images: int = 0
    files: int = 0
    bytes: int = 0
    links: int = 0

    def tokens(self, spec: ModelSpec) -> int | None:
        """Return the most tokens that a model reads in place of these blocks; None if it states no most."""
        if (self.images and not spec.image_tokens) or (self.files and not spec.file_tokens):
            return None
        return self.images * spec.image_tokens + self.files * spec.file_tokens


NO_MEDIA: Final = Media()


def together(one: Media, other: Media) -> Media:
    """Return the media of both."""
    return Media(
        one.images + other.images, one.files + other.files, one.bytes + other.bytes, one.links + other.links
    )


def media_in(said: Json) -> Media:
    """Return the images and files in a message."""
    # Nearly always nothing is decoded. `in` would first try to read the text as a number, by an exception.
    if bytes(said).find(b'"source"') < 0:
        return NO_MEDIA
    found = NO_MEDIA
    for block in _all_blocks(blocks_of(content_of(said))):
        found = together(found, _media_of(block))
    return found


def _all_blocks(blocks: Iterable[Json]) -> Iterable[Json]:
    for block in blocks:
        if kind_of(block) == "tool_result":
            inner = content_of(block)
            yield from blocks_of(inner) if bytes(inner).startswith(b"[") else ()
        else:
            yield block


def _media_of(block: Json) -> Media:
    kind = kind_of(block)
    if kind not in ("image", "document"):
        return NO_MEDIA
    is_linked = source_of(block) in _LINKS
    return Media(int(kind == "image"), int(kind != "image"), len(block), int(is_linked))
