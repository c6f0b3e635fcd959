"""The specialists of the reader: their tools, their words, and the rules for questions."""

from typing import Final

from callboard import HintRule, QueryAnalyzer, Registry, Specialist, tool
from regreader import policies
from regreader.numbering import label_of
from regreader.settings import Settings
from regreader.tools import TOOL_NAMES, Tools, on_loop
from regreader.words import numeral

_N: Final = r"[零〇一二三四五六七八九十百\d]+"
HINTS: Final = (
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

INTENTS: Final = {
    "table": ("table", "row", "column", "note", "footnote", "表", "注"),
    "reference": (
        "section", "clause", "chapter", "annex", "schedule", "refer", "refers", "附录", "引用", "条", "章",
    ),
    "search": ("find", "search", "about", "regulations", "查找", "搜索"),
    "discovery": ("compare", "difference", "similar", "比较", "区别", "类似"),
}  # fmt: skip
MULTI_HOP: Final = ("refers to", "refer to", "and then", "引用的", "所引")
_REPORT: Final = (
    "Answer only from tool results. The prompt is JSON: query, scope (regulation ids; empty means all), "
    "hints, found (earlier findings). Report success=false if the tools do not answer the query. "
    "Sources are 'REG p.PAGE NUMBER'."
)
_TOOLS: Final = {
    "table": ("list_regulations", "search_tables", "get_table_by_id", "lookup_annotation"),
    "search": ("list_regulations", "get_toc", "smart_search", "read_page_range"),
    "reference": ("list_regulations", "get_toc", "resolve_reference"),
    "discovery": ("list_regulations", "find_similar_content", "compare_sections"),
}
"""The tools of each specialist, in the order of their priority."""

_WORK: Final = {
    "table": "Find the table, its row and column, and the notes that mark the cell. Report each cell that "
    "you use in data.cells.",
    "search": "Search with the words of the query, read the best page, and quote the sentence.",
    "reference": "Resolve the section, chapter, annex, table or note that the query names. Say if it does "
    "not exist or leads back to itself. Follow references if the query asks for what a place refers to.",
    "discovery": "Compare the sections that the query names, or find places like the one it describes.",
}


def analyzer() -> QueryAnalyzer:
    """Return the rules that analyse questions."""
    return QueryAnalyzer(INTENTS, HINTS, MULTI_HOP)


def registry(tools: Tools, settings: Settings) -> Registry:
    """Return the specialists; without the orchestrator, the one agent that has all tools.

    Without a model, each is driven by its offline policy.
    """
    made = {name: tool(effect="read")(on_loop(function)) for name, function in tools.by_name().items()}
    is_alone = not settings.enable_orchestrator
    kits = {"reader": TOOL_NAMES} if is_alone else _TOOLS
    work = {"reader": f"Answer questions on regulations. {' '.join(_WORK.values())}"} if is_alone else _WORK
    return Registry(
        Specialist(
            name, f"{work[name].partition('. ')[0]}.", tuple(made[one] for one in kits[name]),
            f"{work[name]} {_REPORT}",
            capabilities=(name,), keywords=INTENTS.get(name, ()), priority=-at,
            enabled=is_alone or name in settings.enabled_subagents,
            max_iterations=settings.subagent_max_iterations * (2 if is_alone else 1),
            policy=None if settings.model else policies.POLICIES[name],
        )
        for at, name in enumerate(kits)
    )  # fmt: skip
