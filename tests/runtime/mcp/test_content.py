"""Results of servers, as models read them."""

import base64
import json
import re
from typing import Any

import mcp.types as types
import pytest

from callboard import Blocks
from callboard.runtime.mcp.content import Unreadable, read_result
from tests.tables import table

PIXEL = base64.b64encode(b"\x89PNG").decode()


def value(*content: Any, **more: Any) -> Any:
    result = types.CallToolResult(content=list(content), **more)
    return raw(result.model_dump(mode="json", by_alias=True, exclude_none=True))


def raw(result: object) -> Any:
    found = read_result(result).value
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
    assert value(text(" "), text("one"), text("\n")) == "one"
    assert value(text("")) == value(text(" \n")) == value() == "(no output)"


def test_structured_data_is_text_where_there_is_nothing_else() -> None:
    assert value(structured_content={"a": ["\u00e9"]}) == '{"a": ["\u00e9"]}'


# As servers repeat their data: as JSON of any style, in words, without the wrapper, item by item.
@table(
    ("texts", "data"),
    [
        (['{"b": [1, 2], "a": true}'], {"a": True, "b": [1, 2]}),
        (["5"], {"result": 5}),
        (["a", "b\nc"], {"result": ["a", "b\nc"]}),
        (["| A-1 | open | 1.5 |"], {"rows": [{"id": "A-1", "state": "open", "hours": 1.5}]}),
        (['{"q": "\\u00e9 \\"x\\"\\n"}'], {"q": '\u00e9 "x"\n'}),
        (["ok"], {}),
        (["ok"], {"next": None, "more": []}),
        (["n: -3, m: 1e+20"], {"n": -3, "m": 1e20}),
    ],
)
def test_structured_data_that_the_texts_tell_is_not_said_again(texts: list[str], data: Any) -> None:
    content = [{"type": "text", "text": one} for one in texts]
    assert raw({"content": content, "structuredContent": data}) == raw({"content": content})


@table(
    ("said", "data"),
    [
        ("2 issues listed", {"issues": ["A-1", "A-2"]}),
        ("13 issues", {"open": 3}),
        ("done", {"ok": False}),
        ("A-1", {"id": "A-1", "note": "\u00e9"}),
    ],
)
def test_structured_data_beyond_the_texts_stands_behind_them(said: str, data: Any) -> None:
    result = {"content": [{"type": "text", "text": said}], "structuredContent": data, "isError": True}
    whole = f"{said}\n{json.dumps(data, ensure_ascii=False)}"
    assert (raw(result), read_result(result).text) == (whole, whole)
    assert [block["type"] for block in value(image(), structured_content=data)] == ["image", "text"]


def test_structured_data_of_a_large_result_is_compared_within_a_bound() -> None:
    data = {"rows": ["x" * 1_000] * 1_000}
    for words, is_again in ((json.dumps(data, indent=1), False), ("\n".join(data["rows"]), True)):
        found = raw({"content": [{"type": "text", "text": words}], "structuredContent": data})
        assert (found != words) is is_again
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    assert raw({"content": [{"type": "text", "text": "deep"}], "structuredContent": deep}) == "deep"


def test_images_and_embedded_resources_are_blocks() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert value(image()) == [{"type": "image", "source": source}]
    assert value(embedded(blob=PIXEL, mime_type="image/png")) == [{"type": "image", "source": source}]
    for data in (f"data:image/png;base64,{PIXEL}", f"data:;base64,{PIXEL}", f" {PIXEL[:4]}\r\n{PIXEL[4:]}\n"):
        assert value(image(data)) == value(embedded(blob=data)) == [{"type": "image", "source": source}]
    pdf = value(embedded(blob="JVBERi0=", mime_type="application/pdf"))
    paper = {**source, "media_type": "application/pdf", "data": "JVBERi0="}
    assert pdf == [{"type": "document", "source": paper}]
    plain = {"type": "text", "media_type": "text/plain", "data": "words"}
    assert value(embedded(text="words")) == [{"type": "document", "source": plain, "title": "file:///a"}]


def test_what_models_do_not_take_is_named_in_words() -> None:
    assert "image/tiff: models do not take it" in value(image("SUkqAA==", kind="image/tiff"))
    assert "is not base64" in value(image(data="%%%"))
    assert "is not base64" in value(image(data=f"data:image/png,{PIXEL}"))
    assert "it has 6,000,000 bytes, models take 5,000,000" in value(image(data="A" * 8_000_000))
    assert "audio/wav" in value(types.AudioContent(type="audio", data=PIXEL, mime_type="audio/wav"))
    assert "application/zip" in value(embedded(blob="UEsDBA==", mime_type="application/zip"))
    link = types.ResourceLink(type="resource_link", name="notes", uri="file:///n", description="of today")
    assert value(link) == "[link to notes, file:///n: of today]"


def test_an_errors_text_is_that_of_all_its_texts() -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    words = [{"type": "text", "text": one} for one in "ab"]
    result = read_result({"content": [words[0], picture, words[1]], "isError": True})
    assert (result.is_error, result.text) == (True, "a\nb")


def test_a_service_is_told_the_type_that_the_bytes_of_an_image_have() -> None:
    (block,) = value(image(kind="image/jpg"))
    assert block["source"]["media_type"] == "image/png"


# Each of a public report: structuredContent alone, or as a list; a block of type `json`; a result inside a
# `toolResult`, as of the protocol 2024-10-07.
@table(
    ("result", "expected"),
    [
        ({"structuredContent": {"rows": [1]}}, '{"rows": [1]}'),
        ({"content": None, "structuredContent": [{"id": "1"}]}, '[{"id": "1"}]'),
        ({"toolResult": {"content": [{"type": "text", "text": "ok"}]}}, "ok"),
        ({"toolResult": {"rows": 2}}, '{"rows": 2}'),
        ({"content": [{"type": "text", "text": "a\ud83d b"}]}, "a\ufffd b"),
    ],
)
def test_a_result_that_says_something_in_a_form_of_its_own_is_a_result(result: Any, expected: str) -> None:
    assert raw(result) == expected


@table(
    "block",
    [
        {"type": "json", "json": {"a": 1}},
        {"type": "hologram", "x": 1},
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "image", "mimeType": "image/png"},
        {"type": "resource", "resource": "file:///a"},
        {"type": 7},
        "words",
        None,
    ],
)
def test_a_block_that_is_not_known_stands_in_words_beside_the_others(block: object) -> None:
    known, unknown = raw({"content": [{"type": "text", "text": "one"}, block]})
    assert known["text"] == "one"
    assert unknown["text"].startswith("[block ")
    assert json.dumps(block) in unknown["text"]


@table(
    ("result", "why"),
    [
        (None, "its result is not an object: null"),
        ([1], "its result is not an object: [1]"),
        ({}, "neither content nor structuredContent: {}"),
        ({"content": "done"}, 'the content of its result is not a list: "done"'),
        ({"content": {"type": "text"}}, "the content of its result is not a list"),
    ],
)
def test_a_result_that_is_none_says_what_came_instead(result: object, why: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(why)):
        read_result(result)


@pytest.mark.parametrize(("flag", "is_error"), [(True, True), ("true", True), (None, False), ("no", False)])
def test_the_flag_of_an_error_is_read_as_it_was_meant(flag: object, is_error: bool) -> None:
    assert read_result({"content": [], "isError": flag}).is_error is is_error


def test_a_result_of_a_million_blocks_is_cut_and_says_so() -> None:
    found = raw({"content": [5] * 10**6})
    assert len(found) == 1_001
    assert found[-1]["text"] == "[cut: these are the first 1,000 of 1,000,000 blocks]"
