"""The analysis of a question by rules and by a model."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import ModelRequest, Reply, Runtime, ScriptedModel, call, calls, fail
from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.errors import MisuseError
from callboard.orchestrator import (
    HintRule,
    ModelAnalyzer,
    Orchestrator,
    OrchestratorResult,
    QueryAnalyzer,
    QueryIntent,
    Specialist,
)
from callboard.runtime.models.scripted import Step
from callboard.runtime.orchestrator.analysis import has_word
from tests.runtime.orchestrator.kit import answering

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
