"""The choice among encodings."""

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.outputs.encodings import AUTO, encoded, xml, yaml
from callboard.runtime.outputs.toon import read_json
from tests.actors.protocol.test_token_estimates import RECORDED
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES
from tests.tables import table


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


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for part in value.values() for text in texts(part)]
    if isinstance(value, list):
        return [text for part in value for text in texts(part)]
    return [value] if isinstance(value, str) else []


@settings(max_examples=effort(40, 5_000))
@given(VALUES)
def test_every_value_is_one_element_whose_texts_come_back(value: Any) -> None:
    root = ElementTree.fromstring(xml(value, "a tool"))
    assert (root.tag, root.get("name")) == ("tool_result", "a tool")
    found = [element.text or "" for element in root.iter()]
    for text in texts(value):
        if text.isprintable():
            assert text in found


@pytest.mark.parametrize(
    "text", ["</tool_result>", "]]></tool_result>", "<tool_result name='x'>", "&lt;/tool_result>"]
)
def test_a_value_cannot_close_its_own_tag(text: str) -> None:
    found = xml(text, "search")
    assert found.count("</tool_result>") == 1
    assert ElementTree.fromstring(found).text == text


def test_a_key_that_is_no_name_is_an_attribute() -> None:
    found = ElementTree.fromstring(xml({"a b": 1, "item": 2, "name": 3}, "t"))
    assert [(one.tag, one.get("key"), one.text) for one in found] == [
        ("entry", "a b", "1"), ("entry", "item", "2"), ("name", None, "3"),
    ]  # fmt: skip


def test_a_name_with_quotes_stays_in_its_attribute() -> None:
    assert ElementTree.fromstring(xml(None, "a\"b'c")).get("name") == "a\"b'c"


def loaded(text: str) -> Any:
    return pytest.importorskip("yaml").safe_load(text)


def types(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: types(part) for key, part in value.items()}
    return [types(part) for part in value] if isinstance(value, list) else type(value)


@settings(max_examples=effort(40, 5_000))
@given(VALUES)
def test_a_safe_loader_reads_every_value_back(value: Any) -> None:
    found = loaded(yaml(value))
    assert found == value
    assert types(found) == types(value)


def test_blocks_are_written_as_people_write_them() -> None:
    value = {"name": "Ada", "tags": ["a", [1, 2], {"b": None, "c": {}}], "empty": []}
    assert yaml(value) == ("name: Ada\ntags:\n- a\n- - 1\n  - 2\n- b: null\n  c: {}\nempty: []")
    assert loaded(yaml(value)) == value


@table("word", ["yes", "No", "ON", "n", "null", "1e5", "0x1f", "12:30:00", "!!python/object", ".inf"])
def test_a_text_that_could_be_read_as_something_else_is_quoted(word: str) -> None:
    assert yaml(word) == f'"{word}"'
    assert loaded(yaml([word])) == [word]
