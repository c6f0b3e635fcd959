"""Packed lines: plain base64, the same lines again."""

import re

from hypothesis import given
from hypothesis import strategies as st

from callboard.replay.page.packing import packed, unpacked


@given(st.lists(st.binary(max_size=200).map(lambda one: one.replace(b"\n", b"")), min_size=1))
def test_packed_lines_are_one_base64_text_and_come_back(lines: list[bytes]) -> None:
    text = b"".join(packed(lines))
    assert re.fullmatch(rb"[A-Za-z0-9+/]+={0,2}", text)
    assert unpacked(text) == lines


def test_more_than_one_piece_is_still_one_text() -> None:
    lines = [bytes([65 + n % 26]) * 50 + str(n * 7919 % 100_003).encode() * 9 for n in range(40_000)]
    pieces = list(packed(lines))
    assert len(pieces) > 1
    assert unpacked(b"".join(pieces)) == lines
