"""The input rules of Converse about calls of earlier turns."""

from typing import Any

import pytest

from callboard.replay.testing.input_rules.bedrock import problem_of

SPEC: dict[str, Any] = {"name": "look", "inputSchema": {"json": {"type": "object"}}}
TOOLS: dict[str, Any] = {"tools": [{"toolSpec": SPEC}]}


def use(use_id: str, **changes: Any) -> dict[str, Any]:
    call: dict[str, Any] = {"toolUseId": use_id, "name": "look", "input": {}}
    return {"toolUse": call | changes}


def problem(*replies: list[Any]) -> str:
    messages: list[Any] = [{"role": "user", "content": [{"text": "Go."}]}]
    for blocks in replies:
        ids = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        results: list[Any] = [{"toolResult": {"toolUseId": one, "content": [{"text": "ok"}]}} for one in ids]
        messages += [
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": results or [{"text": "x"}]},
        ]
    return problem_of({"messages": messages, "toolConfig": TOOLS})


def test_calls_with_ids_of_their_own_are_taken() -> None:
    assert problem([use("c1"), use("c2")], [use("c3")]) == ""


@pytest.mark.parametrize("replies", [[[use("c1"), use("c1")]], [[use("c1")], [use("c1")]]])
def test_doubled_ids_are_refused_in_a_message_and_over_the_request(replies: list[list[Any]]) -> None:
    assert "duplicate Ids" in problem(*replies)


@pytest.mark.parametrize("change", [{"input": "{}"}, {"name": "a b"}, {"toolUseId": "ü"}])
def test_an_odd_call_is_refused(change: dict[str, Any]) -> None:
    assert "toolUse" in problem([use("c1", **change)])


def test_a_blank_text_is_refused() -> None:
    assert "non-empty" in problem([{"text": " "}])
