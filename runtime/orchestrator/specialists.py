"""Specialists: small agents with few tools, and the registry that holds them."""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent import Agent
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.orchestrator.contracts import (
    REPORT,
    SpecialistContext,
    SpecialistResult,
    known_names,
)
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import Program
from callboard.runtime.tools.tool import Tool

SpecialistPolicy: TypeAlias = Callable[
    [ProgramContext, SpecialistContext], Coroutine[Any, Any, SpecialistResult]
]
"""A program that drives a specialist without a model."""


@dataclass(frozen=True, slots=True)
class Specialist:
    """An agent for one kind of question, with its own small context.

    name, description, instructions, tools, model: as of an `Agent`. capabilities: the intents it serves.
    keywords: words of questions that are for it. priority: the higher one comes first among equals.
    enabled: False leaves it out of every route. max_iterations: its model calls.
    limits: further bounds of its agent. models: those that a policy may ask by name.
    policy: an async function of a `ProgramContext` and a `SpecialistContext` that stands for its model.
    agent: any agent of the same name, in place of the one that these fields describe. One without a contract
        is prompted with the question, or with the `SpecialistContext` as JSON if that holds more; its answer
        may be a `SpecialistResult`, and else is the content of one.
    """

    name: str
    description: str = ""
    tools: tuple[Tool, ...] = ()
    instructions: str = ""
    capabilities: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    priority: int = 0
    enabled: bool = True
    max_iterations: int = 6
    model: ModelChoice | str | None = None
    policy: SpecialistPolicy | None = None
    limits: Limits | None = None
    models: tuple[ModelChoice | str, ...] = ()
    agent: Agent | None = None

    def make_agent(self) -> Agent:
        """Make the agent, or the program if a policy drives it; return the one that was given.

        Its input contract is `SpecialistContext`. Raises InvalidAgent as `Agent` does.
        """
        if self.agent is not None:
            return self._given(self.agent)
        limits = self.limits or Limits()
        if limits.max_iterations is None:
            limits = replace(limits, max_iterations=self.max_iterations)
        if self.policy is not None:
            return Program(
                self.policy,
                self.name,
                description=self.description,
                schema=REPORT,
                tools=self.tools,
                input=SpecialistContext,
                limits=limits,
                model=self.model,
                models=self.models,
            )
        return Agent(
            self.name,
            description=self.description,
            instructions=self.instructions,
            tools=self.tools,
            output_schema=REPORT,
            limits=limits,
            model=self.model,
            input=SpecialistContext,
        )

    def _given(self, agent: Agent) -> Agent:
        if not isinstance(agent, Agent) or agent.name != self.name:
            raise InvalidAgent(
                f"specialist {self.name!r}: agent= is an Agent of this name, not {agent!r:.80}"
            )
        if self.policy is not None or self.tools or self.instructions or self.model is not None:
            raise InvalidAgent(
                f"specialist {self.name!r} has an agent: give tools, instructions, model and policy to that"
            )
        if agent.contract is not None and agent.contract.kind is not SpecialistContext:
            raise InvalidAgent(
                f"specialist {self.name!r}: the input of its agent is SpecialistContext, or a prompt"
            )
        return agent


class Registry:
    """The specialists of an orchestrator, by name, in the order of their addition.

    >>> registry = Registry([Specialist("tables", capabilities=("table",))])
    >>> registry.add(Specialist("old", enabled=False))
    >>> ", ".join(one.name for one in registry.enabled())
    'tables'
    """

    def __init__(self, specialists: Iterable[Specialist] = ()) -> None:
        self._found: dict[str, Specialist] = {}
        for one in specialists:
            self.add(one)

    def __iter__(self) -> Iterator[Specialist]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def add(self, specialist: Specialist) -> None:
        """Add a specialist. Raises InvalidAgent for a second one of the same name."""
        if specialist.name in self._found:
            raise InvalidAgent(f"specialist {specialist.name!r} is registered already; give one another name")
        self._found[specialist.name] = specialist

    def get(self, name: str) -> Specialist:
        """Return a specialist. Raises MisuseError, with the names there are."""
        known_names("get()", [name], self._found)
        return self._found[name]

    def enabled(self) -> tuple[Specialist, ...]:
        """Return the specialists that are enabled."""
        return tuple(one for one in self if one.enabled)

    def by_capability(self, capability: str) -> tuple[Specialist, ...]:
        """Return the enabled specialists that have a capability, the highest priority first."""
        found = [one for one in self.enabled() if capability in one.capabilities]
        return tuple(sorted(found, key=lambda one: -one.priority))
