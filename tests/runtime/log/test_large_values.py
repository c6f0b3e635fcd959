"""Large values are cut out and put back: nothing is lost, nothing is mistaken for a cut."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import Ask, Cancel, SessionOpened
from callboard.actors.protocol.codec import decode, encode
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import AnyMessage, Begin, DelegationEnded, Finished
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.log.large_values import (
    BODY_BYTES_MAX,
    PIECE_BYTES_MIN,
    Cut,
    blob_digest,
    cut,
    splice,
)
from tests.effort import effort
from tests.runtime.log.kit import json_text

MODEL = ModelSpec(name="m")

sizes = st.sampled_from([0, 10, 900, PIECE_BYTES_MIN - 2, PIECE_BYTES_MIN, PIECE_BYTES_MIN + 1, 3_000])
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@st.composite
def foreign(draw: st.DrawFn) -> msgspec.Raw:
    """Return JSON of any shape and size; often the same twice, and often full of `null`."""
    filler = draw(st.sampled_from(["x", "null", '"', "\\", "ä", "\u2028", "\x00", ","])) * draw(sizes)
    value = draw(st.sampled_from([filler, [filler, None, draw(plain)], {"null": None, filler: draw(plain)}]))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return msgspec.Raw((" " * draw(st.sampled_from([0, 1, 1_100])) + text).encode())


messages: st.SearchStrategy[AnyMessage] = st.one_of(
    st.builds(Ask, st.text(max_size=5), foreign(), foreign()),
    st.builds(
        SessionOpened, st.just(1), st.just("h"), st.lists(foreign(), max_size=4).map(tuple), st.just(MODEL)
    ),
    st.builds(lambda raw, text: Finished("answered", text + bytes(raw).decode()), foreign(), st.text()),
    st.builds(
        lambda a, b, c, d: Begin(profile=a, prompt=b, model=MODEL, limits=d, schema=c),
        foreign(),
        foreign(),
        foreign(),
        st.just(msgspec.convert({}, type(SessionOpened.__struct_defaults__[0]))),
    ),
    st.builds(
        lambda raw, text: DelegationEnded(1, 0, "reported", value=raw, text=text), foreign(), st.text()
    ),
)


@pytest.mark.slow
@given(messages)
@settings(max_examples=effort(12, 500), deadline=None)
def test_values_that_were_cut_out_are_put_back_byte_for_byte(message: AnyMessage) -> None:
    body = encode(message)
    text, cuts = cut(message, body)
    assert splice(text, cuts) == body
    assert all(digest == blob_digest(data) for _, digest, data in cuts)


@pytest.mark.slow
@given(messages)
@settings(max_examples=effort(12, 500), deadline=None)
def test_the_stored_text_is_json_with_nulls_for_missing_values(message: AnyMessage) -> None:
    text, cuts = cut(message, encode(message))
    assert type(decode(text)) is type(message)
    assert all(text[offset : offset + 4] == b"null" for offset, _, _ in cuts)
    assert len(text) + sum(len(one.data) - 4 for one in cuts) == len(encode(message))


@given(st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=6)), max_size=5), st.binary(max_size=6))
def test_splicing_undoes_any_cutting(parts: list[tuple[bytes, bytes]], rest: bytes) -> None:
    text, cuts = b"", []
    for before, value in parts:
        text += before
        cuts.append(Cut(len(text), b"", value))
        text += b"null"
    whole = b"".join(before + value for before, value in parts) + rest
    assert splice(text + rest, cuts) == whole


def test_a_value_is_known_by_a_digest_that_never_changes() -> None:
    expected = "1a789696523a4f25b96eed3f21d6c51e0bf5165a8bf590449d813ea4b4e95358"
    assert blob_digest(b"value").hex() == expected


def test_only_foreign_json_of_a_kibibyte_or_more_is_cut() -> None:
    small, big = json_text(PIECE_BYTES_MIN - 1), json_text(PIECE_BYTES_MIN)
    for value, count in ((small, 0), (big, 1)):
        message = ToolReturned(turn=1, call=0, status="ok", output=value)
        assert len(cut(message, encode(message))[1]) == count
    text = Finished("answered", "t" * 5_000)
    assert cut(text, encode(text)) == (encode(text), ())


def test_every_large_value_of_a_tuple_is_cut_and_small_ones_stay() -> None:
    values = (json_text(2_000, "a"), msgspec.Raw(b"{}"), json_text(3_000, "b"), json_text(2_000, "a"))
    message = SessionOpened(1, "h", values, MODEL)
    text, cuts = cut(message, encode(message))
    assert [len(one.data) for one in cuts] == [2_000, 3_000, 2_000]
    assert cuts[0].digest == cuts[2].digest
    assert b'"profiles":[null,{},null,null]' in text


def test_a_lookalike_in_another_field_is_not_taken_for_the_value() -> None:
    value = json_text(2_000)
    message = DelegationEnded(1, 0, "reported", value=value, text="x" * 1_998, detail=bytes(value).decode())
    text, cuts = cut(message, encode(message))
    assert cuts == (Cut(text.index(b'"value":') + 8, blob_digest(bytes(value)), bytes(value)),)


def test_a_body_that_is_not_utf_8_is_refused_rather_than_cut_in_the_wrong_place() -> None:
    message = Ask("r", json_text(2_000), schema=msgspec.Raw(b'"\xff"'))
    with pytest.raises(ValueError, match="UTF-8"):
        cut(message, encode(message))


def test_an_absent_value_stays_absent() -> None:
    message = Ask("r", json_text(2_000), schema=NULL)
    assert cut(message, encode(message))[0] == b'{"type":"Ask","request_id":"r","prompt":null}'


@pytest.mark.parametrize("pieces", [[(1, b"x")], [(0, b"a"), (2, b"b")], [(4, b"x")], [(99, b"x")]])
def test_a_piece_that_belongs_nowhere_is_refused(pieces: list[tuple[int, bytes]]) -> None:
    with pytest.raises(ValueError, match="no value was cut out"):
        splice(b"null", [Cut(offset, b"", data) for offset, data in pieces])


def test_small_bodies_are_below_the_bound_that_the_chain_looks_at() -> None:
    assert len(encode(Cancel("r" * 900))) < BODY_BYTES_MAX
