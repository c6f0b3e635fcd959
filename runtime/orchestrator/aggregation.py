"""The merge of what several specialists found."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from callboard.runtime.orchestrator.contracts import (
    Conflict,
    Finding,
    Missing,
    OrchestratorResult,
    ToolUse,
)

_Key: TypeAlias = tuple[str, str, str]

_CELL_FIELDS: Final = ("table", "row", "column", "value")
_CELL: Final = frozenset(_CELL_FIELDS)


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


def cells_of(data: Mapping[str, Any]) -> list[tuple[_Key, str]]:
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
