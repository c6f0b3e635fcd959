"""The orchestrator: a program that asks specialists, one after the other or side by side.

The words of a specialist that failed: of the one folded result that its caller reads, the parts that tell.

{"status": "unavailable", "reason": "crashed", "detail": "..."}    crashed: ...
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.errors import DelegationFailed, InvalidAgent, InvalidPrompt, MisuseError
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.usage import Usage, plus
from callboard.runtime.orchestrator.analysis import (
    ModelAnalyzer,
    QueryAnalyzer,
    Registry,
    Specialist,
    intent_of,
)
from callboard.runtime.orchestrator.choices import Aggregator, Router, open_questions
from callboard.runtime.orchestrator.contracts import (
    Exchange,
    Finding,
    OrchestratorResult,
    OrchestratorUsage,
    QueryIntent,
    Question,
    SpecialistContext,
    SpecialistResult,
    returned,
)
from callboard.runtime.orchestrator.route import Merge, Mode, Route, Rules
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.history import EarlierRun
from callboard.runtime.programs.program import Program
from callboard.runtime.programs.run import ProgramCrashed, ending_of
from callboard.runtime.sessions.outcomes import Outcome

Analyzer: TypeAlias = Callable[[str], QueryIntent] | ModelAnalyzer
EARLIER_MAX: Final = 5
"""Earlier questions of a session that a specialist is told."""
EARLIER_CHARS_MAX: Final = 2_000
"""Characters of an earlier question or answer that a specialist is told. A longer one is cut."""
WORDS_CHARS_MAX: Final = 500
"""Characters of each part, since the reason goes into the answer of the orchestrator."""


class Orchestrator(Program[OrchestratorResult]):
    """A host or sub-agent without a model: it analyses a question, routes it, and merges the answers.

    specialists: a `Registry`, or a list of them, as they are now.
    analyzer: a `QueryAnalyzer`, any function of the question that returns a `QueryIntent`, or a
        `ModelAnalyzer`; by default the specialists' keywords.
    router: a `Router`. aggregator: an `Aggregator`, or any function of the findings.
    mode: "sequential" asks one specialist after the other, each with the findings so far, until the question
        is answered or the router's cap is reached; "parallel" asks all that fit at once.
    timeout_s: seconds that one specialist may take; None for no limit.
    name, description, limits: of the agent.

    As a host it tells the specialists the last questions of the session, with their answers.
    Its result is an `OrchestratorResult`. Its prompt is the question, or a `Question` as JSON for one with a
    scope. A specialist that fails is a finding without an answer, and the merged answer says so.
    Raises InvalidAgent for specialists or a mode that cannot work.
    """

    def __init__(
        self,
        specialists: Registry | Iterable[Specialist],
        *,
        analyzer: Analyzer | None = None,
        router: Router | None = None,
        aggregator: Merge | None = None,
        mode: Mode = "sequential",
        timeout_s: float | None = None,
        name: str = "orchestrator",
        description: str = "Asks specialists, and merges their answers.",
        limits: Limits | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise InvalidAgent(f'orchestrator {name!r}: mode is "sequential" or "parallel", not {mode!r:.40}')
        self.registry = Registry(specialists)
        self.enabled = self.registry.enabled()
        self.analyzer = analyzer or _keyword_analyzer(self.enabled)
        self.router = router or Router()
        self.aggregator = aggregator or Aggregator()
        self.mode: Mode = mode
        self.timeout_s = timeout_s
        self._agents = {one.name: one.make_agent() for one in self.enabled}
        super().__init__(
            self._run, name, description=description, agents=list(self._agents.values()), limits=limits
        )

    def text_of(self, outcome: Outcome[object]) -> str:
        """Return the merged answer of an ask as text, or the reason for its absence.

        An ask that had to end, as for want of budget, has the answer that it had found until then.
        """
        if outcome.is_ok:
            merged = self.result(outcome)
        else:
            try:
                merged = msgspec.json.decode(outcome.text, type=OrchestratorResult)
            except msgspec.DecodeError:  # it returned nothing, or said something else
                return outcome.text
        return merged.content or merged.error

    def result(self, outcome: Outcome[object]) -> OrchestratorResult:
        """Return the result of an ask of this orchestrator as a host, with the usage of its specialists.

        Raises OutcomeError for an ask without a result.
        """
        merged = msgspec.convert(outcome.unwrap(), OrchestratorResult)
        spent: dict[str, Usage] = {}
        for one in outcome.delegations:
            if one.parent == HOST and one.profile in self._agents:
                spent[one.profile] = plus(spent.get(one.profile, Usage()), one.usage)
        return replace(merged, usage=OrchestratorUsage(outcome.usage, spent))

    def route(self, question: Question | str, intent: QueryIntent | None = None) -> Route:
        """Return the route of a question, for a host of another kind that asks the specialists itself.

        question: also as a prompt, which has one with a scope as JSON. intent: of the question, by default
        that of the analyzer. Raises MisuseError without an intent if a model analyses the questions.
        """
        asked = Question.from_prompt(question) if isinstance(question, str) else question
        if intent is None:
            if isinstance(self.analyzer, ModelAnalyzer):
                raise MisuseError("a ModelAnalyzer asks a model: pass the intent, `route(question, intent)`")
            intent = returned("the analyzer", self.analyzer(asked.query), QueryIntent)
        return Route(self._rules(), asked, intent)

    def _rules(self) -> Rules:
        return Rules(self.registry, self.enabled, self.router, self.aggregator, self.mode)

    async def _run(self, ctx: ProgramContext, prompt: str) -> OrchestratorResult:
        asked = Question.from_prompt(prompt)
        if not self.enabled:
            why = "is enabled" if len(self.registry) else "is registered"
            return OrchestratorResult(False, error=f"no specialist {why}; add one to the registry")
        # Runs that were recorded without earlier questions go on so.
        earlier = _exchanges(ctx.earlier(EARLIER_MAX)) if ctx.since("earlier-questions") else ()
        intent = await intent_of(self.analyzer, ctx, asked.query, earlier)
        route = Route(self._rules(), asked, intent, earlier)
        ask = self._in_parallel if self.mode == "parallel" else self._in_sequence
        found = await ask(ctx, route, earlier)
        return _given(route.merged(found), route.facts(found))

    async def _in_parallel(
        self, ctx: ProgramContext, route: Route, earlier: tuple[Exchange, ...]
    ) -> list[Finding]:
        names = route.next()
        return await asyncio.gather(*(self._ask(ctx, name, route.context(name)) for name in names))

    async def _in_sequence(
        self, ctx: ProgramContext, route: Route, earlier: tuple[Exchange, ...]
    ) -> list[Finding]:
        found: list[Finding] = []
        takes_hops = route.intent.requires_multi_hop
        while names := route.next(found):
            found.append(await self._ask(ctx, names[0], route.context(names[0], found)))
            left = open_questions(found[-1]) if takes_hops else ()
            if left and not self.router.answered(route.intent, found):
                intent = await intent_of(self.analyzer, ctx, left[0], earlier)
                route = route.hop(left[0], intent, found)
        return found

    async def _ask(self, ctx: ProgramContext, name: str, context: SpecialistContext) -> Finding:
        """Return the finding of a specialist; one without an answer for each way in which it can fail."""
        if name not in self._agents:
            why = "is disabled" if name in self.registry else "does not exist"
            return _no_answer(name, "unavailable", f"the router selected {name!r}, which {why}")
        try:
            async with asyncio.timeout(self.timeout_s):
                agent = self._agents[name]
                asked = context if agent.contract is not None else context.prompt()
                report = await ctx.delegate(agent, asked)  # of the type that the agent names
        except DelegationFailed as error:
            return _no_answer(name, error.kind, reason_of(error))
        except InvalidPrompt as error:  # findings that are larger together than a value may be
            return _no_answer(name, "denied", str(error))
        except TimeoutError:
            return _no_answer(name, "cancelled", f"no answer within {self.timeout_s:g} s")
        result = SpecialistResult.from_report(report)
        return Finding(name, replace(result, confidence=min(max(result.confidence, 0.0), 1.0)))


def _exchanges(runs: Iterable[EarlierRun]) -> tuple[Exchange, ...]:
    """Return the questions of earlier runs with their answers in words."""
    found = []
    for one in runs:
        try:
            merged = msgspec.convert(one.value, OrchestratorResult)
        except msgspec.ValidationError:  # of another program by this name
            continue
        texts = Question.from_prompt(one.prompt).query, merged.content or merged.error
        found.append(Exchange(*(text[:EARLIER_CHARS_MAX] for text in texts)))
    return tuple(found)


def _given(merged: OrchestratorResult, more: dict[str, object]) -> OrchestratorResult:
    """Return a merged answer, or the reason why it cannot be given. more: data that such a result has too."""
    try:
        ending_of(merged)
    except ProgramCrashed as error:
        return OrchestratorResult(False, data=more, error=f"the findings cannot be merged: {error}")
    return merged


def _no_answer(name: str, kind: str, error: str) -> Finding:
    return Finding(name, SpecialistResult(False, error=error), kind)


def _keyword_analyzer(specialists: Sequence[Specialist]) -> QueryAnalyzer:
    """Return an analyser for the capabilities of specialists, by their keywords."""
    intents: dict[str, list[str]] = {}
    for one in specialists:
        for capability in one.capabilities:
            intents.setdefault(capability, []).extend(one.keywords)
    return QueryAnalyzer(intents)


class _Folded(msgspec.Struct, frozen=True):
    reason: str
    detail: str
    problems: tuple[str, ...] = ()
    text: str = ""


def reason_of(error: DelegationFailed) -> str:
    """Return the kind of a failure and its words; of a failure without words, the kind."""
    told = [_cut(one) for one in _told(error.text) if one]
    return f"{error.kind}: {'; '.join(told)}" if told else error.kind


def _told(text: str) -> tuple[str, ...]:
    try:
        found = msgspec.json.decode(text, type=_Folded)
    except msgspec.DecodeError:  # an end that is not a folded result, such as an ask that was given up
        return (text,)
    return found.detail, *found.problems, found.text


def _cut(text: str) -> str:
    return text if len(text) <= WORDS_CHARS_MAX else f"{text[:WORDS_CHARS_MAX]}..."
