"""Policies that drive specialists, and the results that name their calls."""

import asyncio

from callboard import ProgramContext, Runtime, tool
from callboard.orchestrator import (
    Orchestrator,
    OrchestratorResult,
    PolicyRun,
    Specialist,
    SpecialistContext,
    SpecialistResult,
    ToolUse,
)


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
