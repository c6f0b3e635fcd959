"""A guess about reports: one that differs from those of its siblings."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

SIBLINGS_MIN: Final = 4
"""Reports of one profile to one parent below which none is called an outlier."""

_TIMES: Final = 10  # a number is an outlier if it is so many times the median of its siblings', or a tenth


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
    middle = _median([value for _, value in column])
    for event, value in column:
        if middle and not abs(middle) / _TIMES < abs(value) < abs(middle) * _TIMES:
            yield event, f"reported {name} = {value:,}; the median of its siblings is {middle:,}"


def _median(values: list[Any]) -> Any:
    """Return the median. The module `statistics` takes longer to import than a diagnosis."""
    ordered, half = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[half]
    both = ordered[half - 1] + ordered[half]
    return both // 2 if both % 2 == 0 else both / 2


def _odd_words(column: list[tuple[Event, object]], name: str) -> Iterator[tuple[Event, str]]:
    (usual, count), *_ = Counter(repr(value) for _, value in column).most_common()
    if len(column) - count == 1 and count >= SIBLINGS_MIN - 1:
        event, odd = next((event, value) for event, value in column if repr(value) != usual)
        yield event, f"reported {name} = {odd!r:.60}; {count:,} siblings reported {usual:.60}"
