"""The route of a question, as a host of another kind goes it; an orchestrator goes it by the same rules."""

from typing import Any, cast

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.orchestrator import (
    Finding,
    ModelAnalyzer,
    Orchestrator,
    QueryIntent,
    Question,
    Router,
    Specialist,
    SpecialistResult,
)

TWO = (
    Specialist("tables", keywords=("table",), max_iterations=3),
    Specialist("prose", keywords=("prose",), priority=-1),
)
NOTHING = SpecialistResult(False, error="nothing found")
SURE = SpecialistResult(True, "Page 3.", confidence=0.9)


def test_a_sequential_route_asks_one_after_the_other_until_it_is_answered() -> None:
    route = Orchestrator(TWO).route("Which table?")
    assert route.next() == ("tables",)
    missed = [Finding("tables", NOTHING)]
    assert route.next(missed) == ("prose",)
    assert route.context("prose", missed).found == tuple(missed)
    assert route.next([Finding("tables", SURE)]) == ()
    assert route.next([*missed, Finding("prose", NOTHING)]) == ()
    assert route.merged([*missed, Finding("prose", SURE)]).data["route"] == ["tables", "prose"]


def test_a_parallel_route_asks_all_that_fit_at_once() -> None:
    route = Orchestrator(
        TWO, mode="parallel", router=Router(select=lambda *given: ["prose", "tables"])
    ).route("What?")
    found = [Finding("prose", NOTHING)]
    assert (route.next(), route.next(found)) == (("prose", "tables"), ())
    assert route.context("tables", found).found == ()


def test_a_cap_ends_a_route() -> None:
    route = Orchestrator(TWO, router=Router(max_hops=1)).route("Which table?")
    assert route.next([Finding("tables", NOTHING)]) == ()


def test_a_context_has_the_scope_the_hints_and_the_model_calls() -> None:
    intent = QueryIntent(hints={"place": ["6-2"]})
    route = Orchestrator(TWO).route(Question("What?", ("grid",)), intent)
    context = route.context("tables")
    assert (context.query, context.scope, context.hints, context.max_iterations) == (
        "What?", ("grid",), {"place": ["6-2"]}, 3,
    )  # fmt: skip
    assert Orchestrator(TWO).route(Question("What?", ("grid",)).prompt()).context("x").scope == ("grid",)


def test_a_question_that_was_left_open_has_a_route_of_its_own() -> None:
    first = Orchestrator(TWO, router=Router(max_hops=2)).route("Which table?", QueryIntent("x"))
    found = [Finding("tables", SURE)]
    route = first.hop("Where is the prose?", QueryIntent(), found)
    assert route.next(found) == ("prose",)
    assert route.next([*found, Finding("prose", SURE)]) == ()


def test_an_analyzer_that_asks_a_model_needs_its_intent() -> None:
    rules = Orchestrator(TWO, analyzer=ModelAnalyzer(["table"]))
    with pytest.raises(MisuseError, match=r"pass the intent, `route\(question, intent\)`"):
        rules.route("What?")
    assert rules.route("What?", QueryIntent()).intent == QueryIntent()
    wrong = Orchestrator(TWO, analyzer=cast(Any, str))
    with pytest.raises(MisuseError, match="the analyzer returned 'What\\?'"):
        wrong.route("What?")


def test_a_report_that_is_a_json_value_is_a_finding_or_says_why_not() -> None:
    good = Finding.from_value("one", {"success": True, "content": "Page 3.", "confidence": 0.9})
    assert good == Finding("one", SURE)
    bad = Finding.from_value("one", {"content": 3})
    assert (bad.kind, bad.result.success) == ("no_report", False)
    assert "no report: " in bad.result.error


def test_the_schema_of_a_report_is_that_of_a_specialist() -> None:
    schema = SpecialistResult.schema()
    assert (schema["required"], "cells" in schema["description"]) == (["success"], True)
