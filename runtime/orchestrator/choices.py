"""The choices of an orchestrator: which specialists it asks, in what order, and how results merge."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.orchestrator.analysis import Specialist, has_word
from callboard.runtime.orchestrator.contracts import (
    Conflict,
    Finding,
    Missing,
    OrchestratorResult,
    QueryIntent,
    ToolUse,
)

_Key: TypeAlias = tuple[str, str, str]
_CELL_FIELDS: Final = ("table", "row", "column", "value")
_CELL: Final = frozenset(_CELL_FIELDS)
Select: TypeAlias = Callable[[str, QueryIntent, tuple[Specialist, ...]], Sequence[str]]
"""A function of the question, its intent and the enabled specialists. It returns names, in order."""
Answered: TypeAlias = Callable[[QueryIntent, Sequence[Finding]], bool]
"""A function of the intent and of the findings so far: True ends a sequential route."""
_KEYWORD: Final = 2
_PRIMARY: Final = 3
_SECONDARY: Final = 1
_SURE: Final = 0.5  # the confidence that ends a sequential route


class Aggregator:
    """The merge of findings: contents, sources and tool calls, each once, in the order of the findings.

    separator: between contents. names_refusals: the last line of the content also names specialists that
    ended well and reported no answer; False suits a sequential route, which passes on what one cannot answer.
    A subclass replaces a method, or the user gives a function instead.
    """

    def __init__(self, separator: str = "\n\n", names_refusals: bool = True) -> None:
        self.separator, self.names_refusals = separator, names_refusals

    def __call__(self, found: Sequence[Finding]) -> OrchestratorResult:
        """Merge findings. Without an answer the result has `success=False` and says why."""
        answers = [one for one in found if one.result.success]
        lacks = self.lacks(found, has_answers=bool(answers))
        conflicts = self.conflicts(answers)
        return OrchestratorResult(
            bool(answers),
            self.content(answers, lacks),
            _sources_once(answers),
            _calls_once(found),
            {
                "specialists": {one.specialist: one.result.data for one in answers},
                "missing": [msgspec.to_builtins(_missing(one)) for one in self.unanswered(found)],
            },
            "" if answers else f"no specialist has an answer: {lacks or 'none was asked'}",
            self.confidence(answers, conflicts),
            conflicts,
        )

    def content(self, answers: Sequence[Finding], lacks: str) -> str:
        """Return the contents of answers, each once, and a last line that names the missing ones.

        Without answers it is empty.
        """
        said = _each_once(one.result.content for one in answers)
        return self.separator.join([*said, f"Without an answer: {lacks}."] if answers and lacks else said)

    def lacks(self, found: Sequence[Finding], has_answers: bool) -> str:
        """Name the specialists without an answer, with their reasons."""
        told = [_missing(one) for one in self.unanswered(found) if self._is_named(one, has_answers)]
        return "; ".join(f"{one.specialist} ({one.reason})" for one in told)

    def _is_named(self, one: Finding, has_answers: bool) -> bool:
        return self.names_refusals or not has_answers or one.kind != "reported"

    @staticmethod
    def unanswered(found: Sequence[Finding]) -> list[Finding]:
        """Return the last finding of each specialist that has no answer."""
        last = {one.specialist: one for one in found}
        answered = {one.specialist for one in found if one.result.success}
        return [one for name, one in last.items() if name not in answered]

    @staticmethod
    def confidence(answers: Sequence[Finding], conflicts: Sequence[Conflict]) -> float:
        """Return the highest confidence of the answers; with conflicts the lowest; 0 for none."""
        sure = [one.result.confidence for one in answers]
        return (min(sure) if conflicts else max(sure)) if sure else 0.0

    @staticmethod
    def conflicts(answers: Sequence[Finding]) -> tuple[Conflict, ...]:
        """Return the table cells for which the answers have different values."""
        values: dict[_Key, dict[str, str]] = {}
        for one in answers:
            for key, value in cells_of(one.result.data):
                values.setdefault(key, {}).setdefault(one.specialist, value)
        return tuple(Conflict(*key, said) for key, said in values.items() if len(set(said.values())) > 1)


def cells_of(data: Mapping[str, object]) -> list[tuple[_Key, str]]:
    """Return the table cells in the data of a result; entries that are not cells are left out."""
    given = data.get("cells", ())
    entries = given if isinstance(given, list | tuple) else ()
    return [cell for cell in map(_cell, entries) if cell is not None]


def _cell(given: object) -> tuple[_Key, str] | None:
    if not isinstance(given, Mapping) or not given.keys() >= _CELL:
        return None
    table, row, column, value = (" ".join(str(given[name]).split()) for name in _CELL_FIELDS)
    return (table, row, column), value


def _missing(one: Finding) -> Missing:
    return Missing(one.specialist, one.result.error or "no answer")


def _each_once(texts: Iterable[str]) -> list[str]:
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(" ".join(text.split()).casefold(), text.strip())
    return [text for text in found.values() if text]


def _sources_once(answers: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source for one in answers for source in one.result.sources))


def _calls_once(found: Iterable[Finding]) -> tuple[ToolUse, ...]:
    made = (call for one in found for call in one.result.tool_calls)
    return tuple({msgspec.json.encode(one, order="sorted"): one for one in made}.values())


def is_answered(intent: QueryIntent, found: Sequence[Finding]) -> bool:
    """Return True if the last finding is a confident answer that leaves no question open."""
    if not found:
        return False
    last = found[-1].result
    return last.success and last.confidence >= _SURE and not open_questions(found[-1])


def open_questions(finding: Finding) -> tuple[str, ...]:
    """Return the questions that a finding leaves open; () if its `open` is not a list of texts."""
    given = finding.result.data.get("open", ())
    return tuple(one for one in given if isinstance(one, str)) if isinstance(given, list | tuple) else ()


class Router:
    """The choice of specialists: by keywords, capabilities and priority, among those that are enabled.

    default: the specialists for a question that fits none, and the ones to go on with when those that fit
        did not answer; None for all that are enabled, the highest priority first.
    max_hops: the specialists that a sequential route asks at most.
    select: chooses instead of the rules. answered: ends a sequential route instead of `is_answered`.
    Raises MisuseError for a cap below 1.
    """

    def __init__(
        self,
        default: Sequence[str] | None = None,
        max_hops: int = 4,
        select: Select | None = None,
        answered: Answered = is_answered,
    ) -> None:
        if max_hops < 1:
            raise MisuseError(f"max_hops is {max_hops}; a route asks at least one specialist")
        self.default = None if default is None else tuple(default)
        self.max_hops, self.answered, self._select = max_hops, answered, select

    def select(self, query: str, intent: QueryIntent, enabled: tuple[Specialist, ...]) -> tuple[str, ...]:
        """Return the names of the specialists that match a question, best first; else the default route."""
        if self._select is not None:
            names = self._select(query, intent, enabled)
            if isinstance(names, str) or not isinstance(names, Iterable):
                raise MisuseError(f"select returned {names!r:.80}; return the names of specialists as a list")
            return tuple(dict.fromkeys(names))
        scores = {one.name: self._score(query, intent, one) for one in enabled}
        fitting = [one for one in enabled if scores[one.name]]
        fitting.sort(key=lambda one: (-scores[one.name], -one.priority))
        return tuple(one.name for one in fitting) or self.fallback(enabled)

    def fallback(self, enabled: tuple[Specialist, ...]) -> tuple[str, ...]:
        """Return the default route; () where the user's own `select` decides."""
        if self.default is not None:
            return self.default
        if self._select is not None:
            return ()
        return tuple(one.name for one in sorted(enabled, key=lambda one: -one.priority))

    @staticmethod
    def _score(query: str, intent: QueryIntent, one: Specialist) -> int:
        keywords = sum(has_word(query, word) for word in one.keywords)
        secondary = sum(name in one.capabilities for name in intent.secondary)
        return _KEYWORD * keywords + _PRIMARY * (intent.primary in one.capabilities) + _SECONDARY * secondary
