"""The reader: its specialists, the rules for questions, and the host that asks and answers."""

import functools
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

import callboard
from callboard import HintRule, OrchestratorResult, Question, Registry, Runtime, Specialist
from regreader.index import Index
from regreader.numbering import label_of
from regreader.policies import drive
from regreader.settings import Settings
from regreader.tools import ToolFailure, Tools, on_loop
from regreader.words import HAN_DIGITS, numeral

_N = f"[{HAN_DIGITS}\\d]+"
HINTS = (
    HintRule("table", r"(?:table|表)\s*((?:[A-Z][-.]?)?\d+(?:[-.]\d+)*)", intent="table"),
    HintRule("note", r"(?:\bnote|注)\s*(\d+|[*†‡]+)", convert=label_of, intent="table"),
    HintRule("chapter", rf"第\s*({_N})\s*章|chapter\s+(\d+|[IVXLC]+)\b", convert=numeral, intent="reference"),
    HintRule("section", r"(?:§\s*|section\s+|clause\s+|第\s*)(\d+(?:\.\d+)*)", intent="reference"),
    HintRule("section", r"(?<![\d.-])(\d+(?:\.\d+)+)(?![\d.-])"),
    HintRule("annex", r"(?:annex|appendix|附录|附件)\s*([A-Z\d])\b", intent="reference"),
    HintRule("schedule", r"(?:schedule|附表)\s*(\d+)", intent="reference"),
    HintRule("regulation", r"[\"“《]([^\"”》]+)[\"”》]"),
)
"""Rules for the numbers that a question names, in Chinese and English."""
INTENTS = {
    "table": ("table", "row", "column", "note", "footnote", "表", "注"),
    "reference": ("section", "clause", "chapter", "annex", "schedule", "refer", "refers",
        "附录", "引用", "条", "章"),
    "search": ("find", "search", "about", "regulations", "查找", "搜索"),
    "discovery": ("compare", "difference", "similar", "比较", "区别", "类似"),
}  # fmt: skip
MULTI_HOP = ("refers to", "refer to", "and then", "引用的", "所引")
_REPORT = (
    "Answer only from tool results. The prompt is JSON: query, scope (regulation ids; empty means all), "
    "hints, found (earlier findings). Report success=false if the tools do not answer the query. "
    "Sources are 'REG p.PAGE NUMBER'."
)
_WORK = {
    "table": ("search_tables get_table_by_id lookup_annotation",
        "Find the table, its row and column, and the notes that mark the cell. Report each cell that you use "
        "in data.cells."),
    "search": ("get_toc smart_search read_page_range",
        "Search with the words of the query, read the best page, and quote the sentence."),
    "reference": ("get_toc resolve_reference",
        "Resolve the section, chapter, annex, table or note that the query names. Say if it does not exist "
        "or leads back to itself. Follow references if the query asks for what a place refers to."),
    "discovery": ("find_similar_content compare_sections",
        "Compare the sections that the query names, or find places like the one it describes."),
}  # fmt: skip
"""The tools and the work of each specialist, in the order of their priority."""


def registry(tools: Tools, settings: Settings) -> Registry:
    """Return the specialists, or the agent with all tools; without a model, offline policies drive them."""
    read = callboard.tool(effect="read")
    made = {name: read(on_loop(function)) for name, function in tools.by_name().items()}
    is_alone = not settings.enable_orchestrator
    whole = f"Answer questions on regulations. {' '.join(work for _, work in _WORK.values())}"
    several = {name: (f"list_regulations {names}", work) for name, (names, work) in _WORK.items()}
    agents = {"reader": (" ".join(made), whole)} if is_alone else several
    return Registry(
        Specialist(
            name, f"{work.partition('. ')[0]}.", tuple(made[one] for one in names.split()),
            f"{work} {_REPORT}", capabilities=(name,), keywords=INTENTS.get(name, ()), priority=-at,
            enabled=is_alone or name in settings.enabled_subagents,
            max_iterations=settings.subagent_max_iterations * (2 if is_alone else 1),
            policy=None if settings.model else functools.partial(drive, name),
        )
        for at, (name, (names, work)) in enumerate(agents.items())
    )  # fmt: skip


class Reader(AsyncExitStack):
    """Answers questions on the imported regulations.

    async with Reader(Settings()) as reader:
        result = await reader.ask("What does Table 6-2, note 1 say?", ["grid-code"])
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.index, mode = Index(settings.index), settings.orchestrator_mode
        self.callback(self.index.close)
        self.tools, merge = Tools(self.index), callboard.Aggregator(names_refusals=mode == "parallel")
        agents, analyzer = registry(self.tools, settings), callboard.QueryAnalyzer(INTENTS, HINTS, MULTI_HOP)
        self.host = callboard.Orchestrator(agents, analyzer=analyzer, aggregator=merge, mode=mode)
        self._runtime = Runtime(":memory:", model=settings.model or None)

    async def __aenter__(self) -> Self:
        await self.enter_async_context(self._runtime)
        return self

    async def ask(self, question: str, regulations: Sequence[str] = ()) -> OrchestratorResult:
        """Answer one question. regulations: their ids; none for all."""
        try:
            self.tools.check(regulations)
        except ToolFailure as error:
            return OrchestratorResult(False, error=str(error))
        asked = Question(question, tuple(dict.fromkeys(regulations)))
        outcome = await self._runtime.run(self.host, asked.prompt())
        if not outcome.is_ok:
            return OrchestratorResult(False, error=f"{outcome.kind}: {outcome.detail or outcome.text}")
        return self.host.result(outcome)
