"""Sessions of orchestrators: real programs, whose specialists answer, fail, report twice, never end, or are
denied."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from callboard.actors.protocol.bundles import Bundle, Denied
from callboard.actors.protocol.layers import SESSION, Layer
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.faults import faults
from callboard.runtime.models.scripted import Reply, call, calls, fail, say
from callboard.runtime.orchestrator.analysis import HintRule, QueryAnalyzer, Specialist
from callboard.runtime.orchestrator.choices import Router
from callboard.runtime.orchestrator.contracts import Question as Prompt
from callboard.runtime.orchestrator.contracts import SpecialistContext, SpecialistResult
from callboard.runtime.orchestrator.orchestrator import Orchestrator
from callboard.runtime.programs.context import ProgramContext
from callboard.testing import Scenario
from tests.mutants.orchestrated import Json, Orchestrated, Plan, Question

ITERATIONS: Final = 3
MOST: Final = 4
TIMEOUT_S: Final = 30
DEFAULT: Final = ("prose", "notes")
TABLE_WORDS: Final = ("table", "row", "表")
ANALYZER: Final = QueryAnalyzer(
    {"search": ("about", "find"), "table": TABLE_WORDS, "reference": ("refer", "see")},
    hints=[
        HintRule("table", r"table\s+(\d+-\d+)|表\s*(\d+-\d+)", intent="table"),
        HintRule("note", r"note\s+(\d+|[ivx]+)|注\s*(\d+)", convert=str.upper),
        HintRule("section", r"§\s*(\d+(?:\.\d+)*)", intent="reference"),
        HintRule("section", r"section\s+(\d+(?:\.\d+)*)"),
    ],
    multi_hop=("refer", "and then"),
)


async def never_ends(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Wait for longer than any session takes."""
    await ctx.sleep(10_000_000)
    return SpecialistResult(True, "late")


# In an order that no route has: rank and priority must bring them into theirs.
SPECIALISTS: Final = tuple(
    replace(one, max_iterations=ITERATIONS)
    for one in (
        Specialist("extra", capabilities=("search",), priority=-1),
        Specialist("off", capabilities=("table", "search"), keywords=TABLE_WORDS, priority=9, enabled=False),
        Specialist("twin", capabilities=("table",), keywords=("table", "表")),
        Specialist("notes", capabilities=("table",), keywords=("note", "注"), priority=1),
        Specialist("tables", capabilities=("table",), keywords=TABLE_WORDS, priority=2),
        Specialist("prose", capabilities=("search",), keywords=("about", "表")),
        Specialist("refs", capabilities=("reference",), keywords=("refer", "section")),
    )
)


def intent(primary: str = "", *secondary: str, hops: bool = False, **hints: list[str]) -> Json:
    """Return an intent as JSON."""
    return {
        "primary": primary,
        "secondary": list(secondary),
        "requires_multi_hop": hops,
        "hints": hints,
    }


NOTE: Final = Question(
    "What is said about Table 6-2, note iv, and about its rows?",
    ("tables", "notes", "twin", "prose", "extra"),
    intent("table", "search", table=["6-2"], note=["IV"]),
)
CHINESE: Final = Question(
    "表6-2注1", ("tables", "notes", "twin", "prose"), intent("table", table=["6-2"], note=["1"])
)
HOPS: Final = Question(
    "To what do § 5.6 and Section 5.7 refer?",
    ("refs",),
    intent("reference", hops=True, section=["5.6", "5.7"]),
)
ROW: Final = Question("Which row of Table 1-1?", ("tables", "twin", "notes"), intent("table", table=["1-1"]))
ROWS: Final = Question("Which rows?", ("tables", "notes", "twin"), intent("table"))
SECTION: Final = Question("§ 5.6", ("refs",), intent("reference", section=["5.6"]))
OTHER: Final = Question("¿Qué hay en la mesa?", DEFAULT, intent())
INSIDE: Final = Question("Are tomorrow's notebooks portable?", DEFAULT, intent(), ("a", "b"))
QUESTIONS: Final[Mapping[str, Question]] = {
    "note": NOTE,
    "chinese": CHINESE,
    "hops": HOPS,
    "section": SECTION,
    "other": OTHER,
    "inside": INSIDE,
}


def cell(value: str) -> Json:
    """Return a table cell with a value."""
    return {"table": "6-2", "row": "a", "column": "b", "value": value}


USE: Final = {"tool": "get", "arguments": {"id": 1}}
OTHER_USE: Final = {"tool": "get", "arguments": {"id": 2}}


def reported(**result: Any) -> Reply:
    """Report a result."""
    return calls(call("report_back", **result))


def prompt_of(request: ModelRequest) -> str:
    """Return the prompt of a specialist."""
    return str(request.conversation[0]["content"])


def answers(request: ModelRequest) -> Reply | ModelFailure:
    """Answer for each specialist: unsure ones, so that a route goes on, and one cell with two values."""
    match request.profile:
        case "tables":
            return reported(
                success=True, content="It is 5.", sources=["p.1", "p.2"], tool_calls=[USE],
                data={"cells": [cell("5")]}, confidence=0.4,
            )  # fmt: skip
        case "notes" if CHINESE.query in prompt_of(request):
            return reported(success=True, content="五。", sources=["p.9"], confidence=0.5)
        case "notes":
            return fail("gone", is_retryable=False)
        case "twin":
            # The first report counts.
            first = call(
                "report_back", success=True, content="it IS  5.", sources=["p.2", "p.3"],
                tool_calls=[OTHER_USE, USE], confidence=0.6,
                data={"cells": [cell("6")], "open": [ROWS.query]},
            )  # fmt: skip
            return calls(first, call("report_back", success=True, content="no"))
        case "refs":
            left = {"open": [ROW.query, ROWS.query]}
            return reported(success=True, content="To Table 1-1.", data=left, confidence=0.9)
        case "prose":
            return reported(success=False, error="nothing found", sources=["p.7"], tool_calls=[OTHER_USE])
        case _:
            return say("Let me think.")


def orchestrated(
    question: Question,
    mode: Literal["sequential", "parallel"],
    *kinds: str,
    denied: tuple[str, ...] = (),
    never: tuple[str, ...] = (),
) -> Orchestrated:
    """Build a session of one question.

    kinds: of faults. denied: specialists that may not begin. never: those that do not end.
    """
    specialists = [replace(one, policy=never_ends) if one.name in never else one for one in SPECIALISTS]
    host = Orchestrator(
        specialists,
        analyzer=ANALYZER,
        router=Router(default=DEFAULT, max_hops=MOST),
        mode=mode,
        timeout_s=TIMEOUT_S if never else None,
        name="host",
    )
    scenario = Scenario(host, answers, Prompt(question.query, question.scope).prompt()).pure
    layers = (Layer(SESSION, Bundle(deny=Denied(agents=denied)).own),) if denied else ()
    chosen = faults(*kinds, fault_mixes=7) if kinds else scenario.faults
    plan = Plan(
        question,
        {ROW.query: ROW, ROWS.query: ROWS},
        mode == "parallel",
        DEFAULT,
        MOST,
        ITERATIONS,
        never,
        TIMEOUT_S if never else None,
    )
    return Orchestrated(replace(scenario, permissions=layers, faults=chosen), plan)


ORCHESTRATED: Final[Mapping[str, Orchestrated]] = {
    **{f"{name}, in a row": orchestrated(one, "sequential") for name, one in QUESTIONS.items()},
    **{f"{name}, at once": orchestrated(one, "parallel") for name, one in QUESTIONS.items()},
    "one denied, in a row": orchestrated(NOTE, "sequential", denied=("tables", "twin")),
    "one denied, at once": orchestrated(NOTE, "parallel", denied=("twin",)),
    "one without an end, in a row": orchestrated(CHINESE, "sequential", never=("tables",)),
    "one without an end, at once": orchestrated(CHINESE, "parallel", never=("notes",)),
    "stopped in mid-route": orchestrated(NOTE, "sequential", "cancel", "close", never=("notes",)),
    "stopped at once": orchestrated(NOTE, "parallel", "cancel", "close", never=("prose",)),
    "killed in mid-route": orchestrated(NOTE, "sequential", "crash", "detach"),
    "disturbed": orchestrated(HOPS, "sequential", "overloaded", "invalid_report", "many_reports", "twice"),
}
"""The sessions in which mutants of orchestrators are hunted."""
