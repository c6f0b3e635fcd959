"""Specialists and their registry."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import (
    Agent,
    Limits,
    ModelRequest,
    Program,
    ProgramContext,
    Reply,
    Runtime,
    ScriptedModel,
    call,
    calls,
    say,
    tool,
)
from callboard.errors import InvalidAgent, InvalidPrompt, MisuseError
from callboard.orchestrator import (
    Finding,
    Orchestrator,
    Registry,
    Router,
    Specialist,
    SpecialistContext,
    SpecialistResult,
)
from callboard.runtime.contracts import contract_of
from callboard.runtime.orchestrator.specialists import SpecialistPolicy
from tests.runtime.orchestrator.kit import answering


@tool(effect="read")
def look(table: str) -> str:
    """Look into a table."""
    return table


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
CONTRACT = contract_of("one", SpecialistContext)
ONE = Specialist("one", "Looks.", (look,), "Be brief.", capabilities=("table",), max_iterations=3)


def test_a_specialist_is_an_ordinary_agent_with_the_report_as_its_schema() -> None:
    profile = ONE.make_agent().profile()
    assert (profile.name, profile.limits.max_iterations) == ("one", 3)
    assert [spec.name for spec in profile.tools] == ["look"]
    assert ONE.make_agent().output_type.name.endswith("SpecialistResult")


def test_a_policy_makes_it_a_program_with_the_same_tools() -> None:
    agent = Specialist("one", tools=(look,), policy=answering("x")).make_agent()
    assert isinstance(agent, Program)
    assert list(agent.tools) == ["look"]


FIELDS = ["query", "scope", "hints", "max_iterations", "found", "earlier"]


@pytest.mark.parametrize("policy", [None, answering("x")])
def test_its_context_is_its_input_contract(policy: SpecialistPolicy | None) -> None:
    profile = replace(ONE, policy=policy).make_agent().profile()
    schema = msgspec.json.decode(profile.input_schema)
    assert (list(schema["properties"]), schema["required"]) == (FIELDS, ["query"])
    assert profile.input_type == "one:callboard.runtime.orchestrator.contracts.SpecialistContext"


def test_a_missing_or_wrong_context_is_a_folded_failure() -> None:
    def policy(request: ModelRequest) -> Reply:
        if request.profile == "one":
            return calls(call("report_back", success=True, content="found"))
        if request.turn > 1:
            return say("done")
        return calls(
            call("one"),
            call("one", query=5),
            call("one", query="q", hints=["6-2"]),
            call("one", query="q", page=3),
            call("one", query="q"),
        )

    host = Agent("host", agents=[replace(ONE, tools=()).make_agent()])
    outcome = Runtime(":memory:", model=ScriptedModel(policy)).run_sync(host, "go")
    right, *wrong = sorted(outcome.delegations, key=lambda one: one.kind != "reported")
    assert (outcome.text, right.kind) == ("done", "reported")
    assert [one.kind for one in wrong] == ["denied"] * 4
    assert {(one.metadata or {}).get("response") for one in wrong} == {"invalid_input"}


def test_it_is_run_with_a_context_and_refuses_another_value() -> None:
    seen: list[SpecialistContext] = []
    agent = Specialist("two", policy=answering("A", seen=seen)).make_agent()
    given = SpecialistContext("why?", ("a",), {"table": ["6-2"]}, 3)
    runtime = Runtime(":memory:")
    assert runtime.run_sync(agent, given).is_ok
    assert seen == [given]
    with pytest.raises(InvalidPrompt, match="missing required field `query`"):
        runtime.run_sync(agent, {"scope": ["a"]})


@given(TEXTS, st.lists(TEXTS, max_size=3), st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2), max_size=2))
def test_a_context_survives_its_prompt(query: str, scope: list[str], hints: dict[str, list[str]]) -> None:
    found = (Finding("tables", SpecialistResult(True, query, ("a p.1",), confidence=0.5)),)
    context = SpecialistContext(query, tuple(scope), hints, 3, found)
    assert CONTRACT.value_of(CONTRACT.prompt(context)) == context


def test_the_registry_gives_specialists_by_name_and_capability() -> None:
    registry = Registry([ONE])
    registry.add(Specialist("two", capabilities=("table",), priority=2))
    registry.add(Specialist("off", capabilities=("table",), priority=9, enabled=False))
    assert [one.name for one in registry] == ["one", "two", "off"]
    assert [one.name for one in registry.enabled()] == ["one", "two"]
    assert [one.name for one in registry.by_capability("table")] == ["two", "one"]
    assert registry.by_capability("other") == ()
    assert registry.get("off").priority == 9
    assert (len(registry), "two" in registry, "three" in registry) == (3, True, False)


def test_a_second_specialist_of_one_name_is_refused() -> None:
    with pytest.raises(InvalidAgent, match="specialist 'one' is registered already"):
        Registry([ONE, ONE])


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(MisuseError, match="names 'three'; there are one"):
        Registry([ONE]).get("three")


def test_a_policy_asks_models_by_name_and_is_bound_by_its_limits() -> None:
    async def policy(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
        words = [await ctx.ask_model(context.query, model="second") for _ in range(3)]
        return SpecialistResult(True, words[0])

    second = ScriptedModel(lambda request: "two", name="second")
    one = Specialist("one", policy=policy, models=(second,), max_iterations=3)
    runtime = Runtime(":memory:")
    outcome = runtime.run_sync(one.make_agent(), SpecialistContext("why?"))
    assert (outcome.kind, outcome.usage.calls) == ("reported", 3)
    assert runtime.run_sync(
        replace(one, max_iterations=2).make_agent(), SpecialistContext("why?")
    ).detail == ("max_iterations")
    own = replace(one, max_iterations=2, limits=Limits(tokens=5)).make_agent().profile().limits
    assert (own.tokens, own.max_iterations) == (5, 2)


@pytest.mark.parametrize(
    ("answer", "content", "success"),
    [("by name", "by name", True), ('{"success":false,"error":"none"}', "", False)],
)
def test_any_agent_may_be_a_specialist(answer: str, content: str, success: bool) -> None:
    asked: list[object] = []

    def says(request: ModelRequest) -> str:
        asked.append(request.conversation[0]["content"])
        return answer

    plain = Agent("plain", description="Knows.", instructions="Be brief.")
    host = Orchestrator([Specialist("plain", agent=plain)], router=Router(default=("plain",)))
    outcome = Runtime(":memory:", model=ScriptedModel(says)).run_sync(host, "why?")
    result = host.result(outcome)
    assert (asked, result.content.partition("\n")[0], result.success) == (["why?"], content, success)
    assert SpecialistContext("why?", hints={"table": ["6-2"]}).prompt().startswith('{"query":"why?"')


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"agent": Agent("other", description="x")}, "is an Agent of this name"),
        ({"agent": "one"}, "is an Agent of this name"),
        ({"agent": Agent("one", description="x"), "instructions": "x"}, "give tools, instructions, model"),
        ({"agent": Agent("one", description="x", input=SpecialistResult)}, "the input of its agent is"),
    ],
)
def test_an_agent_that_cannot_be_this_specialist_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidAgent, match=why):
        Specialist("one", **more).make_agent()
