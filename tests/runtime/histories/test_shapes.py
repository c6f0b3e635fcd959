"""The items of three APIs as words, calls and results."""

from typing import Any

from callboard.runtime.histories.content import Repairs, text_of
from callboard.runtime.histories.shapes import Call, Reader, Result, Shape, Words, shape_of
from tests.tables import table


def read(item: object) -> tuple[list[object], list[str]]:
    repairs = Repairs()
    return list(Reader(None, repairs).read(item, 0)), [one.fault for one in repairs.made]


@table(
    ("item", "said"),
    [
        ({"role": "user", "content": "a"}, [Words("user", text_of("a"))]),
        ({"role": "model", "content": "a"}, [Words("assistant", text_of("a"))]),
        ({"role": "assistant", "content": None, "refusal": "No."}, [Words("assistant", text_of("No."))]),
        ({"role": "system", "content": "a"}, [Words("user", text_of("[system message] a"))]),
        ({"role": "system", "content": [{"type": "tool_addition"}]},
         [Words("user", text_of('[system message] {"type":"tool_addition"}'))]),
        ({"role": "assistant", "tool_calls": [{"id": "i", "type": "custom",
          "custom": {"name": "n", "input": '{"a":1}'}}]}, [Call("i", "n", {"input": '{"a":1}'})]),
        ({"role": "assistant", "tool_calls": [{"id": "i", "function": {"name": "n", "arguments": ""}}]},
         [Call("i", "n", {})]),
        ({"role": "assistant",
          "tool_calls": [{"id": "i", "function": {"name": "n", "arguments": '"{\\"a\\":1}"'}}]},
         [Call("i", "n", {"a": 1})]),
        ({"role": "tool", "tool_call_id": "i", "content": [text_of("a")]},
         [Result("i", "", [text_of("a")])]),
        ({"role": "tool", "tool_call_id": "i", "content": {"a": 1}},
         [Result("i", "", [text_of('{"a":1}')])]),
        ({"type": "custom_tool_call", "call_id": "i", "name": "n", "input": "x"},
         [Call("i", "n", {"input": "x"})]),
        ({"type": "custom_tool_call_output", "call_id": "i", "output": "x"}, [Result("i", "", "x")]),
        ({"type": "message", "content": [{"type": "input_text", "text": "a"}]},
         [Words("user", text_of("a"))]),
        ({"type": "file_search_call"}, []),
        ({"type": "computer_call_output", "output": {}}, []),
        ({"type": "mcp_list_tools"}, []),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "is_error": True}]},
         [Result("i", "", [], is_error=True)]),
    ],
)  # fmt: skip
def test_an_item_is_read_as_words_calls_and_results(item: Any, said: list[object]) -> None:
    assert read(item) == (said, [])


@table("arguments", ['{"a', "[1]", 7, [1], "words", '{"a":1}{"b":2}', "[" * 3_000])
def test_arguments_that_are_no_object_are_a_fault(arguments: object) -> None:
    said, faults = read({"type": "function_call", "call_id": "i", "name": "n", "arguments": arguments})
    assert faults == ["has arguments of a call of n that are not a JSON object"]
    assert isinstance(said[0], Call)
    assert list(said[0].arguments) == ["unreadable"]


@table(
    ("item", "shape"),
    [
        ({"role": "user", "content": "a"}, None),
        ({"role": "assistant", "content": "a", "type": "message"}, "responses"),
        ({"type": "reasoning"}, "responses"),
        ({"role": "tool"}, "chat"),
        ({"role": "assistant", "tool_calls": []}, "chat"),
        ({"role": "assistant", "tool_calls": None}, None),
        ({"role": "user", "content": [{"type": "tool_result"}]}, "messages"),
        ({"role": ["user"]}, None),
    ],
)
def test_the_shape_of_an_item_is_told_by_its_own_keys(item: Any, shape: Shape | None) -> None:
    assert shape_of(item) == shape
