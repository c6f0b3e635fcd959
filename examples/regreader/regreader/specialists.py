"""The specialists of the reader: their tools, their words, and the rules for questions."""

import functools
from typing import Any, Final

from callboard import HintRule, QueryAnalyzer, Registry, Specialist, Tool, tool
from regreader import policies
from regreader.numbering import label_of
from regreader.settings import Settings
from regreader.tools import TOOL_NAMES, Tools
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
    "Answer only from tool results; never guess. The prompt is JSON: query, scope (regulation ids, empty for "
    "all), hints, found (earlier findings). Report success=false if the tools do not answer the query. "
    "A source is 'REG p.PAGE NUMBER'."
)
_TOOLS: Final = {
    "table": ("list_regulations", "search_tables", "get_table_by_id", "lookup_annotation"),
    "search": ("list_regulations", "get_toc", "smart_search", "read_page_range"),
    "reference": ("list_regulations", "get_toc", "resolve_reference"),
    "discovery": ("list_regulations", "find_similar_content", "compare_sections"),
}
"""The specialists and their tools, the first ones first where the router has no other reason."""

NAMES: Final = tuple(_TOOLS)
_WORK: Final = {
    "table": "Find the table, its row and column; read the notes that mark it. Put cells in data.cells.",
    "reference": "Resolve the section, chapter, annex, table or note that the query names. Say if it does "
    "not exist or leads back to itself. Follow references if the query asks for what a place refers to.",
    "search": "Search with the words of the query, read the page of the best place, and quote the sentence.",
    "discovery": "Compare the sections that the query names, or find places like the one it describes.",
}


def analyzer() -> QueryAnalyzer:
    """Return the rules that analyse questions."""
    return QueryAnalyzer(INTENTS, HINTS, MULTI_HOP)


def _tool(name: str, tools: Tools) -> Tool:
    """Return a tool as agents take it: on the loop, for an index is used from one thread."""
    method = getattr(tools, name)

    @functools.wraps(method)
    async def call(**arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = method(**arguments)
        return found

    return tool(effect="read")(call)


def registry(tools: Tools, settings: Settings) -> Registry:
    """Return the specialists. Without a model, each is driven by its offline policy."""
    limit, enabled = settings.subagent_max_iterations, settings.enabled_subagents
    return Registry(
        Specialist(
            name, _WORK[name].split(". ")[0] + ".", tuple(_tool(one, tools) for one in names),
            f"{_WORK[name]} {_REPORT}", (name,), INTENTS[name], priority, name in enabled, limit,
            policy=None if settings.model else policies.POLICIES[name],
        )
        for priority, (name, names) in enumerate(reversed(_TOOLS.items()))
    )  # fmt: skip


def single(tools: Tools, settings: Settings) -> Specialist:
    """Return the one agent that has all tools."""
    return Specialist(
        "reader", "Answers questions on regulations.", tuple(_tool(name, tools) for name in TOOL_NAMES),
        f"You answer questions on regulations. {' '.join(_WORK.values())} {_REPORT}",
        max_iterations=2 * settings.subagent_max_iterations,
        policy=None if settings.model else policies.read_alone,
    )  # fmt: skip
