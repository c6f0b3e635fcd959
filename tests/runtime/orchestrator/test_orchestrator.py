"""An orchestrator in live sessions, resumed, replayed and simulated."""

import asyncio
from typing import Any

import msgspec
import pytest

from callboard import Agent, ModelRequest, ProgramContext, Runtime, ScriptedModel, call, calls, fail, tool
from callboard.errors import DelegationFailed, InvalidAgent, OutcomeError
from callboard.log import MemoryLog
from callboard.orchestrator import (
    HintRule,
    Orchestrator,
    OrchestratorResult,
    QueryAnalyzer,
    Question,
    Registry,
    Router,
    Specialist,
    SpecialistContext,
    SpecialistResult,
)
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import Steps
from callboard.runtime.orchestrator.orchestrator import WORDS_CHARS_MAX, reason_of
from callboard.testing import explore, simulate
from tests.runtime.orchestrator.kit import answering, crashes, never_ends, refuses


def ask(host: Orchestrator, question: str = "find a table", model: object = None) -> OrchestratorResult:
    """Ask a question, and verify its log."""
    log = MemoryLog()
    outcome = Runtime(log, model=model).run_sync(host, question)  # type: ignore[arg-type]  # of any type
    Recording.open(MemoryReader(log), outcome.session_id).verify().check()
    return host.result(outcome)


A = Specialist("a", keywords=("table",), priority=2, policy=answering("A"))
B = Specialist("b", keywords=("find",), priority=1, policy=answering("B"))


def test_a_sequential_route_ends_with_the_first_confident_answer() -> None:
    assert ask(Orchestrator([B, A])).content == "A"


def test_each_next_specialist_gets_what_was_found() -> None:
    seen: list[SpecialistContext] = []
    weak = Specialist("weak", keywords=("table",), policy=answering("maybe", confidence=0.1))
    last = Specialist("last", keywords=("find",), policy=answering("B", seen=seen), max_iterations=4)
    result = ask(Orchestrator([weak, last]), Question("find a table", ("x",)).prompt())
    assert result.content == "maybe\n\nB"
    (context,) = seen
    assert (context.query, context.scope, context.max_iterations) == ("find a table", ("x",), 4)
    assert [one.result.content for one in context.found] == ["maybe"]


def test_a_parallel_route_asks_all_that_fit_without_what_others_found() -> None:
    seen: list[SpecialistContext] = []
    other = Specialist("c", keywords=("find",), policy=answering("C", seen=seen))
    result = ask(Orchestrator([A, other, Specialist("unfit", policy=answering("D"))], mode="parallel"))
    assert result.content == "A\n\nC"
    assert [one.found for one in seen] == [()]


def test_a_route_goes_on_with_the_default_until_the_cap() -> None:
    nones = [Specialist(f"n{number}", policy=refuses) for number in range(5)]
    result = ask(Orchestrator(nones, router=Router(max_hops=3)))
    assert result.data["route"] == ["n0", "n1", "n2"]
    assert result.error.count("nothing found") == 3


def test_an_open_question_is_routed_again_for_questions_with_several_hops() -> None:
    first = Specialist(
        "refs", keywords=("refer",), policy=answering("See table 1.", data={"open": ["which row?"]})
    )
    rows = Specialist("rows", keywords=("row",), policy=answering("Row 7."))
    analyzer = QueryAnalyzer(multi_hop=("refer",))
    result = ask(Orchestrator([first, rows], analyzer=analyzer), "refer to?")
    assert (result.data["route"], result.content) == (["refs", "rows"], "See table 1.\n\nRow 7.")


def test_each_hop_is_analysed_for_itself() -> None:
    seen: list[SpecialistContext] = []
    first = Specialist(
        "refs", capabilities=("ref",), policy=answering("See table 1.", data={"open": ["table 7?"]})
    )
    tables = Specialist("tables", capabilities=("table",), policy=answering("Row 7.", seen=seen))
    hints = [HintRule("table", r"table (\d+)", intent="table"), HintRule("section", r"§ (\d+)", intent="ref")]
    host = Orchestrator([first, tables], analyzer=QueryAnalyzer(hints=hints, multi_hop=("refer",)))
    result = ask(host, "What does § 5 refer to?")
    assert (result.data["route"], result.data["intent"]["hints"]) == (["refs", "tables"], {"section": ["5"]})
    assert [(one.query, one.hints) for one in seen] == [("table 7?", {"table": ["7"]})]


def test_an_endless_chain_of_open_questions_ends_at_the_cap() -> None:
    same = Specialist("same", policy=answering("Hm.", data={"open": ["and?"]}))
    host = Orchestrator([same], analyzer=QueryAnalyzer(multi_hop=("why",)), router=Router(max_hops=4))
    assert ask(host, "why?").data["route"] == ["same"] * 4


def test_specialists_that_fail_in_every_way_fold() -> None:
    host = Orchestrator(
        [
            A,
            Specialist("crash", policy=crashes),
            Specialist("slow", policy=never_ends),
            Specialist("broken"),
            Specialist("silent"),
        ],
        router=Router(select=lambda query, intent, enabled: [one.name for one in enabled]),
        mode="parallel",
        timeout_s=0.3,
    )
    model = ScriptedModel(
        lambda request: fail("gone", is_retryable=False) if request.profile == "broken" else "?"
    )
    result = ask(host, model=model)
    assert (result.success, result.content.splitlines()[0]) == (True, "A")
    reasons = {one["specialist"]: one["reason"] for one in result.data["missing"]}
    assert reasons.keys() == {"crash", "slow", "broken", "silent"}
    assert reasons["crash"].startswith("crashed: ")
    assert reasons["slow"] == "no answer within 0.3 s"
    assert reasons["broken"].startswith("model_error")
    assert reasons["silent"].startswith("no_report")


def test_a_context_that_cannot_be_given_is_a_finding_without_an_answer() -> None:
    deep: Any = 1
    for _ in range(57):
        deep = [deep]
    first = Specialist("first", policy=answering("A", confidence=0.1, data={"deep": deep}))
    result = ask(Orchestrator([first, Specialist("second", policy=answering("B"))]))
    assert result.content.startswith("A\n\nWithout an answer: second (The arguments of task at `$.input` is")


def test_findings_that_cannot_be_merged_are_told_and_crash_nothing() -> None:
    result = ask(Orchestrator([A], aggregator=lambda found: OrchestratorResult(True, "x" * 10_000_000)))
    assert (result.success, result.data["route"]) == (False, ["a"])
    assert result.error.startswith("the findings cannot be merged: the program returned a Orch")
    assert "20,000," in result.error


@pytest.mark.parametrize(
    ("specialists", "error"),
    [
        ([], "no specialist is registered; add one to the registry"),
        ([Specialist("a", enabled=False)], "no specialist is enabled; add one to the registry"),
    ],
)
def test_without_a_specialist_the_result_says_so(specialists: list[Specialist], error: str) -> None:
    result = ask(Orchestrator(Registry(specialists)))
    assert (result.success, result.error) == (False, error)


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_router_may_select_one_that_is_not_there(mode: Any) -> None:
    off = Specialist("off", enabled=False)
    select = Router(select=lambda query, intent, enabled: ["ghost", "off", "a"])
    result = ask(Orchestrator([A, off], router=select, mode=mode))
    assert result.content.startswith("A\n\nWithout an answer: ghost (the router selected 'ghost', which")
    assert "does not exist" in result.content
    assert "'off', which is disabled" in result.content
    nobody = ask(Orchestrator([A], router=Router(select=lambda *given: []), mode=mode))
    assert nobody.error == "no specialist has an answer: none was asked"


def test_a_question_in_another_language_takes_the_default_route() -> None:
    result = ask(Orchestrator([A, B], router=Router(default=["b"])), "¿Qué dice la tabla?")
    assert result.data["route"] == ["b"]


def test_usage_is_told_for_each_specialist_and_in_all() -> None:
    host = Orchestrator(
        [Specialist("m", keywords=("find",)), Specialist("n", keywords=("table",))], mode="parallel"
    )
    script: dict[str, Steps] = {
        "m": [call("report_back", success=True, content="x", confidence=1)],
        "n": ["let me think", call("report_back", success=False, error="no")],
    }
    usage = ask(host, model=ScriptedModel(script)).usage
    assert {name: one.calls for name, one in usage.specialists.items()} == {"m": 1, "n": 2}
    assert usage.total.calls == 3


def test_the_usage_of_a_specialist_that_is_asked_twice_is_the_sum() -> None:
    first = call("report_back", success=True, content="x", data={"open": ["find it again"]}, confidence=1)
    last = call("report_back", success=True, content="y", confidence=1)
    steps: list[Any] = ["let me think", first, "let me think again", last]

    def policy(request: ModelRequest) -> Any:
        return steps.pop(0) if isinstance(steps[0], str) else calls(steps.pop(0))

    host = Orchestrator([Specialist("m", keywords=("find",))], analyzer=QueryAnalyzer(multi_hop=["find"]))
    result = ask(host, "find it", model=ScriptedModel(policy))
    assert result.data["route"] == ["m", "m"]
    assert result.usage.specialists["m"] == result.usage.total
    assert result.usage.total.calls == 4


def test_earlier_questions_are_told_oldest_first_and_cut_with_their_answers_or_the_reason() -> None:
    seen: list[SpecialistContext] = []

    async def policy(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
        seen.append(context)
        if context.query.startswith("second"):
            return SpecialistResult(False, error="no such page")
        return SpecialistResult(True, "A" * 3_000, confidence=1)

    async def chat() -> None:
        host = Orchestrator([Specialist("a", policy=policy)])
        async with Runtime(":memory:") as runtime, runtime.open(host) as session:
            for question in ("first", "second " * 500, "third"):
                await session.ask(question)

    asyncio.run(chat())
    earlier = seen[-1].earlier
    assert isinstance(earlier, tuple)
    assert [one.question for one in earlier] == ["first", ("second " * 500)[:2_000]]
    assert earlier[0].answer == "A" * 2_000
    assert "no such page" in earlier[1].answer


def test_an_orchestrator_is_a_sub_agent_like_any_other() -> None:
    host = Agent("host", agents=[Orchestrator([A, B])])
    script: dict[str, Steps] = {"host": [call("task", agent="orchestrator", prompt="a table?"), "done"]}
    outcome = Runtime(":memory:", model=ScriptedModel(script)).run_sync(host, "go")
    assert [one.profile for one in outcome.delegations] == ["a", "orchestrator"]
    assert '"content":"A"' in outcome.delegations[1].text


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidAgent, match='mode is "sequential" or "parallel", not \'both\''):
        Orchestrator([A], mode="both")  # type: ignore[arg-type]  # of any type


def test_an_ask_without_a_result_has_no_orchestrated_one() -> None:
    def broken(query: str) -> Any:
        raise ValueError("no rules")

    host = Orchestrator([A], analyzer=broken)
    with pytest.raises(OutcomeError, match="no rules"):
        host.result(Runtime(":memory:").run_sync(host, "go"))


@pytest.mark.usefixtures("short_grace")
def test_a_route_goes_on_after_a_restart_and_asks_nobody_twice() -> None:
    asked: list[str] = []
    is_over, second_began = False, asyncio.Event()

    def counting(name: str, confidence: float) -> Any:
        @tool(effect="read")
        async def look() -> str:
            """Look."""
            if name == "second" and not is_over:
                second_began.set()
                await asyncio.sleep(60)
            asked.append(name)
            return name

        async def policy(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
            return SpecialistResult(True, await ctx.call(look), confidence=confidence)

        return Specialist(name, tools=(look,), policy=policy)

    host, log = Orchestrator([counting("first", 0.1), counting("second", 1.0)]), MemoryLog()

    async def body() -> OrchestratorResult:
        nonlocal is_over
        async with Runtime(log) as runtime:
            session = await runtime.open(host, session_id="s")
            await session.submit("go")
            await second_began.wait()
        is_over = True
        async with Runtime(log) as runtime:
            session = await runtime.resume("s", host)
            return host.result(await session.outcome)

    result = asyncio.run(body())
    assert (asked, result.content) == (["first", "second"], "first\n\nsecond")
    Recording.open(MemoryReader(log), "s").verify().check()


# --- simulation -------------------------------------------------------------------------


def scripted(request: Any) -> Any:
    """Report twice, fail, or find: the models of the simulated specialists."""
    match request.profile:
        case "twice":
            return calls(
                call("report_back", success=True, content="one", confidence=0.9),
                call("report_back", success=True, content="two", confidence=0.9),
            )
        case "fails":
            return fail("gone", is_retryable=False)
        case _:
            return call("report_back", success=True, content="found", confidence=0.2)


SIMULATED = [
    Specialist("twice"),
    Specialist("fails"),
    Specialist("finds"),
    Specialist("never", policy=never_ends),
]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_simulated_route_gives_one_result_in_every_order(mode: Any) -> None:
    answered = Router(max_hops=4, answered=lambda intent, found: False)
    host = Orchestrator(SIMULATED, router=answered, mode=mode, timeout_s=5)
    results = set()
    for seed in range(6):
        run = simulate(host, scripted, "q", seed=seed)
        assert run.breaches == []
        results.add(run.outcome.text)
    assert len(results) == 1
    assert '"content":"one\\n\\nfound\\n\\nWithout an answer: fails' in results.pop()


def test_no_rule_is_broken_under_cancels_and_crashes() -> None:
    host = Orchestrator(SIMULATED[:3], mode="parallel", timeout_s=5)
    found = explore(host, scripted, "q", runs=15, seed=3)
    assert found.is_ok, found


def test_a_report_that_its_type_refuses_is_given_again() -> None:
    wrong = call("report_back", success=True, content="x", tool_calls=[{"arguments": {}}])
    right = call("report_back", success=True, content="y", confidence=7)
    result = ask(Orchestrator([Specialist("a")]), model=ScriptedModel({"a": [wrong, right]}))
    assert (result.content, result.confidence) == ("y", 1.0)
    assert result.usage.specialists["a"].calls == 2


def of_any_type(value: Any) -> Any:
    """Return a function of anything that returns this."""
    return lambda *asked: value


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"analyzer": of_any_type(None)}, "the analyzer returned None; it returns a value of QueryIntent"),
        ({"aggregator": of_any_type(5)}, "the aggregator returned 5"),
        ({"router": Router(select=of_any_type("a"))}, "select returned 'a'; return the names"),
        ({"router": Router(select=of_any_type(None))}, "select returned None"),
    ],
)
def test_a_function_that_returns_something_else_is_named(given: dict[str, Any], told: str) -> None:
    async def body() -> str:
        async with Runtime(":memory:") as runtime:
            outcome = await runtime.run(Orchestrator([Specialist("a", policy=answering("a"))], **given), "x")
            return f"{outcome.kind}: {outcome.detail}"

    ended = asyncio.run(body())
    assert ended.startswith("crashed: MisuseError: ")
    assert told in ended


def failed(kind: str, text: str) -> DelegationFailed:
    return DelegationFailed("it failed", text, kind)


@pytest.mark.parametrize(
    ("folded", "reason"),
    [
        ({"status": "unavailable", "reason": "crashed", "detail": "KeyError"}, "crashed: KeyError"),
        (
            {"status": "unavailable", "reason": "deadline", "detail": "late", "text": "half"},
            "deadline: late; half",
        ),
        (
            {
                "status": "invalid_input",
                "reason": "denied",
                "detail": "wrong",
                "problems": ["/query: a", "b"],
            },
            "denied: wrong; /query: a; b",
        ),
    ],
)
def test_a_folded_result_gives_its_words(folded: dict[str, str], reason: str) -> None:
    kind = folded["reason"]
    assert reason_of(failed(kind, msgspec.json.encode(folded).decode())) == reason


@pytest.mark.parametrize(
    ("text", "reason"), [("", "cancelled"), ("why", "cancelled: why"), ("[1]", "cancelled: [1]")]
)
def test_another_text_is_told_as_it_is(text: str, reason: str) -> None:
    assert reason_of(failed("cancelled", text)) == reason


def test_long_words_are_cut() -> None:
    long = {"status": "unavailable", "reason": "no_report", "detail": "none", "text": "x" * 10_000_000}
    reason = reason_of(failed("no_report", msgspec.json.encode(long).decode()))
    assert reason == f"no_report: none; {'x' * WORDS_CHARS_MAX}..."
