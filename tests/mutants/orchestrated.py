"""The rule of an orchestrator: it asks the specialists that it must, with the findings, and merges those.

Each question of a scenario has its intent and its route as literals. The rule follows the route with the ends
that stand in the log, and compares the contexts of the specialists and the merged answer. It shares no code
with the orchestrator.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.replay.testing.sessions.monitors import SessionMonitor
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld

Json: TypeAlias = dict[str, Any]

RULE: Final = "An orchestrator asks the specialists of its route with the findings so far, and merges all."
_EMPTY: Final[Json] = {
    "content": "", "sources": [], "tool_calls": [], "data": {}, "error": "", "confidence": 0.0,
}  # fmt: skip


class Question(NamedTuple):
    """A question as it must be understood. route: those that fit it, in order. intent: its JSON."""

    query: str
    route: tuple[str, ...]
    intent: Json
    scope: tuple[str, ...] = ()


class Plan(NamedTuple):
    """A question to an orchestrator, and the parts of its route.

    more: the questions that specialists may leave open. default: the specialists of the default route.
    most: the cap. iterations: those of each specialist. never: the specialists that do not end in time.
    timeout_s: the time of each; None for any.
    """

    question: Question
    more: Mapping[str, Question]
    is_parallel: bool
    default: tuple[str, ...]
    most: int
    iterations: int
    never: tuple[str, ...] = ()
    timeout_s: int | None = None


class Found(NamedTuple):
    """The end of one specialist, as the log has it."""

    name: str
    kind: str
    result: Json

    @property
    def is_answer(self) -> bool:
        """Return True if it has an answer."""
        return bool(self.result["success"])

    @property
    def open(self) -> Sequence[str]:
        """Return the questions that it leaves open."""
        found: list[str] = self.result["data"].get("open", [])
        return found


class Asked(NamedTuple):
    """A specialist that must be asked, with its context; and one that was."""

    name: str
    context: Json


@dataclass(frozen=True)
class Orchestrated:
    """A session of an orchestrator, and the rule that it must keep."""

    scenario: Scenario
    plan: Plan

    @property
    def rule(self) -> SessionMonitor:
        """Return the rule for one campaign."""
        return SessionMonitor("orchestrator", RULE, lambda world: breach_of(self.plan, world))


def breach_of(plan: Plan, world: SessionWorld) -> str:
    """Return how the session of a world differs from its plan, or ''."""
    ends = list(world.of(AskEnded))
    if world.failure is not None or len(ends) != 1:
        return ""
    if ends[0].kind == "crashed":
        return f"it crashed: {ends[0].detail}"
    answer = msgspec.json.decode(ends[0].text) if ends[0].kind == "answered" else None
    if slow := _too_slow(plan, world):
        return slow
    asked, found = _asked(world), _found(world, plan.never)
    must, met = _route(plan, found)
    if answer is None:  # it was stopped in mid-route
        return _difference("asked", asked, must[: len(asked)])
    return _difference("asked", asked, must) or _difference("answer", _shape(answer), _merged(plan, met))


def _too_slow(plan: Plan, world: SessionWorld) -> str:
    """Return the specialist that had more time than it may take, or ''."""
    if plan.timeout_s is None:
        return ""
    begun: dict[tuple[int, int], int] = {}
    for event in world.log:
        match event.body:
            case Delegate(turn=turn, call=call):
                begun[turn, call] = event.at
            case DelegationEnded(turn=turn, call=call):
                took = event.at - begun[turn, call]
                if took > 1_000 * plan.timeout_s:
                    return f"{event.body.metadata and event.body.metadata.subagent} took {took} ms"
            case _:
                pass
    return ""


def _difference(what: str, told: object, must: object) -> str:
    return "" if told == must else f"{what}: {told}, and it must be {must}"


def _asked(world: SessionWorld) -> list[Asked]:
    return [Asked(one.profiles[0], _context(one)) for one in world.of(Delegate)]


def _context(one: Delegate) -> Json:
    given: Json = msgspec.json.decode(one.input)
    found = [(each["specialist"], each["kind"], each["result"]["content"]) for each in given["found"]]
    return {**given, "found": found}


def _found(world: SessionWorld, never: Sequence[str]) -> list[Found]:
    """Return the ends of the specialists as far as they ended in the order in which they were asked."""
    ends = {(one.turn, one.call): one for one in world.of(DelegationEnded)}
    found = []
    for asked in world.of(Delegate):
        if (end := ends.get((asked.turn, asked.call))) is None:
            break
        name = asked.profiles[0]
        kind = "cancelled" if name in never else str(end.kind)
        report = msgspec.json.decode(end.value) if kind == "reported" else {}
        found.append(Found(name, kind, {**_EMPTY, "success": False, **report}))
    return found


def _route(plan: Plan, found: Sequence[Found]) -> tuple[list[Asked], list[Found]]:
    """Return the specialists that must be asked, and their ends."""
    question, met, must = plan.question, list[Found](), list[Asked]()
    if plan.is_parallel:
        return [Asked(name, _given(plan, question, [])) for name in question.route], list(found)
    line = list(dict.fromkeys([*question.route, *plan.default]))
    while line and len(met) < plan.most:
        must.append(Asked(line.pop(0), _given(plan, question, met)))
        if len(found) < len(must):
            break
        met.append(found[len(met)])
        if _is_sure(met[-1]):
            break
        if plan.question.intent["requires_multi_hop"] and met[-1].open:
            question = plan.more[met[-1].open[0]]
            line = list(question.route)
    return must, met


def _is_sure(one: Found) -> bool:
    return one.is_answer and one.result["confidence"] >= 0.5 and not one.open


def _given(plan: Plan, question: Question, met: Sequence[Found]) -> Json:
    return {
        "query": question.query,
        "scope": list(plan.question.scope),
        "hints": question.intent["hints"],
        "max_iterations": plan.iterations,
        "found": [(one.name, one.kind, one.result["content"]) for one in met],
    }


# --- the merged answer --------------------------------------------------------------------


def _shape(answer: Json) -> Json:
    """Return the parts of an answer that its findings determine."""
    said, _, lacks = answer["content"].partition("Without an answer: ")
    data = answer["data"]
    return {
        "success": answer["success"],
        "said": said.strip(),
        "names": sorted(one["specialist"] for one in data["missing"] if f"{one['specialist']} (" in lacks),
        "missing": [one["specialist"] for one in data["missing"]],
        "sources": answer["sources"],
        "tool_calls": answer["tool_calls"],
        "confidence": answer["confidence"],
        "conflicts": answer["conflicts"],
        "has_error": bool(answer["error"]),
        "route": data["route"],
        "intent": data["intent"],
        "data": data["specialists"],
    }


def _merged(plan: Plan, met: Sequence[Found]) -> Json:
    """Return the same parts as the findings determine them."""
    answers = [one for one in met if one.is_answer]
    answered = {one.name for one in answers}
    missing = _once(one.name for one in met if one.name not in answered)
    conflicts = list(_conflicts(answers))
    sure = sorted(one.result["confidence"] for one in answers) or [0.0]
    return {
        "success": bool(answers),
        "said": "\n\n".join(_once((one.result["content"] for one in answers), key=_folded)),
        "names": sorted(missing) if answers else [],
        "missing": missing,
        "sources": _once(source for one in answers for source in one.result["sources"]),
        "tool_calls": _once((call for one in met for call in one.result["tool_calls"]), key=str),
        "confidence": sure[0] if conflicts else sure[-1],
        "conflicts": conflicts,
        "has_error": not answers,
        "route": [one.name for one in met],
        "intent": plan.question.intent,
        "data": {one.name: one.result["data"] for one in answers},
    }


def _once(parts: Iterable[Any], key: Callable[[Any], object] = lambda part: part) -> list[Any]:
    kept: dict[object, Any] = {}
    for part in parts:
        kept.setdefault(key(part), part)
    return list(kept.values())


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _conflicts(answers: Sequence[Found]) -> Iterator[Json]:
    """Yield the cells with two values, in the order in which they were first found."""
    values: dict[tuple[str, str, str], dict[str, str]] = {}
    for one in answers:
        for cell in one.result["data"].get("cells", []):
            place = cell["table"], cell["row"], cell["column"]
            values.setdefault(place, {}).setdefault(one.name, cell["value"])
    for (table, row, column), said in values.items():
        if len(set(said.values())) > 1:
            yield {"table": table, "row": row, "column": column, "values": said}
