"""Tools that are known only once something was asked for them, such as those of an MCP server.

An agent names a `ToolSource` among its tools. A runtime makes one `LiveSource` of it. A new session gets the
tools that the source lists then. A resumed session gets the recorded tools, and nothing is asked.

Tools whose results are given again must be told apart by their descriptions, since results are found by
those: two functions with one description would give each other's results.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import CallboardError, InvalidAgent
from callboard.actors.protocol.profiles import ToolSpec
from callboard.runtime.failure_text import failure_text
from callboard.runtime.tools.tool import Tool


class Scope:
    """One session in one process: what lives for it ends with it.

    learn: takes secrets by name, which the runtime never writes from then on. deps: returns the object of the
    session's tools as it is now. tell: takes a source, the names of the tools that it listed before, and the
    tools that it lists now; None while the session is not live.
    """

    def __init__(self, learn: Callable[[Mapping[str, str]], object] = lambda values: None) -> None:
        self.learn = learn
        self.deps: Callable[[], object] = lambda: None
        self.tell: Tell | None = None


Tell: TypeAlias = "Callable[[ToolSource, Collection[str], Sequence[ToolSpec]], None]"


class LiveSource(ABC):
    """A source in one runtime."""

    @abstractmethod
    async def listed(self, scope: Scope) -> Sequence[Tool]:
        """Ask for the tools. Raises InvalidAgent if they cannot be had."""

    @abstractmethod
    def recorded(self, specs: Sequence[ToolSpec], scope: Scope) -> Sequence[Tool]:
        """Return the tools of a recorded list, without asking. specs: those with this source's label."""

    @abstractmethod
    def release(self, scope: Scope) -> None:
        """Begin to end what lives for a session. It may be used again."""

    @abstractmethod
    async def aclose(self) -> None:
        """End all that lives, and wait for it."""


class ToolSource(ABC):
    """A description of tools that are listed when a session opens.

    label: names the source in the log; one of its own among the sources of an agent. is_optional: a source
    that cannot be reached is left out. asks_first: a person may be asked before one of its tools runs.
    may_need, may_label: the capabilities that its tools may need, and the labels of their results.
    """

    label: str
    is_optional: bool = False
    asks_first: bool = False
    may_need: Collection[str] = ()
    may_label: Collection[str] = ()

    @abstractmethod
    def live(self) -> LiveSource:
        """Return the source for one runtime. Raises MissingExtra."""

    @abstractmethod
    def secrets(self) -> Mapping[str, str]:
        """Return the source's secrets by name, which the runtime never writes."""


Recorded = Mapping[str, Sequence[ToolSpec]]
"""The recorded tools of a session, by the names of its agents."""


class LiveSources:
    """The sources of one runtime."""

    def __init__(self) -> None:
        self._live: Final[dict[int, tuple[ToolSource, LiveSource]]] = {}

    async def tools_of(
        self,
        sources: Mapping[str, Sequence[ToolSource]],
        scope: Scope,
        recorded: Recorded | None = None,
        *,
        takes_new: bool = False,
    ) -> dict[str, list[Tool]]:
        """Return the tools of each agent's sources, which are asked at the same time.

        sources: by the names of the agents. recorded: of a session that goes on. takes_new: also of optional
        sources that the record does not have. Raises InvalidAgent for a source that cannot be reached.
        """
        asked: dict[str, list[asyncio.Task[Sequence[Tool]]]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for agent, each in sources.items():
                    work = (self._tools(one, scope, _specs(agent, one, recorded), takes_new) for one in each)
                    asked[agent] = list(map(group.create_task, work))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return {agent: [tool for one in tasks for tool in one.result()] for agent, tasks in asked.items()}

    async def _tools(
        self, source: ToolSource, scope: Scope, specs: Sequence[ToolSpec] | None, takes_new: bool
    ) -> Sequence[Tool]:
        live = self._of(source)
        if specs:
            return live.recorded(specs, scope)
        if specs is not None and source.is_optional and not takes_new:
            return ()  # it was left out when the session was opened
        try:
            return await live.listed(scope)
        except CallboardError:
            raise
        except Exception as error:  # of the source's own code
            why = f"the tools of {source.label!r} could not be listed: {failure_text(error)}"
            raise InvalidAgent(f"{why}; correct the source, or leave it out") from error

    def tool(self, source: ToolSource, spec: ToolSpec, scope: Scope) -> Tool | None:
        """Return the tool of a source as it was recorded; None for an unknown name."""
        return next(iter(self._of(source).recorded([spec], scope)), None)

    def _of(self, source: ToolSource) -> LiveSource:
        if id(source) not in self._live:
            self._live[id(source)] = (source, source.live())
        return self._live[id(source)][1]

    def release(self, scope: Scope) -> None:
        """Begin to end what lives for a session."""
        scope.tell = None
        for _, live in self._live.values():
            live.release(scope)

    async def aclose(self) -> None:
        """End all sources, and wait for it."""
        live = [one for _, one in self._live.values()]
        self._live.clear()
        await asyncio.gather(*(one.aclose() for one in live))


def _specs(agent: str, source: ToolSource, recorded: Recorded | None) -> Sequence[ToolSpec] | None:
    if recorded is None:
        return None
    return [spec for spec in recorded.get(agent, ()) if spec.origin and spec.origin.source == source.label]


def refuse_equal_labels(agent: str, sources: Sequence[ToolSource]) -> None:
    """Refuse two sources of an agent that the log could not tell apart. Raises InvalidAgent."""
    labels = [source.label for source in sources]
    if two := next((label for label in labels if labels.count(label) > 1), ""):
        raise InvalidAgent(f"agent {agent!r} has two tool sources named {two!r}; give one a prefix=")


def refuse_alike(tools: Iterable[Tool]) -> None:
    """Refuse two functions with one description among the tools of a session. Raises InvalidAgent."""
    found: dict[bytes, Tool] = {}
    for tool in tools:
        spec = tool.spec()
        if spec.cache is None:
            continue
        known = found.setdefault(encode(spec), tool)
        if known.function is not tool.function:
            raise InvalidAgent(
                f"two agents have a tool {tool.name!r} with the same description and different functions, "
                "and its results are cached: give the tools different names, or different version=..."
            )
