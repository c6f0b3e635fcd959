"""The reader: an index, and the host that answers questions from it."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from msgspec.structs import replace

from callboard import (
    Aggregator,
    Orchestrator,
    OrchestratorResult,
    Outcome,
    Question,
    Registry,
    Router,
    Runtime,
    Session,
)  # fmt: skip
from regreader.index import Index
from regreader.settings import Settings
from regreader.specialists import NAMES, analyzer, registry, single
from regreader.tools import Tools

_DEFAULT_ROUTE = ("table", "search", "reference")


class UnknownAgent(Exception):
    """A name that no specialist has."""


class Reader(AsyncExitStack):
    """Answers questions on the imported regulations. agent: the one specialist to ask; "" for all enabled.

        async with Reader(Settings()) as reader:
            result = await reader.ask("What does Table 6-2, note 1 say?", ["grid-code"])

    Raises UnknownAgent.
    """

    def __init__(self, settings: Settings, agent: str = "") -> None:
        super().__init__()
        for name in (*settings.enabled_subagents, *([agent] if agent else [])):
            if name not in NAMES:
                raise UnknownAgent(f"no specialist {name!r}; there are {', '.join(NAMES)}")
        self.settings = settings
        self.index = Index(settings.index)
        self.callback(self.index.close)
        self.tools = Tools(self.index)
        self.host = self._host(agent)
        self._runtime = Runtime(":memory:", model=settings.model or None)

    async def __aenter__(self) -> Self:
        await self.enter_async_context(self._runtime)
        return self

    async def ask(self, question: str, regulations: Sequence[str] = ()) -> OrchestratorResult:
        """Answer one question. regulations: their ids; none for all."""
        return self._result(
            await self._runtime.run(self.host, Question(question, tuple(regulations)).prompt())
        )

    async def open(self) -> Session:
        """Open a chat, whose asks are in one log."""
        return await self._runtime.open(self.host)

    async def ask_in(self, session: Session, question: str, regulations: Sequence[str]) -> OrchestratorResult:
        """Answer a question of a chat."""
        return self._result(await session.ask(Question(question, tuple(regulations)).prompt()))

    def _result(self, outcome: Outcome[object]) -> OrchestratorResult:
        if not outcome.is_ok:
            return OrchestratorResult(False, error=f"{outcome.kind}: {outcome.detail or outcome.text}")
        return self.host.result(outcome)

    def _host(self, agent: str) -> Orchestrator:
        if agent:
            only = registry(self.tools, replace(self.settings, enabled_subagents=(agent,)))
            return Orchestrator(Registry(only.enabled()), analyzer=analyzer())
        if not self.settings.enable_orchestrator:
            return Orchestrator(Registry([single(self.tools, self.settings)]), analyzer=analyzer())
        mode = self.settings.orchestrator_mode
        route = Router(default=[one for one in _DEFAULT_ROUTE if one in self.settings.enabled_subagents])
        merge = Aggregator(names_refusals=mode == "parallel")
        specialists = registry(self.tools, self.settings)
        return Orchestrator(specialists, analyzer=analyzer(), router=route, aggregator=merge, mode=mode)
