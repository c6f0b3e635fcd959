"""The reader: its specialists, the rule that routes a question, and the host that asks and answers."""

import functools
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Literal, Self

import msgspec

from callboard import Agent, Outcome, Runtime, ScriptedModel, Session, tool
from callboard.orchestrator import (
    Aggregator,
    Orchestrator,
    OrchestratorResult,
    QueryIntent,
    Question,
    Registry,
    Router,
    Specialist,
    offline_model,
)
from regreader.frameworks import host_of
from regreader.index import Index
from regreader.numbering import references_in
from regreader.policies import drive
from regreader.tools import ToolFailure, Tools, on_loop
from regreader.words import half_width

_REPORT = (
    "Answer only from tool results. The prompt is JSON: query, scope (regulation ids; empty means all), "
    "hints, found and earlier (answers). Report success=false if the tools do not answer the query. "
    "Sources are 'REG p.PAGE NUMBER'."
)
_WORK = {
    "table": ("search_tables get_table_by_id lookup_annotation",
        "Find the table, its row and column, and the notes that mark the cell. Report each cell that you use "
        "in data.cells."),
    "search": ("get_toc smart_search resolve_reference",
        "Search with the words of the query, and quote the sentence that answers it."),
    "reference": ("get_toc resolve_reference",
        "Resolve the section, chapter, annex, table or note that the query names. Say if it does not exist. "
        "Follow a text that only points elsewhere, and report what stays open in data.open."),
}  # fmt: skip
"""The tools and the work of each specialist, in the order of their priority."""
SPECIALISTS = tuple(_WORK)
OFFLINE_TURNS = 100  # a policy behind a model makes each of its calls in a turn of its own
_BACK = re.compile(r"(?i)\b(?:it|its|that|this|there|they|them|those|note)\b|[它其该那这注]")


class Settings(msgspec.Struct, frozen=True):
    """The settings of a reader.

    specialist: the only one to ask. orchestrate: ask specialists, or one agent. framework: of the specialists
    and of the orchestrator, "claude", "pydantic" or "langgraph"; "" for those of callboard.
    """

    index: str = "regreader.db"  # the file of the index
    model: str = ""  # such as "anthropic:claude-sonnet-5"; "" for the offline policies
    specialist: str = ""
    orchestrate: bool = False
    framework: str = ""
    mode: Literal["sequential", "parallel"] = "sequential"
    max_iterations: int = 6  # model calls of each specialist


def intent_of(question: str) -> QueryIntent:
    """Return the intent of a question by the places that it names: a table, other places, or nothing."""
    named = references_in(half_width(question))
    if not named:
        return QueryIntent("search", ("table",))
    first = "table" if named[0][1].kind == "table" else "reference"
    return QueryIntent(first, hints={"places": [words for words, _ in named]})


def registry(tools: Tools, settings: Settings) -> Registry:
    """Return the specialists, or the agent with all tools; without a model, offline policies drive them."""
    read = tool(effect="read")
    made = {name: read(on_loop(function)) for name, function in tools.by_name().items()}
    is_alone = not (settings.orchestrate or settings.specialist or settings.framework)
    whole = f"Answer questions on regulations. {' '.join(work for _, work in _WORK.values())}"
    several = {name: (f"list_regulations {names}", work) for name, (names, work) in _WORK.items()}
    agents = {"reader": (" ".join(made), whole)} if is_alone else several
    turns_max = settings.max_iterations if settings.model else OFFLINE_TURNS
    return Registry(
        Specialist(
            name, f"{work.partition('. ')[0]}.", tuple(made[one] for one in names.split()),
            f"{work} {_REPORT}", capabilities=(name,), priority=-at,
            enabled=is_alone or settings.specialist in ("", name),
            max_iterations=turns_max * (2 if is_alone else 1),
            policy=None if settings.model else functools.partial(drive, name),
        )
        for at, (name, (names, work)) in enumerate(agents.items())
    )  # fmt: skip


class Reader(AsyncExitStack):
    """Answers questions on the imported regulations.

    async with Reader(Settings()) as reader:
        result = await reader.ask("What does Table 6-2, note 1 say?", ["grid-code"])
        result = await reader.chat("What does section 4.2 say?")
        result = await reader.chat("And what does it refer to?")
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.index = Index(settings.index)
        self.callback(self.index.close)
        self.tools = Tools(self.index)
        merge = Aggregator(names_refusals=settings.mode == "parallel")
        # Without a default route a place that does not exist is not searched for by its words.
        is_routed = (settings.orchestrate or settings.framework) and not settings.specialist
        self.orchestrator = Orchestrator(
            registry(self.tools, settings),
            analyzer=intent_of,
            router=Router(() if is_routed else None),
            aggregator=merge,
            mode=settings.mode,
        )
        self._settings = settings
        self._session: Session | None = None
        self._last = ""  # the first source of the last answer in the chat

    async def __aenter__(self) -> Self:
        self._host: Agent = self.orchestrator
        decisions: ScriptedModel | None = None
        if self._settings.framework:
            self._host = host_of(self._settings.framework, self.orchestrator, self.tools)
            decisions = None if self._settings.model else offline_model(self.orchestrator)
        runtime = Runtime(":memory:", model=self._settings.model or decisions)
        self._runtime = await self.enter_async_context(runtime)
        return self

    async def ask(self, question: str, regulations: Sequence[str] = ()) -> OrchestratorResult:
        """Answer one question. regulations: their ids; none for all."""
        return await self._answered(functools.partial(self._runtime.run, self._host), question, regulations)

    async def chat(self, question: str, regulations: Sequence[str] = ()) -> OrchestratorResult:
        """Answer a question that may go on from the last one, as in "And what does it refer to?".

        The specialists read the last questions and answers; "it", or a note without its table, is the place
        of the last answer.
        """
        found = re.fullmatch(r"(\S+) (?:p\.\d+ )?(.*)", self._last)
        is_note, of_table = re.search(r"(?i)\bnote|注", question), found and found[2].startswith("table ")
        is_open = _BACK.search(question) and not references_in(half_width(question))
        if found and is_open and (of_table or not is_note):
            place = found[2] if found[2][0].isalpha() else f"section {found[2]}"
            place = place.partition(" note ")[0] if is_note else place
            question, regulations = f"{question.rstrip('?？ ')} of {place}?", regulations or [found[1]]
        if self._session is None:
            self._session = await self._runtime.open(self._host)
        result = await self._answered(self._session.ask, question, regulations)
        self._last = result.sources[0] if result.sources else self._last
        return result

    async def _answered(
        self, ask: Callable[[str], Awaitable[Outcome]], question: str, regulations: Sequence[str]
    ) -> OrchestratorResult:
        try:
            self.tools.check(regulations)
        except ToolFailure as error:
            return OrchestratorResult(False, error=str(error))
        outcome = await ask(Question(question, tuple(dict.fromkeys(regulations))).prompt())
        if not outcome.is_ok:
            return OrchestratorResult(False, error=f"{outcome.kind}: {outcome.detail or outcome.text}")
        return self.orchestrator.result(outcome)
