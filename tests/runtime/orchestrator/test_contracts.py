"""The values of an orchestrator as prompts and back."""

import asyncio
import json

import pytest

from callboard import ProgramContext, Runtime, tool
from callboard.errors import MisuseError
from callboard.orchestrator import (
    Orchestrator,
    OrchestratorResult,
    PolicyRun,
    Question,
    Specialist,
    SpecialistContext,
    SpecialistResult,
    ToolUse,
)
from callboard.runtime.orchestrator.contracts import REPORT, known_names
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.output_types import output_type
from tests.tables import table


@table("text", ["why?", "", "{}", '{"query": 1}', "[1]", "{", '{"other": "x"}'])
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


@tool(effect="read")
def price_of(drink: str) -> int:
    """Look up the price of a drink."""
    return {"tea": 240}[drink]


async def prices(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    run = PolicyRun(ctx, context)
    for drink in ("wine", "tea"):
        if drink in context.query and (price := await run.call("price_of", drink=drink)) is not None:
            return run.answer(str(price), ["menu", "menu", "board"], 0.8, {"cents": price})
    return run.refuse("no price of that")


def asked(question: str) -> OrchestratorResult:
    host = Orchestrator([Specialist("prices", tools=(price_of,), policy=prices)])

    async def body() -> OrchestratorResult:
        async with Runtime(":memory:") as runtime:
            return host.result(await runtime.run(host, question))

    return asyncio.run(body())


def test_an_answer_names_its_calls_failed_ones_too_and_each_source_once() -> None:
    found = asked("What do wine and tea cost?")
    assert (found.content, found.sources, found.confidence) == ("240", ("menu", "board"), 0.8)
    assert found.tool_calls == (
        ToolUse("price_of", {"drink": "wine"}),
        ToolUse("price_of", {"drink": "tea"}),
    )
    assert found.data["specialists"] == {"prices": {"cents": 240}}


def test_a_refusal_gives_its_reason_and_the_calls_made() -> None:
    found = asked("And wine?")
    assert (found.success, found.tool_calls) == (False, (ToolUse("price_of", {"drink": "wine"}),))
    assert "no price of that" in found.error
