"""Packed lines: plain base64, the same lines again."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.request import ModelRequest
from callboard.replay.page import packing
from callboard.replay.page.packing import TEXT_CHARS_MAX, Cutting, packed, unpacked
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Step, call, say
from callboard.runtime.tools.tool import tool
from tests.replay.page.kit import PageData, page_of
from tests.replay.stories import record


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


LONG = 'é"\\\n' * TEXT_CHARS_MAX


def encoded(text: str) -> bytes:
    return json.dumps({"type": "Cancel", "reason": text, "n": 1}, ensure_ascii=False).encode()


def test_bodies_are_whole_while_there_is_room() -> None:
    cut = Cutting(room=10**6)
    assert cut.body(1, encoded(LONG)) == encoded(LONG)
    assert (cut.cut, cut.is_over) == (0, False)


def test_behind_them_a_long_text_is_cut_and_says_how_much_is_missing() -> None:
    cut = Cutting(room=0)
    body = json.loads(cut.body(7, encoded(LONG)))
    kept, _, said = body["reason"].partition("… [")
    assert LONG.startswith(kept)
    assert said == f"{len(LONG) - len(kept):,} more characters are not in this page: event 7 has them]"
    assert (body["type"], body["n"], cut.cut) == ("Cancel", 1, 1)


@pytest.mark.parametrize("text", ["", "x" * TEXT_CHARS_MAX, "é" * TEXT_CHARS_MAX])
def test_a_text_that_is_not_long_is_never_cut(text: str) -> None:
    cut = Cutting(room=0)
    assert cut.body(1, encoded(text)) == encoded(text)
    assert cut.cut == 0


def large(turns: int) -> Recording:
    @tool(effect="read")
    def read(n: int) -> str:
        """Read."""
        return f"{n} " * 3_000

    def policy(request: ModelRequest) -> Step:
        return call("read", n=request.turn) if request.turn <= turns else say("Read.")

    return record(policy, Agent("host", tools=[read]), "Read all.")


def test_a_page_of_a_large_session_is_bounded_and_counts_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = PageData(page_of(large(8)))
    assert whole.summary["cut"] == 0
    monkeypatch.setattr(packing.Cutting.__init__, "__defaults__", (20_000,))
    data = PageData(page_of(large(8)))
    assert data.summary["cut"] > 0
    assert sum(map(len, data.bodies)) < 0.8 * sum(map(len, whole.bodies))
    long = [json.dumps(values) for _, values, _ in data.changes]
    assert max(map(len, long)) < 3 * TEXT_CHARS_MAX
