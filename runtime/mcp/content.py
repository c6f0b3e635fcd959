"""The result of a server's tool, as a model reads it.

text                       text
image                      an image block, if models take its type and size
embedded text              a document block
embedded image or PDF      an image or document block
audio, links, other        a text that names it
structured data alone      its JSON, as text
"""

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Final

import mcp.types as types

from callboard.runtime.tools.output import Blocks

_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF: Final = "application/pdf"
_DATA_BYTES_MAX: Final = 5_000_000  # bytes of an image that the Messages API takes


def value_of(result: types.CallToolResult) -> "str | Blocks":
    """Return the value that a tool function returns for this result."""
    # Services refuse an empty text block.
    blocks = [block for block in _blocks(result) if block.get("text") != ""]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return str(blocks[0]["text"])
    return Blocks(blocks) if blocks else "(no output)"


def text_of(result: types.CallToolResult) -> str:
    """Return the texts of a result, for an error."""
    return "\n".join(str(block["text"]) for block in _blocks(result) if block["type"] == "text")


def _blocks(result: types.CallToolResult) -> Iterator[dict[str, object]]:
    if not result.content and result.structured_content is not None:
        yield _text(json.dumps(result.structured_content, ensure_ascii=False))
    for block in result.content:
        yield _block(block)


def _block(block: types.ContentBlock) -> dict[str, object]:
    match block:
        case types.TextContent():
            return _text(block.text)
        case types.ImageContent():
            return _data("image", block.mime_type, block.data)
        case types.EmbeddedResource():
            return _embedded(block.resource)
        case types.ResourceLink():
            about = f": {block.description}" if block.description else ""
            return _text(f"[link to {block.name}, {block.uri}{about}]")
        case types.AudioContent():
            return _text(f"[audio of type {block.mime_type}: models do not take it]")


def _embedded(held: types.TextResourceContents | types.BlobResourceContents) -> dict[str, object]:
    if isinstance(held, types.BlobResourceContents):
        return _data(f"resource {held.uri}", held.mime_type or "", held.blob)
    source = {"type": "text", "media_type": "text/plain", "data": held.text}
    return {"type": "document", "source": source, "title": held.uri} if held.text else _text("")


def _data(what: str, media_type: str, data: str) -> dict[str, object]:
    """Return a block with base64 data, or a text with the reason for its absence."""
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
        return _text(f"[{what} left out: its data is no base64]")
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": kind, "source": source}


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}
