"""The choice of specialists for a question, and the order in which they are asked."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.orchestrator.analysis import has_word
from callboard.runtime.orchestrator.contracts import Finding, QueryIntent
from callboard.runtime.orchestrator.specialists import Specialist

Select: TypeAlias = Callable[[str, QueryIntent, tuple[Specialist, ...]], Sequence[str]]
"""A function of the question, its intent and the enabled specialists. It returns names, in order."""

Answered: TypeAlias = Callable[[QueryIntent, Sequence[Finding]], bool]
"""A function of the intent and of the findings so far: True ends a sequential route."""

_KEYWORD: Final = 2
_PRIMARY: Final = 3
_SECONDARY: Final = 1
_SURE: Final = 0.5  # the confidence that ends a sequential route


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
