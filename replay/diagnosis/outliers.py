"""A guess about reports: one that differs from those of its siblings.

A number differs if it is far from the others (`spread`), a text if it is the only other one in a field that
says how to read the rest, such as `unit`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.spread import median, odd_places
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

SIBLINGS_MIN: Final = 4
"""Reports of one profile to one parent below which none is called an outlier."""

# Names of fields that say how to read another one. Verdicts differ by right: one "reject" is not a fault.
_MEASURES: Final = frozenset({"unit", "units", "currency", "scale", "zone", "timezone", "format", "encoding"})
# Names of fields whose numbers depend on the machine and the moment.
_TIMES: Final = frozenset({"seconds", "ms", "duration", "elapsed", "took", "latency", "time"})
_WORDS: Final = re.compile(r"[a-z]+")


class Outliers:
    """Reports with a value far from those of their siblings: same parent, same profile."""

    kinds: ClassVar = frozenset({"Delegate", "DelegationEnded"})

    def __init__(self) -> None:
        self._profiles: dict[tuple[str, int, int], str] = {}
        self._reports: dict[tuple[str, str], list[tuple[Event, Mapping[str, object]]]] = {}

    def take(self, event: Event) -> None:
        """Take in a delegation or a report."""
        body = event.body
        if isinstance(body, Delegate):
            self._profiles[event.sender, body.turn, body.call] = body.profiles[0]
        elif isinstance(body, DelegationEnded) and (value := reported(event)) is not None:
            profile = self._profiles.get((event.recipient, body.turn, body.call), "")
            self._reports.setdefault((event.recipient, profile), []).append(
                (event, dict(leaves(value, "value")))
            )

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each report that differs."""
        for siblings in self._reports.values():
            if len(siblings) >= SIBLINGS_MIN:
                yield from _outliers(siblings)


def _outliers(siblings: list[tuple[Event, Mapping[str, object]]]) -> Iterator[Finding]:
    found: dict[int, Finding] = {}
    for path in dict.fromkeys(path for _, values in siblings for path in values):
        column = [(event, values[path]) for event, values in siblings if path in values]
        odd = _odd(column, path.removeprefix("value.")) if len(column) >= SIBLINGS_MIN else ()
        for event, said in odd:
            found.setdefault(event.seq, _finding(event, said))
    yield from found.values()


def _finding(event: Event, said: str) -> Finding:
    assert isinstance(event.body, DelegationEnded)
    return Finding("outlier", event.seq, event.body.address, said, "tree {session} --reports")


def _odd(column: list[tuple[Event, object]], name: str) -> Iterator[tuple[Event, str]]:
    """Return the events whose value differs, each with a sentence. name: of the field."""
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for _, value in column)
    return _odd_numbers(column, name) if is_number else _odd_words(column, name)


def _odd_numbers(column: list[tuple[Event, Any]], name: str) -> Iterator[tuple[Event, str]]:
    if _TIMES.intersection(_WORDS.findall(name.casefold())):
        return
    numbers = [value for _, value in column]
    for place in odd_places(numbers):
        said = f"{name} = {numbers[place]:,}; the median of its siblings is {median(numbers):,}"
        yield column[place][0], f"reported {said}"


def _odd_words(column: list[tuple[Event, object]], name: str) -> Iterator[tuple[Event, str]]:
    if not _MEASURES.intersection(_WORDS.findall(name.casefold())):
        return
    (usual, count), *_ = Counter(repr(value) for _, value in column).most_common()
    if len(column) - count == 1 and count >= SIBLINGS_MIN - 1:
        event, odd = next((event, value) for event, value in column if repr(value) != usual)
        yield event, f"reported {name} = {odd!r:.60}; {count:,} siblings reported {usual:.60}"
