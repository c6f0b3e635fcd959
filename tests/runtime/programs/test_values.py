"""Answers as values: each type that a tool can return comes back as it was."""

import datetime
import enum
import pathlib
from dataclasses import dataclass
from typing import Any, Optional

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.errors import AskFailed, CallFailed, DelegationFailed, Interrupted, NotApproved
from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs.asks import Answer
from callboard.runtime.programs.values import _text, delegated_value, tool_value
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.output_types import NO_TYPE, output_type
from callboard.runtime.tools.output import NO_OUTPUT, Blocks, returned
from callboard.runtime.tools.tool import tool
from tests.effort import effort
from tests.runtime.programs.kit import answer
from tests.tables import table


@dataclass
class Point:
    x: int
    y: float | None = None


class Order(msgspec.Struct):
    lines: list[Point]


class Color(enum.StrEnum):
    RED = "red"


class Invoice(pydantic.BaseModel):
    total: int


TYPES: list[tuple[Any, Any]] = [
    (str, "a text"),
    (str, "12"),
    (int, 7),
    (float, 1.5),
    (bool, True),
    (None, None),
    (list[int], [1, 2]),
    (dict[str, int], {"a": 1}),
    (list[dict[str, str]], [{"type": "text", "text": "data"}]),
    (Point, Point(1)),
    (Point | None, None),
    (Point | None, Point(1, 2.0)),
    (str | None, None),
    (Optional[str], None),  # noqa: UP045  # another form of the same type
    (Optional[int], 5),  # noqa: UP045  # another form, too
    (str | None, "(nothing)"),
    (Order, Order([Point(1), Point(2)])),
    (Color, Color.RED),
    (Invoice, Invoice(total=3)),
    (datetime.date, datetime.date(2026, 1, 31)),
]


def back(hint: object, value: object) -> object:
    """Return a value as a program gets it whose tool returned it."""

    def function() -> object:
        return value

    function.__annotations__["return"] = hint
    made = tool(effect="read", name="made", description="Makes.")(function)
    outcome = returned(value, 1_000, may_cut=False)
    assert outcome.status == "ok"
    return tool_value(made, Answer("id", outcome.output))


@table(("hint", "value"), TYPES, ids=str)
def test_a_result_comes_back_as_its_function_is_annotated(hint: object, value: object) -> None:
    found = back(hint, value)
    assert (type(found), found) == (type(value), value)


@settings(max_examples=effort(15, 400))
@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53), lambda inner: st.lists(inner)))
def test_lists_come_back_whatever_they_hold(value: object) -> None:
    if isinstance(value, list):
        assert back(list[Any], value) == value


@table(
    ("hint", "value", "read"),
    [
        (pathlib.PurePosixPath, pathlib.PurePosixPath("a/b"), "a/b"),
        (list[pathlib.PurePosixPath], [pathlib.PurePosixPath("a/b")], ["a/b"]),
        (range, range(2), [0, 1]),
        (bytes, b"\xff", b"\xff"),
        (set[int], {1, 2}, {1, 2}),
        (dict[int, str], {1: "a"}, {1: "a"}),
    ],
)
def test_a_result_that_no_schema_describes_comes_back_as_its_json_value(
    hint: Any, value: object, read: object
) -> None:
    assert back(hint, value) == read


def test_without_a_type_the_result_is_text() -> None:
    assert back(object, {"a": 1}) == '{"a":1}'
    assert back(Any, [1]) == "[1]"
    assert tool_value("look", answer("id", "12")) == "12"


def test_a_tool_that_is_annotated_to_return_nothing_returns_none_whatever_it_said() -> None:
    assert back(None, "done") is None


def test_content_blocks_come_back_as_blocks() -> None:
    found = back(Blocks, Blocks([{"type": "text", "text": "hello"}]))
    assert isinstance(found, Blocks)
    assert found.blocks == [{"type": "text", "text": "hello"}]


def test_a_result_that_does_not_fit_its_type_says_so_and_that_the_tool_ran() -> None:
    @tool(effect="read")
    def count() -> int:
        """Count."""
        return 1

    with pytest.raises(CallFailed, match="tool 'count' ran, but its result is not of type int"):
        tool_value(count, answer("id", "many"))


def test_a_delegation_is_text_or_a_value_of_its_schema() -> None:
    assert delegated_value("it", NO_TYPE, answer("id", '{"x":1}')) == '{"x":1}'
    assert delegated_value("it", output_type({"type": "object"}), answer("id", '{"x":1}')) == {"x": 1}
    assert delegated_value("it", output_type(Point), answer("id", '{"x":1}')) == Point(1)
    with pytest.raises(DelegationFailed) as caught:
        delegated_value("the delegation", NO_TYPE, answer("id", "The delegation failed.", "budget"))
    assert (caught.value.kind, caught.value.text) == ("budget", "The delegation failed.")


def test_the_text_of_blocks_is_that_of_their_text_blocks() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "source": {}}, {"type": "text", "text": "b"}]
    assert Answer("id", to_json(blocks)).text == "a\nb"
    assert Answer("id").text == ""


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        ("error", CallFailed, "tool 'look' failed: why"),
        ("interrupted", Interrupted, "tool 'look' was interrupted, and may have taken effect: why"),
        ("denied", NotApproved, "tool 'look' was not approved: why"),
    ],
)
def test_a_call_that_failed_raises_the_error_of_its_status(
    status: str, kind: type[AskFailed], said: str
) -> None:
    with pytest.raises(kind, match=said) as caught:
        tool_value("look", answer("look-1", "why", status))
    assert type(caught.value) is kind


def test_an_empty_result_is_none_only_where_none_is_a_possible_value() -> None:
    empty, other = Answer("a", NO_OUTPUT, False, "ok"), Answer("a", Json(b'"hi"'), False, "ok")
    assert [_text(empty, True), _text(other, True), _text(other, False)] == [None, "hi", "hi"]
    assert _text(empty, False) is not None
