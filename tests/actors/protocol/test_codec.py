"""One encoder, one decoder: a decoded message equals the encoded one, and has the same bytes."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import Ask, Cancel
from callboard.actors.protocol.codec import UnreadableBody, decode, decode_all, encode
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate, DelegationEnded, ReportBack, Stop
from callboard.actors.protocol.port_messages import CheckSchema
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import Need, Usage
from tests.strategies import MESSAGES, any_message, messages
from tests.tables import table


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_comes_back_as_it_was_and_in_the_same_bytes(kind: type[msgspec.Struct]) -> None:
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(messages(kind))
    def comes_back(message: msgspec.Struct) -> None:
        body = encode(message)
        again = decode(body)
        assert type(again) is kind
        assert again == message
        assert encode(again) == body
        assert decode(body.decode()) == message

    comes_back()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(messages(Profile))
def test_a_profile_comes_back_as_it_was(profile: Profile) -> None:
    body = encode(profile)
    again = msgspec.json.decode(body, type=Profile)
    assert (again, encode(again)) == (profile, body)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(any_message())
def test_a_body_is_one_json_object_that_names_its_kind_first(message: msgspec.Struct) -> None:
    body = encode(message)
    assert body.startswith(b'{"type":"' + type(message).__name__.encode() + b'"')
    assert isinstance(msgspec.json.decode(body), dict)


@table(
    ("built", "same"),
    [
        (Ask("r", Json(b"1"), Json(b"null"), Limits()), Ask("r", Json(b"1"))),
        (
            CheckSchema(1, "accept", Json(b"{}"), timeout_ms=int("5000")),
            CheckSchema(1, "accept", Json(b"{}")),
        ),
        (ModelSpec("m", int("8192")), ModelSpec("m")),
        (Stop("budget", (int("0"), int("0"))), Stop("budget")),
        (
            DelegationEnded(1, 0, "answered", usage=Usage(), unsettled=Need(0, 0), value=Json(b"null")),
            DelegationEnded(1, 0, "answered"),
        ),
        (
            Delegate(1, 0, ("a",), Json(b"1"), NULL, Need(), 0, 1, Limits(), "".join(["aw", "ait"])),  # type: ignore[arg-type]  # the value `await`, as another object
            Delegate(1, 0, ("a",), Json(b"1")),
        ),
    ],
)
def test_equal_messages_have_equal_bytes_however_they_were_built(
    built: msgspec.Struct, same: msgspec.Struct
) -> None:
    assert built == same
    assert encode(built) == encode(same)
    assert encode(msgspec.structs.replace(built)) == encode(same)


def test_defaults_written_out_are_read_as_defaults() -> None:
    spelled = b'{"type":"Delegate","turn":1,"call":0,"profiles":[],"prompt":1,"schema":null,"closing":{}}'
    assert encode(decode(spelled)) == b'{"type":"Delegate","turn":1,"call":0,"profiles":[],"prompt":1}'


def test_foreign_json_keeps_its_key_order_and_spelling() -> None:
    foreign = b'{ "z": 1.0, "a": "\\u00e9" }'
    body = encode(ReportBack(1, 0, Json(foreign)))
    assert foreign in body
    again = decode(body)
    assert isinstance(again, ReportBack)
    assert bytes(again.value) == foreign


@table(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"type":"Nonsense"}',
        b'{"type":"Cancel","reason":"x","more":1}',
        b'{"type":"Cancel","reason":1}',
        b'{"type":"Cancel"} {}',
        b'{"type":"Stop"}',
        b'{"type":"Stop","reason":"bored"}',
        b'{"type":"Stop","reason":"budget","granted":[1]}',
        b'{"type":"TimerFired","timer":1.5}',
        b'{"type":"Cancel","reason":"\xff"}',
        b'{"type":"Cancel","reason":"\\ud800"}',
        b'{"type":"Ask","request_id":"r","prompt":1,"limits":{"tokens":-1}}',
        b'{"type":"Ask","request_id":"r","prompt":{"a":}}',
        b'{"type":"Ask","request_id":"r","prompt":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_bytes_that_are_no_message_of_ours_are_refused_by_name(body: bytes) -> None:
    with pytest.raises(UnreadableBody, match="not a message"):
        decode(body)


def test_text_with_a_lone_surrogate_is_refused_in_both_directions() -> None:
    with pytest.raises(UnreadableBody):
        decode('{"type":"Cancel","reason":"\ud800"}')
    with pytest.raises(UnicodeEncodeError):
        encode(Cancel("\ud800"))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_and_nothing_else(body: bytes) -> None:
    try:
        message = decode(body)
    except UnreadableBody:
        return
    assert type(message) in MESSAGES


@given(
    st.lists(any_message(), max_size=4),
    st.sampled_from([b"{}", b'{"type":"Nothing"}', b"\xff", b"[" * 9_999]),
)
@settings(max_examples=20)
def test_many_messages_decode_as_each_alone(made: list[msgspec.Struct], damaged: bytes) -> None:
    bodies = [*map(encode, made)]
    assert decode_all(bodies) == [*map(decode, bodies)]
    with pytest.raises(UnreadableBody):
        decode_all([*bodies, damaged])
