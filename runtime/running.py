"""The part of a runtime that runs one prompt, in a session of its own."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from callboard.runtime import event_loop
from callboard.runtime.agent import Agent, prompt_for
from callboard.runtime.contracts import Prompt
from callboard.runtime.sessions.call_options import JsonSchema, OpenOptions, RunOptions, split
from callboard.runtime.sessions.live_sessions import Opening
from callboard.runtime.sessions.outcomes import Outcome, with_head
from callboard.runtime.sessions.session_agents import refuse_unasked
from callboard.runtime.sessions.session_types import schema_of_ask
from callboard.runtime.sessions.settings import Settings
from callboard.runtime.sessions.starting import SessionStarter

if TYPE_CHECKING:
    from callboard.runtime.agent_types import Untyped

Deps = TypeVar("Deps")
Out = TypeVar("Out")
T = TypeVar("T")


class Running(ABC):
    """Run prompts to their outcomes."""

    _settings: Settings

    @abstractmethod
    def _started(self) -> SessionStarter: ...

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def open(
        self, agent: Agent[Deps, Out], *, title: Prompt | None = None, **options: Unpack[OpenOptions]
    ) -> Opening[Deps, Out]:
        """Open a session with this agent as its host."""

    @overload
    async def run(
        self,
        agent: Agent[Deps, object],
        prompt: Prompt,
        *,
        output_schema: type[T],
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome[T]: ...

    @overload
    async def run(
        self,
        agent: Agent[Deps, Out],
        prompt: Prompt,
        *,
        output_schema: None = None,
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome[Out]: ...

    @overload
    async def run(
        self,
        agent: Agent[Deps, object],
        prompt: Prompt,
        *,
        output_schema: JsonSchema | None,
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome: ...

    @overload
    async def run(
        self,
        agent: Agent[Deps, object],
        prompt: Prompt,
        *,
        output_schema: "Untyped",
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome[Any]: ...

    async def run(
        self,
        agent: Agent[Deps, Any],
        prompt: Prompt,
        *,
        output_schema: Any = None,
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome[Any]:
        """Run one prompt to its outcome, in a new session. `open` and `ask` explain the parameters."""
        # Checked before `open`: a bad argument must not leave an empty session in the log.
        prompt_for(agent, prompt)
        starter = self._started()
        await starter.checker.refuse_broken(schema_of_ask(agent, output_schema))
        if self._settings.approver is None:
            refuse_unasked(agent)
        new, ask = split(options)
        async with self.open(agent, title=prompt, **new) as session:
            outcome: Outcome[Any] = await session.ask(prompt, output_schema=output_schema, **ask)
            head = await session.close()
        return with_head(outcome, head)

    @overload
    def run_sync(
        self,
        agent: Agent[Deps, object],
        prompt: Prompt,
        *,
        output_schema: type[T],
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome[T]: ...

    @overload
    def run_sync(
        self,
        agent: Agent[Deps, Out],
        prompt: Prompt,
        *,
        output_schema: None = None,
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome[Out]: ...

    @overload
    def run_sync(
        self,
        agent: Agent[Deps, object],
        prompt: Prompt,
        *,
        output_schema: JsonSchema | None,
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome: ...

    @overload
    def run_sync(
        self,
        agent: Agent[Deps, object],
        prompt: Prompt,
        *,
        output_schema: "Untyped",
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome[Any]: ...

    def run_sync(
        self,
        agent: Agent[Deps, Any],
        prompt: Prompt,
        *,
        output_schema: Any = None,
        **options: Unpack[RunOptions[Deps]],
    ) -> Outcome[Any]:
        """Open the log, run one prompt, close the log: `run` for programs without an event loop.

        Ctrl-C and SIGTERM detach the session; SIGTERM ends the program by SystemExit unless it handles it.
        Raises InsideLoop where a loop runs already; use `await runtime.run(...)` there.
        """
        event_loop.refuse_inside_loop()

        async def once() -> Outcome[Any]:
            async with self:
                outcome: Outcome[Any] = await self.run(agent, prompt, output_schema=output_schema, **options)
                return outcome

        return event_loop.run_until_signal(once())
