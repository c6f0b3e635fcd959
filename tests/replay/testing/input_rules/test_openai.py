"""The input rules of Chat Completions and Responses about calls of earlier turns."""

from typing import Any

from callboard.replay.testing.input_rules.openai import problem_of
from tests.tables import table


def chat(name: str = "look", arguments: object = "{}") -> str:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    return problem_of("chat", {"model": "m", "messages": messages})


def responses(**changes: Any) -> str:
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "look",
        "arguments": "{}",
        **changes,
    }
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
    return problem_of(
        "responses", {"model": "m", "input": [{"role": "user", "content": "Go."}, call, output]}
    )


def test_calls_with_objects_are_taken() -> None:
    assert chat() == responses() == ""


@table("arguments", ['{"a', "[1]", '"{}"', "", '{"a": NaN}', '{"a": 1, "a": 2}', '"\\ud800"', {}])
def test_arguments_that_are_not_an_object_are_refused(arguments: object) -> None:
    assert "arguments" in chat(arguments=arguments)
    assert "arguments" in responses(arguments=arguments)


def test_odd_names_and_long_ids_are_refused() -> None:
    assert "name" in chat(name="a b")
    assert "name" in responses(name="n" * 65)
    assert "call_id" in responses(call_id="c" * 65)
    assert "too long" in responses(id="f" * 65)


@table(
    ("rows", "is_refused"),
    [
        ({"type": "array"}, True),
        ({"type": "array", "items": {"type": ["array", "null"]}}, True),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, True),
        ({"type": "array", "items": {}}, False),
        ({"enum": [{"type": "array"}], "default": {"type": "array"}}, False),
    ],
)
def test_an_array_without_items_is_refused(rows: object, is_refused: bool) -> None:
    schema = {"type": "object", "properties": {"items": rows}}
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": [tool]}
    assert problem_of("chat", body) == ("array schema missing items" if is_refused else "")
