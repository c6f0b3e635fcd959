"""The values of an orchestrator as prompts and back."""

import json

import pytest

from callboard.errors import MisuseError
from callboard.orchestrator import Question, SpecialistResult
from callboard.runtime.orchestrator.contracts import REPORT, known_names
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.output_types import output_type


@pytest.mark.parametrize("text", ["why?", "", "{}", '{"query": 1}', "[1]", "{", '{"other": "x"}'])
def test_a_prompt_that_is_no_question_in_json_is_a_question(text: str) -> None:
    assert Question.from_prompt(text) == Question(text)


def test_a_question_with_a_scope_is_json_and_one_without_is_its_text() -> None:
    assert Question("why?").prompt() == "why?"
    scoped = Question("why?", ("a", "b"))
    assert Question.from_prompt(scoped.prompt()) == scoped


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(MisuseError, match=r"get\(\) names 'x'; there are a, b"):
        known_names("get()", ["x"], {"b": 1, "a": 2})
    with pytest.raises(MisuseError, match="there are none"):
        known_names("get()", ["x"], {})


def test_the_schema_of_a_report_is_short_and_names_every_field() -> None:
    schema, full = json.loads(bytes(REPORT.schema)), json.loads(bytes(output_type(SpecialistResult).schema))
    assert [*schema["properties"]] == [*full["properties"]] == [*SpecialistResult.__struct_fields__]
    assert schema["required"] == full["required"]
    assert all(f"{name}: " in schema["description"] for name in schema["properties"] if name != "success")
    assert len(bytes(REPORT.schema)) < 0.65 * len(bytes(output_type(SpecialistResult).schema))


def test_the_type_checks_what_the_short_schema_leaves_out() -> None:
    report = {"success": True, "tool_calls": [{"tool": "t", "arguments": {"a": 1}}]}
    assert REPORT.form_problems(to_json(report, what="x")) == ()
    wrong = to_json({"success": True, "tool_calls": [{"arguments": {}}]}, what="x")
    assert [one.path for one in REPORT.form_problems(wrong)] == ["/tool_calls/0"]
