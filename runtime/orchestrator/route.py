"""The way of one question through the specialists, as rules: an orchestrator of any kind can go it."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.runtime.orchestrator.analysis import Registry, Specialist
from callboard.runtime.orchestrator.choices import Router
from callboard.runtime.orchestrator.contracts import (
    Exchange,
    Finding,
    OrchestratorResult,
    QueryIntent,
    Question,
    SpecialistContext,
    returned,
)

Mode: TypeAlias = Literal["sequential", "parallel"]
Merge: TypeAlias = Callable[[Sequence[Finding]], OrchestratorResult]


class Rules(NamedTuple):
    """The rules of an orchestrator, as its arguments have them. enabled: the specialists that are."""

    registry: Registry
    enabled: tuple[Specialist, ...]
    router: Router
    aggregator: Merge
    mode: Mode


class Route:
    """The specialists to ask next, their contexts, and the merged answer, each from the findings so far.

    `Orchestrator.route` begins one for a host that an orchestrator does not run, such as an agent of another
    framework. intent: of the question.
    """

    def __init__(
        self, rules: Rules, asked: Question, intent: QueryIntent, earlier: tuple[Exchange, ...] = ()
    ) -> None:
        self.intent = intent
        self._rules, self._asked, self._earlier = rules, asked, earlier
        self._names = rules.router.select(asked.query, intent, rules.enabled)
        self._known = 0  # findings before this route began

    def next(self, found: Sequence[Finding] = ()) -> tuple[str, ...]:
        """Return the names of the specialists to ask after some findings; none at the end."""
        router = self._rules.router
        if self._rules.mode == "parallel":
            return () if found else tuple(self._names)
        done = len(found) - self._known
        if len(found) >= router.max_hops or (done and router.answered(self.intent, found)):
            return ()
        more = () if self._known else router.fallback(self._rules.enabled)
        line = tuple(dict.fromkeys([*self._names, *more]))
        return line[done : done + 1]

    def context(self, name: str, found: Sequence[Finding] = ()) -> SpecialistContext:
        """Return the input of a specialist; `prompt()` of it, for one that takes text."""
        registry = self._rules.registry
        calls_max = registry.get(name).max_iterations if name in registry else 0
        before = () if self._rules.mode == "parallel" else tuple(found)
        query, scope, earlier = self._asked.query, self._asked.scope, self._earlier or msgspec.UNSET
        return SpecialistContext(query, scope, self.intent.hints, calls_max, before, earlier)

    def hop(self, query: str, intent: QueryIntent, found: Sequence[Finding]) -> "Route":
        """Return the route of a question that the last finding left open."""
        route = Route(self._rules, replace(self._asked, query=query), intent, self._earlier)
        route._known = len(found)
        return route

    def merged(self, found: Sequence[Finding]) -> OrchestratorResult:
        """Merge the findings, with the intent and the route in `data`. Raises MisuseError."""
        merged = returned("the aggregator", self._rules.aggregator(found), OrchestratorResult)
        return replace(merged, data={**merged.data, **self.facts(found)})

    def facts(self, found: Sequence[Finding]) -> dict[str, object]:
        """Return the intent and the route, as JSON values."""
        return {"intent": msgspec.to_builtins(self.intent), "route": [one.specialist for one in found]}
