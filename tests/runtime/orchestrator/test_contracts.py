"""The values of an orchestrator as prompts and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import Finding, MisuseError, Question, SpecialistContext, SpecialistResult
from callboard.runtime.orchestrator.contracts import known_names

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2), max_size=2))
def test_a_context_survives_its_prompt(query: str, scope: list[str], hints: dict[str, list[str]]) -> None:
    found = (Finding("tables", SpecialistResult(True, query, ("a p.1",), confidence=0.5)),)
    context = SpecialistContext(query, tuple(scope), hints, 3, found)
    assert SpecialistContext.from_prompt(context.prompt()) == context


@pytest.mark.parametrize("text", ["why?", "", "{}", '{"query": 1}', "[1]", "{", '{"other": "x"}'])
def test_a_prompt_that_is_no_context_is_a_query(text: str) -> None:
    assert SpecialistContext.from_prompt(text) == SpecialistContext(text)
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
