"""The analysis of a question by rules and by a model."""

import asyncio
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
    fail,
    say,
    tool,
)
from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.errors import InvalidAgent, InvalidPrompt, MisuseError
from callboard.orchestrator import (
    Finding,
    HintRule,
    ModelAnalyzer,
    Orchestrator,
    OrchestratorResult,
    QueryAnalyzer,
    QueryIntent,
    Registry,
    Router,
    Specialist,
    SpecialistContext,
    SpecialistResult,
)
from callboard.runtime.contracts import contract_of
from callboard.runtime.models.scripted import Step
from callboard.runtime.orchestrator.analysis import SpecialistPolicy, has_word
from tests.runtime.orchestrator.kit import answering
from tests.tables import table

ANALYZER = QueryAnalyzer(
    {"table": ("table", "row", "表"), "reference": ("see", "refer to", "参见")},
    [
        HintRule("table", r"table\s+(\d+-\d+)|表\s*(\d+-\d+)", intent="table"),
        HintRule("note", r"note\s+(\d+)|注\s*(\d+)"),
        HintRule("section", r"§\s*(\d+(?:\.\d+)*)"),
        HintRule("chapter", r"第([一二三])章", convert=lambda text: str("一二三".index(text) + 1)),
    ],
    multi_hop=("and then", "then see", "分别"),
    default="search",
)


@table(
    ("query", "expected"),
    [
        ("What does Table 6-2, note 1 say?", QueryIntent("table", hints={"table": ["6-2"], "note": ["1"]})),
        ("表6-2注1", QueryIntent("table", hints={"table": ["6-2"], "note": ["1"]})),
        ("第三章", QueryIntent("search", hints={"chapter": ["3"]})),
        ("§ 5.6.12", QueryIntent("search", hints={"section": ["5.6.12"]})),
        ("See the rows", QueryIntent("table", ("reference",))),
        ("Look it up and then tell me", QueryIntent("search", requires_multi_hop=True)),
        ("Table 1-1, table 1-2, Table 1-1", QueryIntent("table", hints={"table": ["1-1", "1-2"]})),
        ("¿Qué dice?", QueryIntent("search")),
        ("", QueryIntent("search")),
    ],
)
def test_rules_find_the_intent_and_the_hints(query: str, expected: QueryIntent) -> None:
    assert ANALYZER(query) == expected


@given(st.text())
def test_equal_questions_get_equal_intents(query: str) -> None:
    assert ANALYZER(query) == ANALYZER(query)


@table(
    ("text", "word", "expected"),
    [
        ("the Tables", "table", True),
        ("notable", "table", False),
        ("tablecloth", "table", False),
        ("查table值", "table", True),
        ("见表格", "表", True),
        ("see (a+b)", "a+b", True),
    ],
)
def test_a_latin_word_stands_alone_and_a_chinese_one_anywhere(text: str, word: str, expected: bool) -> None:
    assert has_word(text, word) is expected


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(MisuseError, match="hint rule 'table': '\\(' is not a regular expression"):
        HintRule("table", "(")


def asked_with(step: Step | list[Step]) -> OrchestratorResult:
    """Ask with an analyser that gets this step of a model."""

    def policy(request: ModelRequest) -> Step:
        return step if not isinstance(step, list) else step[min(request.turn, len(step)) - 1]

    host = Orchestrator(
        [Specialist("a", policy=answering("A")), Specialist("b", capabilities=("b",), policy=answering("B"))],
        analyzer=ModelAnalyzer(["a", "b"], fallback=lambda query: QueryIntent("b", hints={"by": ["rules"]})),
    )
    outcome = Runtime(":memory:", model=ScriptedModel(policy)).run_sync(host, "which?")
    return host.result(outcome)


def test_a_model_can_analyse_the_question_and_its_tokens_count() -> None:
    result = asked_with(call("report_back", primary="b", hints={"x": ["1"]}))
    assert (result.content, result.data["route"]) == ("B", ["b"])
    assert result.data["intent"]["hints"] == {"x": ["1"]}
    assert (result.usage.total.calls, result.usage.specialists["b"].calls) == (1, 0)


@pytest.mark.parametrize("step", [fail("bad", is_retryable=False), Reply("no report")])
def test_rules_stand_in_for_a_model_that_fails(step: Step) -> None:
    assert asked_with(step).data["intent"]["hints"] == {"by": ["rules"]}


def test_a_capability_that_no_specialist_has_takes_the_default_route() -> None:
    result = asked_with(call("report_back", primary="nonsense", secondary=["more"]))
    assert result.data["intent"]["primary"] == "nonsense"
    assert result.data["route"][0] == "a", "the first of all that are enabled"


def test_the_whole_context_of_a_model_backed_analyser_is_small() -> None:
    seen: list[ModelRequest] = []

    def policy(request: ModelRequest) -> Reply:
        seen.append(request)
        return calls(call("report_back", primary="b"))

    capabilities = ("table", "reference", "search", "discovery", "comparison", "annex")
    host = Orchestrator([Specialist("b", policy=answering("B"))], analyzer=ModelAnalyzer(capabilities))
    Runtime(":memory:", model=ScriptedModel(policy)).run_sync(host, "which?")
    (request,) = seen
    sent = [bytes(request.system), *map(bytes, request.tools)]
    assert sum(estimated_tokens(one.decode()) for one in sent) <= 800


def test_a_model_that_analyses_a_question_reads_those_before_it() -> None:
    seen: list[str] = []

    def policy(request: ModelRequest) -> Reply:
        seen.append(str(request.conversation[0]["content"]))
        return calls(call("report_back", primary="b"))

    host = Orchestrator([Specialist("b", policy=answering("B"))], analyzer=ModelAnalyzer(["b"]))

    async def main() -> None:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(host)
            for prompt in ("How high?", "And how wide?"):
                assert (await session.ask(prompt)).is_ok

    asyncio.run(main())
    assert seen[0] == "How high?"
    assert seen[-1] == "Asked before: How high?\nAnswered: B\n\nAnd how wide?"


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
