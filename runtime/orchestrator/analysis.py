"""The specialists of a query: their description, and the choice by analysis.

The analysis of a question: rules for intents and hints, or one question to a model.

Specialists: small agents with few tools, and the registry that holds them.
"""

import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.errors import DelegationFailed, InvalidAgent, MisuseError
from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent import Agent
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.orchestrator.contracts import (
    REPORT,
    Exchange,
    QueryIntent,
    SpecialistContext,
    SpecialistResult,
    known_names,
    returned,
)
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import Program
from callboard.runtime.tools.tool import Tool

_BEFORE: Final = r"(?<![A-Za-z0-9_])"
_AFTER: Final = r"(?:s|es)?(?![A-Za-z0-9_])"


def has_word(text: str, word: str) -> bool:
    """Return True if a text holds a word, in upper or lower case.

    A word in Latin letters must stand alone, or in the plural; in a script without spaces it may stand
    anywhere.
    """
    if not word.isascii():
        return word.casefold() in text.casefold()
    return re.search(_BEFORE + re.escape(word) + _AFTER, text, re.IGNORECASE) is not None


class HintRule:
    """A rule that finds values in a question.

    name: of the hint. pattern: a regular expression; the value is its first group that took part, or the
    whole match. convert: makes a value canonical, such as a numeral into a number. intent: the capability
    that a question with such a value asks for; "" for none. Raises MisuseError for an invalid pattern.
    """

    def __init__(
        self, name: str, pattern: str, convert: Callable[[str], str] | None = None, intent: str = ""
    ) -> None:
        self.name, self.convert, self.intent = name, convert, intent
        try:
            self._pattern = re.compile(pattern, re.IGNORECASE)
        except re.error as error:
            raise MisuseError(
                f"hint rule {name!r}: {pattern!r} is not a regular expression ({error})"
            ) from None

    def values(self, query: str) -> list[str]:
        """Return the values in a question, each once, in its order."""
        found = (self._value(match) for match in self._pattern.finditer(query))
        return list(dict.fromkeys(value for value in found if value))

    def _value(self, match: re.Match[str]) -> str:
        value = next((group for group in match.groups() if group is not None), match.group())
        return value if self.convert is None else self.convert(value)


class QueryAnalyzer:
    """Rules that turn a question into an intent. It is pure: equal questions get equal intents.

    intents: the words that ask for a capability, by its name. hints: rules for values. multi_hop: words of
    questions whose answer takes several steps. default: the primary intent of a question without any.
    """

    def __init__(
        self,
        intents: Mapping[str, Iterable[str]] | None = None,
        hints: Sequence[HintRule] = (),
        multi_hop: Iterable[str] = (),
        default: str = "",
    ) -> None:
        self.intents = {name: tuple(words) for name, words in (intents or {}).items()}
        self.hints, self.multi_hop, self.default = tuple(hints), tuple(multi_hop), default

    def __call__(self, query: str) -> QueryIntent:
        """Return the intent of a question."""
        hints = self._hints(query)
        scores = self._scores(query)
        # sorted is stable: of equal scores, the intent that was given first
        ranked = sorted(scores, key=lambda name: -scores[name])
        is_multi_hop = any(has_word(query, word) for word in self.multi_hop)
        return QueryIntent(ranked[0] if ranked else self.default, tuple(ranked[1:]), is_multi_hop, hints)

    def _hints(self, query: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for rule in self.hints:
            if values := rule.values(query):
                found[rule.name] = list(dict.fromkeys([*found.get(rule.name, ()), *values]))
        return found

    def _scores(self, query: str) -> dict[str, int]:
        """Return the intents that a question has words or hints for, each with their number."""
        scores = {name: sum(has_word(query, word) for word in words) for name, words in self.intents.items()}
        asked = [rule.intent for rule in self.hints if rule.intent and rule.values(query)]
        for name in asked:
            scores[name] = scores.get(name, 0) + 1
        return {name: score for name, score in scores.items() if score}


class ModelAnalyzer:
    """One question to a model, instead of rules.

    capabilities: those that the model may name. instructions: instead of the default ones. fallback: the
    analysis if the model fails. The model is the one that the orchestrator inherits.
    """

    def __init__(
        self,
        capabilities: Sequence[str] = (),
        instructions: str = "",
        fallback: Callable[[str], QueryIntent] | None = None,
    ) -> None:
        self.fallback = fallback or QueryAnalyzer()
        self.system = instructions or (
            "Say what the question asks for. primary: one capability. secondary: others that help. "
            "requires_multi_hop: true if one finding is needed to look for the next. hints: values that the "
            f"question names, by kind. Capabilities: {', '.join(capabilities) or 'any'}."
        )

    async def ask(self, ctx: ProgramContext, query: str, earlier: Sequence[Exchange] = ()) -> QueryIntent:
        """Return the intent of a question; that of the fallback if the model fails.

        earlier: the questions before it, which it may refer to.
        """
        told = "".join(f"Asked before: {one.question}\nAnswered: {one.answer}\n\n" for one in earlier)
        try:
            return await ctx.ask_model(told + query, schema=QueryIntent, system=self.system)
        except DelegationFailed:
            return self.fallback(query)


async def intent_of(
    analyzer: Callable[[str], QueryIntent] | ModelAnalyzer,
    ctx: ProgramContext,
    query: str,
    earlier: Sequence[Exchange] = (),
) -> QueryIntent:
    """Return the intent of a question, by rules, by a function or by a model.

    Raises MisuseError for a function that returns something else.
    """
    if isinstance(analyzer, ModelAnalyzer):
        return await analyzer.ask(ctx, query, earlier)
    return returned("the analyzer", analyzer(query), QueryIntent)


SpecialistPolicy: TypeAlias = Callable[
    [ProgramContext, SpecialistContext], Coroutine[object, None, SpecialistResult]
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
