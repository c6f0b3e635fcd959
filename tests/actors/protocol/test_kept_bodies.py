"""Bodies of requests, kept as their differences."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.kept_bodies import CONVERSATIONS, body_after, restored, shortened
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.value_types import Sent

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MESSAGES = st.lists(st.dictionaries(st.sampled_from(["role", "content"]), TEXTS), max_size=6)
BODIES = st.one_of(
    st.builds(
        lambda key, head, messages, tail, indent: json.dumps(
            {"model": head, key: messages, "tools": tail}, ensure_ascii=False, indent=indent
        ),
        st.sampled_from([*CONVERSATIONS, "other"]),
        TEXTS,
        MESSAGES,
        TEXTS,
        st.sampled_from([None, 1]),
    ),
    TEXTS,
).map(str.encode)


@given(st.lists(BODIES, min_size=1, max_size=5))
def test_a_body_comes_back_byte_for_byte_after_any_other(bodies: list[bytes]) -> None:
    before = b""
    for body in bodies:
        kept = shortened(before, body)
        assert restored(before, kept) == body
        assert kept.pieces
        before = body


@given(TEXTS, TEXTS, TEXTS)
def test_only_the_bytes_between_are_kept(head: str, middle: str, tail: str) -> None:
    before = (head + tail).encode()
    kept = shortened(before, (head + middle + tail).encode())
    # Bodies of no form have no messages, so only their ends are shared.
    assert kept.tail >= len(tail.encode())


def body(*messages: str) -> bytes:
    return json.dumps({"model": "m", "messages": list(messages), "stream": True}).encode()


@pytest.mark.parametrize("odd", [b'{"messages": 3}', b"[", b""])
def test_a_body_that_is_no_json_comes_back_too(odd: bytes) -> None:
    assert restored(body("one"), shortened(body("one"), odd)) == odd
    assert restored(odd, shortened(odd, body("one"))) == body("one")


@pytest.mark.parametrize("odd", [b'{"\xff": []}', b'{"messages": "\xff"}'])
def test_a_body_that_is_no_text_is_refused(odd: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        shortened(body("one"), odd)


def test_pieces_begin_with_messages() -> None:
    kept = shortened(body("one", "two"), body("one", "two", "three", "four"))
    assert [json.loads(bytes(piece)) for piece in kept.pieces] == [", ", '"three", ', '"four"']


def test_a_changed_message_is_kept_with_those_behind_it() -> None:
    kept = shortened(body("one", "two", "three"), body("one", "TWO", "three"))
    assert [json.loads(bytes(piece)) for piece in kept.pieces] == ['"TWO']


def test_an_equal_body_is_one_empty_piece() -> None:
    kept = shortened(body("one"), body("one"))
    assert restored(body("one"), kept) == body("one")
    assert sum(map(len, kept.pieces)) <= len('"\\"one\\""')


@pytest.mark.parametrize("text", [b'{"messages": 1}', b"[1]", b"no JSON", b'{"messages": [{]}'])
def test_a_body_of_another_form_is_one_piece(text: bytes) -> None:
    assert len(shortened(b"", text).pieces) == 1


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        shortened(b"", b"\xff")


def test_an_answer_without_a_body_changes_nothing() -> None:
    bare = ModelReplied(1, sent=Sent("d", "m", 1, 1))
    assert body_after(b"before", bare) == b"before"
    assert body_after(b"before", ModelReplied(1, sent=Sent("d", "m", 2, 1), body=(Json(b'"-"'),))) == b"be-e"


def test_the_first_body_of_an_agent_shares_nothing() -> None:
    assert body_after(b"before", ModelReplied(1, sent=Sent("d", "m"), body=(Json(b'"whole"'),))) == b"whole"


def test_a_character_is_not_cut_where_only_its_last_byte_is_shared() -> None:
    kept = shortened("\u00e9".encode(), "a\u0169".encode())
    assert (kept.tail, kept.pieces) == (0, (Json('"a\u0169"'.encode()),))
