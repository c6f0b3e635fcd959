"""A guess about reports: a value that an agent left empty, or left out, after an error it does not tell of.

The error is that of a tool which gave nothing else after it, or a report without the value that was refused.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded, ReportJudged
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

_EMPTY: Final = frozenset({"", "0", "0.0", "-1", "none", "null", "unknown", "n/a", "na", "-"})
_TELLS: Final = ("error", "fail", "unavailable", "could not", "cannot", "not found", "missing", "timeout")
"""Words of a report that tells of its error. A name of a field may hold them, too."""

_NAME: Final = re.compile(r"[\w$-]+")
_OTHERS_MIN: Final = 3  # siblings that have a field which a report lacks

_Siblings = tuple[str, tuple[str, ...]]


class _Report(NamedTuple):
    event: Event
    agent: str
    siblings: _Siblings
    values: Mapping[str, object]
    errors: dict[str, int]
    refused: dict[str, int]


class Defaulted(CallCheck):
    """Reports with a value that is empty or left out after an error that they do not tell of."""

    kinds: ClassVar = frozenset({"ReportJudged", "Delegate", "DelegationEnded"})
    results: ClassVar = "errors"

    def __init__(self) -> None:
        self._errors: dict[str, dict[str, int]] = {}
        self._refused: dict[str, dict[str, int]] = {}
        self._profiles: dict[tuple[str, int, int], tuple[str, ...]] = {}
        self._fields: dict[_Siblings, Counter[str]] = {}
        self._reports: Counter[_Siblings] = Counter()
        self._doubtful: list[_Report] = []

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        if result.status == "error":
            self._errors.setdefault(call.agent, {}).setdefault(call.tool, result.seq)
        elif call.agent in self._errors:
            self._errors[call.agent].pop(call.tool, None)

    def take(self, event: Event) -> None:
        """Take in a judgement, a delegation or its end."""
        body = event.body
        if isinstance(body, ReportJudged):
            refused = self._refused.setdefault(event.recipient, {})
            for problem in body.problems:
                for path in _paths(problem):
                    refused.setdefault(path, event.seq)
        elif isinstance(body, Delegate):
            self._profiles[event.sender, body.turn, body.call] = body.profiles
        elif isinstance(body, DelegationEnded):
            self._end(event, body)

    def _end(self, event: Event, body: DelegationEnded) -> None:
        errors, refused = self._errors.pop(body.address, {}), self._refused.pop(body.address, {})
        siblings = event.recipient, self._profiles.pop((event.recipient, body.turn, body.call), ())
        if body.kind != "reported":
            return
        values = {path.removeprefix("."): leaf for path, leaf in leaves(reported(event), "")}
        self._reports[siblings] += 1
        self._fields.setdefault(siblings, Counter()).update(values.keys())
        if errors or refused:
            self._doubtful.append(_Report(event, body.address, siblings, values, errors, refused))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        for one in self._doubtful:
            if not _tells(one.values) and (said := self._said(one)):
                command = f"events {{session}} --grouped --actor {one.agent}"
                yield Finding("defaulted", one.event.seq, one.agent, f"{one.agent} {said}", command)

    def _said(self, one: _Report) -> str:
        empty = [path for path, leaf in one.values.items() if _is_empty(leaf)]
        for path in empty:
            if path in one.refused:
                value = f"{path} = {one.values[path]!r}"
                return f"reported {value:.80} after its report without that was refused ({one.refused[path]})"
        if not one.errors:
            return ""
        tool, seq = next(iter(one.errors.items()))
        why = f"and {tool} had given it an error ({seq}) and nothing after it"
        if empty:
            return f"reported {f'{empty[0]} = {one.values[empty[0]]!r}':.80}, {why}"
        others = self._reports[one.siblings] - 1
        for path, count in self._fields[one.siblings].items():
            if path not in one.values and count == others >= _OTHERS_MIN:
                return f"reported no {path:.80} as its {others:,} siblings did, {why}"
        return ""


def _paths(problem: SchemaProblem) -> Iterator[str]:
    """Yield the path of a problem, and those of the words in its text: one may be a field that is missing."""
    path = problem.path.strip("/").replace("/", ".")
    yield path
    for name in _NAME.findall(problem.message):
        yield f"{path}.{name}" if path else name


def _tells(values: Mapping[str, object]) -> bool:
    said = " ".join(f"{path} {leaf}" for path, leaf in values.items() if not _is_empty(leaf)).casefold()
    return any(word in said for word in _TELLS)


def _is_empty(leaf: object) -> bool:
    return not isinstance(leaf, bool) and str(leaf).strip().casefold() in _EMPTY
