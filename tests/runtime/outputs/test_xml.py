"""XML: no value closes the element, and every text comes back."""

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from callboard.runtime.outputs.xml import xml
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES


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
