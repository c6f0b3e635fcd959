"""The choice of specialists."""

import pytest

from callboard.errors import MisuseError
from callboard.orchestrator import Finding, QueryIntent, Router, Specialist, SpecialistResult
from callboard.runtime.orchestrator.routing import is_answered, open_questions

TABLES = Specialist("tables", capabilities=("table",), keywords=("row", "表"), priority=1)
SEARCH = Specialist("search", capabilities=("search", "table"), keywords=("find",), priority=5)
PLAIN = Specialist("plain")
ALL = (PLAIN, TABLES, SEARCH)


@pytest.mark.parametrize(
    ("query", "intent", "expected"),
    [
        ("the rows", QueryIntent(), ("tables",)),
        ("find the rows", QueryIntent(), ("search", "tables")),  # equal scores: by priority
        ("find it", QueryIntent("table"), ("search", "tables")),
        ("a row", QueryIntent("table"), ("tables", "search")),
        ("it", QueryIntent("", ("table",)), ("search", "tables")),
        ("find", QueryIntent("other", ("table", "search")), ("search", "tables")),
        ("¿qué?", QueryIntent("other"), ("search", "tables", "plain")),  # nothing fits: all, by priority
    ],
)
def test_keywords_and_capabilities_choose_and_priority_orders(
    query: str, intent: QueryIntent, expected: tuple[str, ...]
) -> None:
    assert Router().select(query, intent, ALL) == expected


def test_a_question_that_fits_none_takes_the_default_route() -> None:
    router = Router(default=["plain"])
    assert router.select("¿qué?", QueryIntent(), ALL) == ("plain",)
    assert router.select("row", QueryIntent(), ALL) == ("tables",)


def test_the_choice_can_be_a_function_whose_names_count_once() -> None:
    router = Router(select=lambda query, intent, enabled: [query, enabled[0].name, query])
    assert router.select("any", QueryIntent(), ALL) == ("any", "plain")
    assert router.fallback(ALL) == ()


def test_a_route_asks_at_least_one_specialist() -> None:
    with pytest.raises(MisuseError, match="max_hops is 0"):
        Router(max_hops=0)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (SpecialistResult(True, confidence=0.5), True),
        (SpecialistResult(True, confidence=0.49), False),
        (SpecialistResult(False, confidence=1.0), False),
        (SpecialistResult(True, confidence=1.0, data={"open": ["and?"]}), False),
        (SpecialistResult(True, confidence=1.0, data={"open": []}), True),
        (SpecialistResult(True, confidence=1.0, data={"open": 7}), True),
    ],
)
def test_a_confident_answer_without_open_questions_ends_the_route(
    result: SpecialistResult, expected: bool
) -> None:
    weak = Finding("first", SpecialistResult(False))
    assert is_answered(QueryIntent(), [weak, Finding("last", result)]) is expected
    assert not is_answered(QueryIntent(), [])


def test_open_questions_that_are_no_texts_are_left_out() -> None:
    assert open_questions(Finding("a", SpecialistResult(True, data={"open": ["x", 1, None]}))) == ("x",)
