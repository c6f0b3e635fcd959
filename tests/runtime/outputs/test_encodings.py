"""The choice among encodings."""

from typing import Any

from hypothesis import given, settings

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.outputs.encodings import AUTO, encoded
from callboard.runtime.outputs.values import read_json
from tests.actors.protocol.test_token_estimates import RECORDED
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES


@settings(max_examples=effort(40, 5_000))
@given(VALUES)
def test_json_keeps_everything(value: Any) -> None:
    assert read_json(Json(encoded(value, "json", "t").text.encode())) == value


@settings(max_examples=effort(40, 5_000))
@given(VALUES)
def test_auto_is_the_cheapest_by_estimate_and_always_the_same(value: Any) -> None:
    chosen = encoded(value, "auto", "t")
    costs = [estimated_tokens(encoded(value, one, "t").text) for one in AUTO]
    assert estimated_tokens(chosen.text) == min(costs)
    assert chosen == encoded(value, "auto", "t")
    assert chosen.encoding == AUTO[costs.index(min(costs))]


def test_auto_is_the_cheapest_by_the_recorded_counts_of_a_tokenizer() -> None:
    taken = cheapest = 0
    for row in RECORDED:
        counts = row["tokens"]
        chosen = counts[encoded(row["value"], "auto", "t").encoding]
        assert chosen <= max(1.1 * min(counts.values()), min(counts.values()) + 4), row["value"]
        taken, cheapest = taken + chosen, cheapest + min(counts.values())
    assert taken <= 1.002 * cheapest


def test_auto_takes_toon_for_tables_of_text() -> None:
    text = "The pump was replaced on Tuesday, and the pressure has been steady since then. "
    rows = [{"id": number, "title": text[:30].strip(), "summary": text * 3} for number in range(20)]
    assert encoded(rows, "auto", "t").encoding == "toon"


def test_auto_takes_toon_for_tables_and_json_for_deep_objects() -> None:
    table = [{"id": number, "name": f"n{number}", "ok": True} for number in range(20)]
    deep = {"a": {"b": {"c": {"d": [1, {"e": 2}]}}}}
    assert encoded(table, "auto", "t").encoding == "toon"
    assert encoded(deep, "auto", "t").encoding == "json"


def test_keys_stay_in_their_order() -> None:
    assert encoded({"b": 1, "a": 2}, "json", "t").text == '{"b":1,"a":2}'
    assert encoded({"b": 1, "a": 2}, "yaml", "t").text == "b: 1\na: 2"
