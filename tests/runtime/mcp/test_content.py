"""Results of servers, as models read them."""

import base64
from typing import Any

import mcp.types as types

from callboard import Blocks
from callboard.runtime.mcp.content import text_of, value_of

PIXEL = base64.b64encode(b"\x89PNG").decode()


def value(*content: Any, **more: Any) -> Any:
    found = value_of(types.CallToolResult(content=list(content), **more))
    return found.blocks if isinstance(found, Blocks) else found


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def image(data: str = PIXEL, kind: str = "image/png") -> types.ImageContent:
    return types.ImageContent(type="image", data=data, mime_type=kind)


def embedded(**held: Any) -> types.EmbeddedResource:
    kind = types.BlobResourceContents if "blob" in held else types.TextResourceContents
    return types.EmbeddedResource(type="resource", resource=kind(uri="file:///a", **held))


def test_one_text_is_a_text_and_several_are_blocks() -> None:
    assert value(text("one")) == "one"
    assert value(text("one"), text("two")) == [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
    ]
    assert value(text("one"), text("")) == "one"
    assert value(text("")) == value() == "(no output)"


def test_structured_data_is_text_where_there_is_nothing_else() -> None:
    assert value(structured_content={"a": ["\u00e9"]}) == '{"a": ["\u00e9"]}'
    assert value(text("one"), structured_content={"a": 1}) == "one"


def test_images_and_embedded_resources_are_blocks() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert value(image()) == [{"type": "image", "source": source}]
    assert value(embedded(blob=PIXEL, mime_type="image/png")) == [{"type": "image", "source": source}]
    pdf = value(embedded(blob=PIXEL, mime_type="application/pdf"))
    assert pdf == [{"type": "document", "source": {**source, "media_type": "application/pdf"}}]
    plain = {"type": "text", "media_type": "text/plain", "data": "words"}
    assert value(embedded(text="words")) == [{"type": "document", "source": plain, "title": "file:///a"}]


def test_what_models_do_not_take_is_named_in_words() -> None:
    assert "image/tiff: models do not take it" in value(image(kind="image/tiff"))
    assert "is no base64" in value(image(data="%%%"))
    assert "it has 6,000,000 bytes, models take 5,000,000" in value(image(data="A" * 8_000_000))
    assert "audio/wav" in value(types.AudioContent(type="audio", data=PIXEL, mime_type="audio/wav"))
    assert "application/zip" in value(embedded(blob=PIXEL, mime_type="application/zip"))
    link = types.ResourceLink(type="resource_link", name="notes", uri="file:///n", description="of today")
    assert value(link) == "[link to notes, file:///n: of today]"


def test_an_errors_text_is_that_of_all_its_texts() -> None:
    assert text_of(types.CallToolResult(content=[text("a"), image(), text("b")], is_error=True)) == "a\nb"
