"""Images and files in a message: how many, and which are named by address or id only."""

import msgspec

from callboard.actors.protocol.conversation import message
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.media import NO_MEDIA, Media, media_in, together
from callboard.actors.protocol.profiles import ModelSpec

URL = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
FILE = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
DATA = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA" * 100}}


def said(*blocks: object) -> Json:
    return message("user", Json(msgspec.json.encode(blocks)))


def size(*blocks: object) -> int:
    return sum(len(msgspec.json.encode(block)) for block in blocks)


def test_a_text_has_no_media_whatever_it_says() -> None:
    assert media_in(message("user", Json(b'"the \\"source\\" of it"'))) == NO_MEDIA
    assert media_in(said({"type": "text", "text": '"source"'})) == NO_MEDIA


def test_images_and_files_are_counted_wherever_they_stand() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x"}, FILE]}
    assert media_in(said(URL, result)) == Media(1, 1, size(URL, FILE), 2)
    assert media_in(said({"type": "tool_result", "tool_use_id": "c1", "content": '"source"'})) == NO_MEDIA


def test_an_image_with_its_data_is_no_link() -> None:
    assert media_in(said(DATA)) == Media(1, 0, size(DATA), 0)


def test_the_tokens_of_media_are_known_only_if_the_model_states_them() -> None:
    both = together(media_in(said(URL)), media_in(said(FILE)))
    assert both.tokens(ModelSpec("m", image_tokens=1_600)) is None
    assert both.tokens(ModelSpec("m", image_tokens=1_600, file_tokens=9_000)) == 10_600
    assert both.tokens(ModelSpec("m", file_tokens=9_000)) is None
    assert NO_MEDIA.tokens(ModelSpec("m")) == 0
