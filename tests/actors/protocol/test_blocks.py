"""Blocks of a message: their kinds, their sources, and their forms for another service."""

import re

import msgspec
import pytest

from callboard.actors.protocol.blocks import (
    are_same,
    as_list,
    call_of,
    content_of,
    forms_in,
    id_of,
    is_private,
    kind_of,
    legal_name,
    medium_of,
    parts_of,
    source_of,
    starts_with,
    texts_of,
    unreadable,
    with_parts,
)
from callboard.actors.protocol.immutable import NULL, Json
from tests.tables import table

TEXT = Json(b'{"type":"text","text":"hm"}')
IMAGE = Json(b'{"type":"image","source":{"type":"url","url":"u"},"title":"t","cache_control":{},"id":"i"}')
CALL = Json(b'{"type":"tool_use","id":"t1","name":"look at","input":{"a":1}}')


@table(
    ("block", "kind", "source"),
    [
        (TEXT, "text", ""),
        (IMAGE, "image", "url"),
        (Json(b'{"text":"x"}'), "unknown", ""),
        (Json(b'{"type":3}'), "unknown", ""),
        (Json(b'{"type":"image","source":"u"}'), "image", ""),
        (Json(b'{"type":"image","source":{"url":"u"}}'), "image", "unknown"),
    ],
)
def test_a_block_has_a_kind_and_perhaps_a_source(block: Json, kind: str, source: str) -> None:
    assert (kind_of(block), source_of(block)) == (kind, source)


@table(
    ("content", "forms"),
    [
        (b'"go"', [("text", "")]),
        (b"[]", []),
        (b"[%b,%b]" % (TEXT, IMAGE), [("text", ""), ("image", "url")]),
        (b'[{"type":"tool_result","content":"x"}]', []),
        (
            b'[{"type":"tool_result","content":[%b,%b]},%b]' % (IMAGE, TEXT, TEXT),
            [("image", "url"), ("text", ""), ("text", "")],
        ),
        (b'[{"text":"without a type"}]', None),
        (b'[{"type":"image","source":{"url":"u"}}]', None),
    ],
)
def test_the_forms_in_a_message_are_those_of_its_blocks_and_of_the_ones_in_results(
    content: bytes, forms: list[tuple[str, str]] | None
) -> None:
    said = Json(b'{"role":"user","content":%b}' % content)
    assert forms_in(said) == forms
    assert bytes(content_of(said)) == content


@table(
    ("kind", "is_its_makers"),
    [
        ("thinking", True),
        ("redacted_thinking", True),
        ("web_search_tool_result", True),
        ("tool_result", False),
        ("text", False),
        ("tool_use", False),
    ],
)
def test_private_blocks_mean_something_to_their_maker_only(kind: str, is_its_makers: bool) -> None:
    assert is_private(kind) == is_its_makers


def test_a_blank_text_is_left_out_and_another_one_stands_alone() -> None:
    assert texts_of(Json(b'{"type":"x","text":" \\n"}')) == []
    assert texts_of(Json(b'{"type":"x","text":" a","cite":[]}')) == [Json(b'{"type":"text","text":" a"}')]
    with pytest.raises(msgspec.DecodeError):
        texts_of(IMAGE)


@table(
    ("name", "legal"),
    [
        ("look-at_9", "look-at_9"),
        ("look at!", "look_at_"),
        ("a" * 64, "a" * 64),
        ("a" * 65, "a" * 64),
        ("", "_"),
    ],
)
def test_a_name_is_changed_only_where_services_do_not_take_it(name: str, legal: str) -> None:
    assert legal_name(name) == legal


def test_a_name_begins_with_an_underscore_where_its_first_letter_is_not_taken() -> None:
    wants_a_letter = re.compile(r"[a-z_][a-z0-9_]{0,4}")
    assert [legal_name(name, wants_a_letter, 5) for name in ("a9", "9a", "9abcde")] == ["a9", "_9a", "_9abc"]


def test_a_call_goes_on_under_another_id_with_a_name_and_arguments_that_are_taken() -> None:
    given = call_of(CALL, "c9", re.compile(r"[a-z_]{1,64}"))
    assert bytes(given) == b'{"type":"tool_use","id":"c9","name":"look_at","input":{"a":1}}'
    broken = Json(b'{"type":"tool_use","id":"t1","name":"look","input":"{a"}')
    given = call_of(broken, "c9", re.compile(r"[a-z]{1,64}"))
    assert bytes(given) == b'{"type":"tool_use","id":"c9","name":"look","input":{"unreadable":"{a"}}'
    assert id_of(CALL) == "t1"
    assert bytes(unreadable(Json(b"[1]"))) == b'{"unreadable":"[1]"}'


def test_a_medium_keeps_the_parts_that_any_service_reads() -> None:
    medium = medium_of(IMAGE)
    assert medium is not None
    assert bytes(medium) == b'{"type":"image","source":{"type":"url","url":"u"},"title":"t"}'
    assert medium_of(Json(b'{"type":"image","source":{"type":"file","file_id":"f"}}')) is None
    assert medium_of(TEXT) is None


def test_changed_parts_keep_their_place_and_nothing_changed_is_the_same_object() -> None:
    changed = with_parts(TEXT, {"text": Json(b'"ah"'), "more": NULL})
    assert bytes(changed) == b'{"type":"text","text":"ah","more":null}'
    assert list(parts_of(changed)) == ["type", "text", "more"]
    assert with_parts(TEXT, {}) is TEXT


def test_lists_are_the_same_if_all_their_objects_are() -> None:
    twin = Json(bytes(TEXT))
    assert are_same([TEXT, CALL], [TEXT, CALL])
    assert not are_same([TEXT, CALL], [twin, CALL])
    assert not are_same([CALL, TEXT], [CALL, twin])
    assert are_same([], [])
    assert [bytes(as_list(blocks)) for blocks in ((), (TEXT,), (NULL, NULL))] == [
        b"[]",
        b"[%b]" % TEXT,
        b"[null,null]",
    ]


@pytest.mark.parametrize(
    ("start", "value", "so"), [(b"{", b'{"a":1}', True), (b"[", b"{}", False), (b'"abc', b'"a"', False)]
)
def test_the_first_bytes_tell_the_kind_of_a_value(start: bytes, value: bytes, so: bool) -> None:
    assert starts_with(start, Json(value)) is so
