"""The input rules of the Gemini API about parts of a reply."""

from typing import Any

import pytest

from callboard.replay.testing.input_rules.gemini import problem_of

NAMED: dict[str, Any] = {"id": "c", "name": "look", "args": {}}
CALL: dict[str, Any] = {"functionCall": NAMED, "thoughtSignature": "c2VhbA=="}
ANSWER: dict[str, Any] = {"functionResponse": {"id": "c", "name": "look", "response": {}}}


def problem(parts: list[Any], answer: list[Any]) -> str:
    user = {"role": "user", "parts": [{"text": "Go."}]}
    return problem_of(
        {"contents": [user, {"role": "model", "parts": parts}, {"role": "user", "parts": answer}]}
    )


def test_a_call_with_its_signature_and_a_signed_empty_text_are_taken() -> None:
    assert problem([CALL], [ANSWER]) == ""
    assert problem([{"text": "", "thoughtSignature": "c2VhbA=="}], [{"text": "x"}]) == ""


@pytest.mark.parametrize("parts", [[], [{"text": ""}], [{"text": "x"}, {"text": ""}], [{}]])
def test_a_reply_without_data_is_refused(parts: list[Any]) -> None:
    assert problem(parts, [{"text": "x"}]) != ""


@pytest.mark.parametrize("name", ["1st", "a b", "n" * 65])
def test_an_odd_name_is_refused(name: str) -> None:
    call = {**CALL, "functionCall": {**CALL["functionCall"], "name": name}}
    answer = {"functionResponse": {**ANSWER["functionResponse"], "name": name}}
    assert "functionCall" in problem([call], [answer])


@pytest.mark.parametrize("kind", ["array", ["array", "null"]])
def test_an_array_without_items_is_refused(kind: object) -> None:
    def problem_with(rows: object) -> str:
        schema = {"type": "object", "properties": {"a": {"type": "array", "items": rows}}}
        tool = {"functionDeclarations": [{"name": "look", "parametersJsonSchema": schema}]}
        return problem_of({"contents": [{"role": "user", "parts": [{"text": "Go."}]}], "tools": [tool]})

    assert problem_with({"type": kind, "items": {}}) == ""
    assert problem_with({"type": kind}) == "items: missing field"
