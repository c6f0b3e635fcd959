"""The merge of findings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.errors import MisuseError
from callboard.orchestrator import (
    Aggregator,
    Conflict,
    Finding,
    QueryIntent,
    Router,
    Specialist,
    SpecialistResult,
    ToolUse,
)
from callboard.runtime.orchestrator.choices import cells_of, is_answered, open_questions
from tests.tables import table

MERGE = Aggregator()
TABLES = Specialist("tables", capabilities=("table",), keywords=("row", "表"), priority=1)
SEARCH = Specialist("search", capabilities=("search", "table"), keywords=("find",), priority=5)
PLAIN = Specialist("plain")
ALL = (PLAIN, TABLES, SEARCH)


def found(name: str, content: str = "", **more: object) -> Finding:
    return Finding(name, SpecialistResult(True, content, **more))  # type: ignore[arg-type]  # of any type


def lacking(name: str, error: str = "") -> Finding:
    return Finding(name, SpecialistResult(False, error=error))


def cell(value: object, column: str = "C") -> dict[str, object]:
    return {"table": "6-2", "row": "R", "column": column, "value": value}


def test_contents_sources_and_calls_count_once_in_their_order() -> None:
    call, other = ToolUse("look", {"a": 1, "b": 2}), ToolUse("look", {"b": 2, "a": 1})
    result = MERGE(
        [
            found("a", "It is  5.", sources=("p.1", "p.2"), tool_calls=(call,)),
            found("b", "it is 5.\n", sources=("p.2", "p.3"), tool_calls=(other, ToolUse("look"))),
            found("c", "And 6."),
        ]
    )
    assert result.content == "It is  5.\n\nAnd 6."
    assert result.sources == ("p.1", "p.2", "p.3")
    assert result.tool_calls == (call, ToolUse("look"))


def test_one_answer_of_three_is_an_answer_that_says_what_is_missing() -> None:
    result = MERGE([lacking("a", "budget"), found("b", "5", confidence=0.4), lacking("c")])
    assert (result.success, result.error, result.confidence) == (True, "", 0.4)
    assert result.content == "5\n\nWithout an answer: a (budget); c (no answer)."
    assert result.data["missing"] == [
        {"specialist": "a", "reason": "budget"},
        {"specialist": "c", "reason": "no answer"},
    ]


def test_refusals_can_be_left_out_of_the_content_and_failures_cannot() -> None:
    failed = Finding("c", SpecialistResult(False, error="budget"), "budget")
    result = Aggregator(names_refusals=False)([lacking("a", "no table"), found("b", "5"), failed])
    assert result.content == "5\n\nWithout an answer: c (budget)."
    assert [one["specialist"] for one in result.data["missing"]] == ["a", "c"]
    assert "a (no table)" in Aggregator(names_refusals=False)([lacking("a", "no table")]).error


def test_without_an_answer_the_result_fails_and_says_why() -> None:
    result = MERGE([lacking("a", "budget")])
    assert (result.success, result.content, result.confidence) == (False, "", 0.0)
    assert result.error == "no specialist has an answer: a (budget)"
    assert MERGE([]).error == "no specialist has an answer: none was asked"


def test_a_specialist_that_answers_at_its_second_turn_is_not_missing() -> None:
    result = MERGE([lacking("a", "budget"), found("a", "5")])
    assert result.content == "5"


def test_one_cell_with_two_values_is_a_conflict_and_lowers_the_confidence() -> None:
    result = MERGE(
        [
            found("a", "5", data={"cells": [cell("5 "), cell(7, "D")]}, confidence=0.9),
            found("b", "6", data={"cells": [cell(6), cell("7", "D")]}, confidence=0.6),
            found("c", "0", data={}, confidence=0.8),
        ]
    )
    assert result.conflicts == (Conflict("6-2", "R", "C", {"a": "5", "b": "6"}),)
    assert result.confidence == 0.6
    assert MERGE([found("a", confidence=0.9), found("b", confidence=0.6)]).confidence == 0.9


@table("cells", [None, "x", [1], [{}], [{"table": "1"}], {"a": 1}])
def test_data_without_cells_has_none(cells: object) -> None:
    assert cells_of({"cells": cells}) == []


@given(
    st.lists(
        st.builds(
            Finding,
            st.sampled_from("abc"),
            st.builds(
                SpecialistResult,
                st.booleans(),
                st.sampled_from(["", "x", "X ", "y"]),
                st.tuples(st.sampled_from(["p.1", "p.2"])),
                confidence=st.floats(0, 1),
            ),
        ),
        max_size=6,
    )
)
def test_nothing_is_lost_and_nothing_is_there_twice(findings: list[Finding]) -> None:
    result = MERGE(findings)
    answers = [one.result for one in findings if one.result.success]
    assert result.success is bool(answers)
    assert sorted(result.sources) == sorted({source for one in answers for source in one.sources})
    assert result.confidence == max((one.confidence for one in answers), default=0.0)
    named = {one["specialist"] for one in result.data["missing"]}
    assert named == {one.specialist for one in findings} - {
        one.specialist for one in findings if one.result.success
    }


@table(
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


@table(
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
