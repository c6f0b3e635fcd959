"""Estimates of tokens, compared with the counts of a tokenizer that were recorded."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol import token_estimates
from callboard.actors.protocol.token_estimates import READ_CHARS_MAX, estimated_tokens
from callboard.runtime.outputs.encodings import encoded
from tests.tables import table

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "tokens.json").read_text(encoding="utf-8")
)
"""Results, and their tokens by `o200k_base` in each encoding: `benchmarks/output_formats.py` writes them."""


def test_estimates_are_near_the_counts_of_a_tokenizer() -> None:
    off = sorted(
        abs(estimated_tokens(encoded(row["value"], kind, "t").text) / count - 1)
        for row in RECORDED
        for kind, count in row["tokens"].items()
    )
    assert len(off) > 200
    assert off[len(off) // 2] < 0.06
    assert off[len(off) * 9 // 10] < 0.15


@table("piece", ["x", "7", ",", " \n", "你", "Ab", ", x", "_"])
def test_an_estimate_grows_with_a_text_and_is_never_zero(piece: str) -> None:
    found = [estimated_tokens(piece * times) for times in range(50)]
    assert found[0] == 0
    assert found[1] >= 1
    assert all(one <= other for one, other in pairwise(found))


@table(
    ("text", "hundredths"),
    [
        ("word", 100), ("abcdefgh", 120), (" abcdefgh", 130), ("-word", 150), ("aWord", 200), ("123", 110),
        ("1234", 220), (",", 90), (",,,,", 130), (" \n", 100), ("\n\n", 100), ("é", 66), ("你", 99),
    ],
)  # fmt: skip
def test_each_kind_of_piece_has_its_cost(text: str, hundredths: int) -> None:
    assert token_estimates._cost(text) == hundredths


def test_bytes_of_other_scripts_count() -> None:
    assert estimated_tokens("你" * 100) > 2 * estimated_tokens("é" * 50)
    assert estimated_tokens("\ud800") == 1


@given(st.text())
def test_every_character_is_read_in_one_piece(text: str) -> None:
    pieces = token_estimates._PIECE.findall(text)
    assert "".join("".join(groups) for groups in pieces) == text


def test_parts_of_a_long_text_stand_for_the_whole() -> None:
    line = '{"id":12,"name":"Ada Lovelace"},'
    many = READ_CHARS_MAX // len(line)
    assert abs(estimated_tokens(line * many * 4) / (estimated_tokens(line * many) * 4) - 1) < 0.01
