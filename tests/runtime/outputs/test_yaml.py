"""YAML: a safe loader reads every value back, with its types."""

from typing import Any

import pytest
from hypothesis import given, settings

from callboard.runtime.outputs.yaml import yaml
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES


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


@pytest.mark.parametrize(
    "word", ["yes", "No", "ON", "n", "null", "1e5", "0x1f", "12:30:00", "!!python/object", ".inf"]
)
def test_a_text_that_could_be_read_as_something_else_is_quoted(word: str) -> None:
    assert yaml(word) == f'"{word}"'
    assert loaded(yaml([word])) == [word]
