"""The reader: an index, and the host that answers questions from it."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from callboard import Aggregator, Orchestrator, OrchestratorResult, QueryAnalyzer, Question, Runtime
from regreader.index import Index
from regreader.settings import Settings
from regreader.specialists import HINTS, INTENTS, MULTI_HOP, registry
from regreader.tools import ToolFailure, Tools


class Reader(AsyncExitStack):
    """Answers questions on the imported regulations.

    async with Reader(Settings()) as reader:
        result = await reader.ask("What does Table 6-2, note 1 say?", ["grid-code"])
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.index, mode = Index(settings.index), settings.orchestrator_mode
        self.callback(self.index.close)
        self.tools, merge = Tools(self.index), Aggregator(names_refusals=mode == "parallel")
        agents, analyzer = registry(self.tools, settings), QueryAnalyzer(INTENTS, HINTS, MULTI_HOP)
        self.host = Orchestrator(agents, analyzer=analyzer, aggregator=merge, mode=mode)
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
