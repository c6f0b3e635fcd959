"""Guesses about reports, beside those of siblings and in what the parent made of them.

A guess about reports: one that differs from those of its siblings.

A number differs if it is far from the others (`spread`), a text if it is the only other one in a field that
says how to read the rest, such as `unit`.

Numbers far from the others of their column, by a robust spread.

The distance of a number from the median is measured in factors, and compared with the median of these
distances: one wrong number does not move that, and a column that varies widely, such as 3 to 950, has no odd
number. The spread counts as at least 4 %, so that a factor of 1.43 is the least, and as 12 %, a factor of 3,
in a short column; for counts also as half of a standard deviation of their noise: 4 is not far from 1.

A guess about reports: one whose values the parent never used, although it could have.

Only values that were asked for count: the name of their field stands in the prompt of the delegation, or in
that of the parent.
A value is used if a later reply of the parent holds it, in any spelling: 41900 as 41,900 or 419.00. A parent
that repeats few of its reports may have summed them up, and is left alone.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

Number: TypeAlias = int | float

_SPREADS: Final = 6
_LEAST: Final = 0.04
_LEAST_IN_SHORT: Final = 0.12
_SHORT: Final = 6  # a column of so many numbers, or fewer, is short: they may be close by chance
_SIGMA: Final = 1.4826  # times the median distance: the standard deviation, if the distances are normal
_PART_MAX: Final = 1 / 4  # of the column may be odd: more of them are a second group
_ZERO_COUNT: Final = 0.5
_ZERO: Final = 0.01  # of the median: the place of a zero among measures that have none
_DIGITS_MAX: Final = 300  # a longer integer does not fit a float


def odd_places(column: Sequence[Number]) -> list[int]:
    """Return the places of the numbers that are far from the others; none if the median is not positive.

    Numbers below zero are left alone.
    """
    if any(isinstance(one, int) and abs(one) >= 10**_DIGITS_MAX for one in column):
        return []
    middle = median(column)
    if not middle > 0:
        return []
    are_counts = all(isinstance(one, int) for one in column)
    zero = min(_ZERO_COUNT, middle / 2) if are_counts else middle * _ZERO
    distances = [abs(math.log((one or zero) / middle)) for one in column if one >= 0]
    least = _LEAST if len(column) > _SHORT else _LEAST_IN_SHORT
    least = max(least, 0.5 / math.sqrt(middle)) if are_counts else least
    bound = _SPREADS * _SIGMA * max(median(distances), least)
    odd = [
        place
        for place, one in enumerate(column)
        if one >= 0 and abs(math.log((one or zero) / middle)) > bound
    ]
    return odd if len(odd) <= _PART_MAX * len(column) else []


def median(values: Sequence[Number]) -> Number:
    """Return the median. The module `statistics` takes longer to import than a diagnosis."""
    ordered, half = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[half]
    both = ordered[half - 1] + ordered[half]
    return both // 2 if both % 2 == 0 else both / 2


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
    agent = event.body.address
    command = f"tree {{session}} --reports --actor {agent}"
    return Finding("outlier", event.seq, agent, f"{agent} {said}", command)


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
    systems = [system_of(value) for _, value in column]
    if all(systems):
        yield from _odd_systems(column, name, systems)
        return
    if not _MEASURES.intersection(_WORDS.findall(name.casefold())):
        return
    (usual, count), *_ = Counter(repr(value) for _, value in column).most_common()
    if len(column) - count == 1 and count >= SIBLINGS_MIN - 1:
        event, odd = next((event, value) for event, value in column if repr(value) != usual)
        yield event, f"reported {name} = {odd!r:.60}; {count:,} siblings reported {usual:.60}"


_MEASURE: Final = re.compile(r"\s*([€$£¥]?)\s*[-+]?\d[\d.,]*\s*([^\W\d]+|[€$£¥%]|°[CF])?\s*")
_SYSTEMS: Final = {
    unit: system
    for system, units in {
        "metric": "mm cm m km g kg t ml l °C",
        "imperial": "in ft yd mi oz lb lbs gal °F",
        "euros": "€ EUR",
        "dollars": "$ USD",
        "pounds": "£ GBP",
        "yen": "¥ JPY",
    }.items()
    for unit in units.split()
}


def system_of(value: object) -> str:
    """Return the system of the unit in a text such as `26.7 lb`; '' for any other value.

    Units of one system vary with the size of a thing, such as 900 g and 1.2 kg, so they are all the same.
    """
    found = _MEASURE.fullmatch(value) if isinstance(value, str) else None
    return _SYSTEMS.get(found[1] or found[2] or "", "") if found else ""


def _odd_systems(
    column: list[tuple[Event, object]], name: str, systems: Sequence[str]
) -> Iterator[tuple[Event, str]]:
    (usual, count), *_ = Counter(systems).most_common()
    if len(column) - count == 1 and count >= SIBLINGS_MIN - 1:
        event, value = next(one for one, system in zip(column, systems, strict=True) if system != usual)
        example = next(one for (_, one), system in zip(column, systems, strict=True) if system == usual)
        yield (
            event,
            f"reported {name} = {value!r:.60}; its {count:,} siblings use units such as {example!r:.60}",
        )


_UNUSED_MAX: Final = 1 / 3  # of a parent's reports may be unused without being a sign of its way to work
_USED_MIN: Final = 2  # reports that a parent repeats before it counts as one that repeats them
_TEXT_CHARS: Final = range(3, 60)  # a shorter text stands in any other, a longer one is told in other words
_DIGITS_MIN: Final = 3  # of a number: a shorter one may be told as a word, or rounded
_NAME_CHARS: Final = 4  # of a field's name, so that `totals` asks for `total`
_NUMBER: Final = re.compile(r"\d{1,3}(?:[,_']\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_WORD: Final = re.compile(r"[^\W\d_]+")


class UnusedReports:
    """Reports whose parent asked for values that stand in no later reply of its model."""

    kinds: ClassVar = frozenset({"Begin", "Delegate", "DelegationEnded", "ModelReplied"})

    def __init__(self) -> None:
        self._prompts: dict[str, str] = {}
        self._asked: dict[tuple[str, int, int], str] = {}
        self._open: dict[str, list[tuple[Event, frozenset[str]]]] = {}
        self._reports: Counter[str] = Counter()
        self._wanted: Counter[str] = Counter()

    def take(self, event: Event) -> None:
        """Take in a delegation, its report, or a reply that may use one."""
        body, parent = event.body, event.recipient
        if type(body) is ModelReplied:
            if self._open.get(parent) and body.content != NULL:
                self._use(parent, plain_text(bytes(body.content).decode()))
        elif isinstance(body, Begin):
            self._prompts[parent] = bytes(body.prompt).decode().casefold()
        elif isinstance(body, Delegate):
            self._asked[event.sender, body.turn, body.call] = bytes(body.prompt).decode().casefold()
        elif isinstance(body, DelegationEnded):
            asked = self._asked.pop((parent, body.turn, body.call), "")
            value = reported(event)
            is_wanted, told = _told(value, asked + self._prompts.get(parent, ""))
            self._reports[parent] += value is not None
            if is_wanted:
                self._open.setdefault(parent, []).append((event, told))
                self._wanted[parent] += 1

    def _use(self, parent: str, said: str) -> None:
        self._open[parent] = [
            one for one in self._open[parent] if not any(_is_in(text, said) for text in one[1])
        ]

    def findings(self) -> Iterator[Finding]:
        """Yield those that no reply has used, of parents that repeat most of their reports."""
        for parent, left in self._open.items():
            wanted = self._wanted[parent]
            is_most_used = len(left) <= _UNUSED_MAX * wanted and wanted - len(left) >= _USED_MIN
            if self._reports[parent] == 1 or is_most_used:
                yield from (_unused_reports_finding(event) for event, _ in left)


def _is_in(text: str, said: str) -> bool:
    """Return whether a text holds another one; a number as a whole: 17 is not in 117, but a word in words."""
    if not text.isdigit():
        return text in said
    at = said.find(text)
    while at >= 0:
        around = said[max(0, at - 1) : at], said[at + len(text) : at + len(text) + 1]
        if not any(one.isalnum() for one in around):
            return True
        at = said.find(text, at + 1)
    return False


def _unused_reports_finding(event: Event) -> Finding:
    assert isinstance(event.body, DelegationEnded)
    agent = event.body.address
    says = (
        f"no value that {agent} reported appears in any later reply of {event.recipient}, which asked for it"
    )
    return Finding("unused_report", event.seq, agent, says, "tree {session} --reports")


def _told(value: object, asked: str) -> tuple[bool, frozenset[str]]:
    """Return whether a report has a value that was asked for, and all values as a reader may repeat them."""
    texts: set[str] = set()
    is_wanted = False
    for path, leaf in leaves(value, ""):
        text = "" if isinstance(leaf, bool) or leaf is None else plain_text(str(leaf))
        is_number = isinstance(leaf, int | float)
        if (len(text) >= _DIGITS_MIN) if is_number else (len(text) in _TEXT_CHARS):
            texts.add(text)
            name = path.rpartition(".")[2].casefold()
            is_wanted |= any(word[:_NAME_CHARS] in asked for word in _WORD.findall(name) if len(word) > 2)
    return is_wanted, frozenset(texts)


def plain_text(text: str) -> str:
    """Return a text in one case, with numbers as digits but the last zeros: 41,900 and 419.00 are 419."""
    return _NUMBER.sub(lambda found: re.sub(r"[,_'.]", "", found[0]).rstrip("0") or "0", text.casefold())
