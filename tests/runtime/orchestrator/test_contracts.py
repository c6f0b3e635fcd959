"""The values of an orchestrator as prompts and back."""

import pytest

from callboard import MisuseError, Question
from callboard.runtime.orchestrator.contracts import known_names


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
