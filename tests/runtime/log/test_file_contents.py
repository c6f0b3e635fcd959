"""Tests of the bytes of versions, as the log has them."""

import base64
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.immutable import Json
from callboard.runtime.log.file_contents import (
    Base,
    Contents,
    _applied,
    _common,
    _difference,
    digest_of,
    packed,
)
from tests.effort import effort
from tests.tables import table

_TEXTS = st.binary(max_size=60) | st.lists(
    st.sampled_from([b"a\n", b"b\n", b"\n", b"c", b"\r\n"]), max_size=40
).map(b"".join)


@settings(max_examples=effort(60, 2_000))
@given(st.lists(_TEXTS, min_size=1, max_size=6))
def test_every_version_of_a_chain_is_read_as_it_was_written(versions: list[bytes]) -> None:
    contents, base = Contents(), None
    for data in versions:
        contents.add([packed(digest_of(data), data, base).content])
        base = Base(digest_of(data), data)
    assert [contents.read(digest_of(data)) for data in versions] == versions


def test_a_small_change_is_stored_as_a_difference() -> None:
    lines = [b"line %d of a source file\n" % number for number in range(2_000)]
    before = b"".join(lines)
    after = b"".join([*lines[:700], b"another line\n", *lines[701:1_500], *lines[1_502:]])
    found = packed(digest_of(after), after, Base(digest_of(before), before))
    assert found.is_difference
    assert len(found.content) < 300


def test_a_difference_that_would_be_longer_is_stored_whole() -> None:
    found = packed(digest_of(b"abc"), b"abc", Base(digest_of(b"xyz" * 100), b"xyz" * 100))
    assert not found.is_difference


@table(
    "old, new, steps",
    [
        (b"a\nb\nc\n", b"a\nX\nc\n", b"[[0,2],[1],[3,3]]\nX"),
        (b"a\nb\n", b"a\nb\n", b"[[0,4]]\n"),
        (b"", b"q", b"[[1]]\nq"),
        (b"q", b"", b"[]\n"),
        (b"ab", b"abab", b"[[0,2],[2]]\nab"),  # no byte is the end of two
        (b"1\n2\n3\n4\n", b"3\n2\n1\nz", b"[[4,2],[2,2],[0,2],[1]]\nz"),
        (b"0\nx\ny\nx\n", b"x\ny\nx\nz", b"[[2,6],[1]]\nz"),  # the place that follows is the nearest
        (b"x\na\nx\nb\n", b"a\nx\nx\nz", b"[[2,4],[4,2],[1]]\nz"),  # else the last one
    ],
)
def test_a_difference_copies_what_it_can(old: bytes, new: bytes, steps: bytes) -> None:
    assert _difference(old, new) == steps
    assert _applied(old, steps) == new


@table("one, other, count", [(b"", b"x", 0), (b"abc", b"abd", 2), (b"ab", b"ab", 2), (b"ab", b"abc", 2)])
def test_the_common_bytes_of_two_versions_are_those_at_the_beginning(
    one: bytes, other: bytes, count: int
) -> None:
    assert _common(one, other) == _common(other, one) == count


def test_equal_lines_by_the_thousand_take_no_square_of_time() -> None:
    before, after = b"\n" * 200_000, b"x\n" + b"\n" * 200_000 + b"y"
    found = packed(digest_of(after), after, Base(digest_of(before), before))
    contents = Contents([packed(digest_of(before), before).content, found.content])
    assert contents.read(digest_of(after)) == after


def _content(**fields: object) -> Json:
    return msgspec.Raw(msgspec.json.encode(fields))


def _zipped(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


_DIGEST = digest_of(b"abc")


@table(
    "content",
    [
        msgspec.Raw(b"[1]"),
        _content(digest=_DIGEST, data="no base64!"),
        _content(digest=_DIGEST, data=base64.b64encode(b"no zlib").decode()),
        _content(digest=_DIGEST, data=_zipped(b"other bytes")),
        _content(digest=_DIGEST, data=_zipped(b"[[0,9]]\n"), base=digest_of(b"base")),
        _content(digest=_DIGEST, data=_zipped(b"[[-1,2]]\n"), base=digest_of(b"base")),
        _content(digest=_DIGEST, data=_zipped(b"[[]]\n"), base=digest_of(b"base")),
        _content(digest=_DIGEST, data=_zipped(b"[[0,4]]\n" * 2), base=_DIGEST),
        _content(digest=_DIGEST, data=_zipped(bytes(40_000_000))),
        _content(digest=_DIGEST, data=base64.b64encode(zlib.compress(b"abc")[:-1]).decode()),
        _content(digest=_DIGEST, data=_zipped(b'["abc"]\nabc'), base=digest_of(b"base")),
        _content(digest=_DIGEST, data=_zipped(b"[]\n"), base="none"),
    ],
)
def test_a_damaged_content_is_named_and_never_read(content: Json) -> None:
    contents = Contents([content, packed(digest_of(b"base"), b"base").content])
    with pytest.raises(CorruptLog, match="version"):
        contents.read(_DIGEST)
    assert contents.read(digest_of(b"base")) == b"base"


def test_a_version_that_the_log_lacks_is_named() -> None:
    with pytest.raises(CorruptLog, match="does not have the bytes of version ba7816bf8f01cfea"):
        Contents().read(_DIGEST)
