"""The reader: an index, and the host that answers questions from it."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from msgspec.structs import replace

from callboard import (
    Aggregator,
    Orchestrator,
    OrchestratorResult,
    Question,
    Router,
    Runtime,
    Session,
)
from regreader.index import Index
from regreader.settings import Settings
from regreader.specialists import NAMES, analyzer, registry, single
from regreader.tools import Tools


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
        index = Index(settings.index)
        self.callback(index.close)
        self.tools = Tools(index)
        self.host = _host(self.tools, settings, agent)
        self._runtime = Runtime(":memory:", model=settings.model or None)

    async def __aenter__(self) -> Self:
        await self.enter_async_context(self._runtime)
        return self

    async def open(self) -> Session:
        """Open a chat, whose asks are in one log."""
        return await self._runtime.open(self.host)

    async def ask(
        self, question: str, regulations: Sequence[str] = (), session: Session | None = None
    ) -> OrchestratorResult:
        """Answer one question. regulations: their ids; none for all. session: of a chat."""
        prompt = Question(question, tuple(regulations)).prompt()
        outcome = await (session.ask(prompt) if session else self._runtime.run(self.host, prompt))
        if outcome.is_ok:
            return self.host.result(outcome)
        return OrchestratorResult(False, error=f"{outcome.kind}: {outcome.detail or outcome.text}")


def _host(tools: Tools, settings: Settings, agent: str) -> Orchestrator:
    if not (agent or settings.enable_orchestrator):
        return Orchestrator([single(tools, settings)], analyzer=analyzer())
    if agent:
        settings = replace(settings, enabled_subagents=(agent,))
    route = Router([name for name in ("table", "search", "reference") if name in settings.enabled_subagents])
    mode = settings.orchestrator_mode
    merge = Aggregator(names_refusals=mode == "parallel")
    specialists = registry(tools, settings)
    return Orchestrator(specialists, analyzer=analyzer(), router=route, aggregator=merge, mode=mode)
