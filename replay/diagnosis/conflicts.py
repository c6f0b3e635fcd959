"""A guess about reports: siblings told their parent different values, and it passed one on without a word.

Reports are compared if both tasks ran at the same time and were about the same thing: the prompts are equal,
or name the same ids and numbers, or both reports repeat a value that both prompts name. They are about two
things if a field of theirs repeats what only one of the prompts names.

The parent may know why it prefers one value. So nothing is said if most of the reports agree, if it looked
again, or if its answer has both values or tells that there was a choice.
"""

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import CallTool, ModelReplied
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.words import A_CHOICE
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

_RUN: Final = re.compile(r"\d(?:[.,'\u2019_\u00a0\u202f ]?\d)*")
_ID: Final = re.compile(r"[\w-]*\d[\w-]*")
_CHARS: Final = 40  # a longer text is told in other words
_WORDS: Final = 4
_GROUPS_MAX: Final = 20  # with one thing in common that are compared with a further report
_VALUES_MAX: Final = 200  # of a report that are compared
_OWN: Final = re.compile(
    r"(?i)(?:source|note|comment|reason|evidence|confidence|score|path|file|url|link|author|method|model"
    r"|duration|elapsed|seconds|time|latency|timestamp|_at|_ms|_s)s?$"
)
"""Names of fields that say how an agent came to the others, in which agents differ by right."""


class _Report(NamedTuple):
    event: Event
    agent: str
    begun: int
    prompt: str
    values: Mapping[str, object]
    ids: frozenset[str]


class Conflicts:
    """Values of one field in which siblings differ, one of which the parent passed on."""

    kinds: ClassVar = frozenset({"Delegate", "DelegationEnded", "CallTool", "ModelReplied", "AskEnded"})

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int, int], tuple[int, str]] = {}
        self._groups: dict[str, dict[object, deque[list[_Report]]]] = {}
        self._said: dict[str, list[str]] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a task, its end, or what a parent does with the reports."""
        body = event.body
        if type(body) is ModelReplied:
            if event.recipient in self._said:
                self._said[event.recipient].append(bytes(body.content).decode())
        elif type(body) is CallTool:
            self._call(event.sender, body)
        elif isinstance(body, Delegate):
            self._forget(event.sender)
            prompt = bytes(body.prompt).decode().casefold()
            self._asked[event.sender, body.turn, body.call] = event.seq, prompt
        elif isinstance(body, DelegationEnded):
            self._judge(body.address, body)
            begun, prompt = self._asked.pop((event.recipient, body.turn, body.call), (0, ""))
            if begun and (value := reported(event)) is not None:
                self._add(event, _Report(event, body.address, begun, prompt, _values(value), _ids(prompt)))
        elif isinstance(body, AskEnded):
            self._judge(HOST, body)

    def _add(self, event: Event, report: _Report) -> None:
        """Add a report to those about the same thing. An index finds the groups to compare."""
        parent = event.recipient
        groups = self._groups.setdefault(parent, {})
        keys = _keys(report)
        near = {id(group): group for key in keys for group in groups.get(key, ())}
        for group in near.values():
            first = group[0]
            if report.begun < first.event.seq and _is_same_thing(first, report):
                group.append(report)
                if any(first.values.get(path, one) != one for path, one in report.values.items()):
                    self._said.setdefault(parent, [])
                return
        group = [report]
        for key in keys:
            groups.setdefault(key, deque(maxlen=_GROUPS_MAX)).append(group)

    def _call(self, agent: str, call: CallTool) -> None:
        if agent not in self._said:
            return
        if call.effect == "read":  # it looks for itself
            self._forget(agent)
        else:
            self._said[agent].append(bytes(call.arguments).decode())

    def _forget(self, parent: str) -> None:
        """Drop what a parent has read so far: it asks again."""
        if self._said.pop(parent, None) is not None:
            del self._groups[parent]

    def _judge(self, parent: str, end: DelegationEnded | AskEnded) -> None:
        groups, said = self._groups.pop(parent, {}), self._said.pop(parent, None)
        if said is None:
            return
        said += end.text, bytes(end.value).decode()
        text = "\n".join(said).casefold()
        if A_CHOICE.search(text):
            return
        figures = figures_of(text)
        for group in {id(one): one for near in groups.values() for one in near}.values():
            self._found += [one for one in [_conflict(parent, group, text, figures)] if one is not None]

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each group of reports."""
        yield from self._found


def _values(value: object) -> dict[str, object]:
    """Return the values of a report that can be compared, by their paths."""
    found: dict[str, object] = {}
    for path, leaf in leaves(value, ""):
        if len(found) < _VALUES_MAX and not isinstance(leaf, bool | None) and not _OWN.search(path):
            found[path.removeprefix(".")] = leaf
    return found


def _ids(prompt: str) -> frozenset[str]:
    return frozenset(_ID.findall(prompt))


def _keys(report: _Report) -> list[object]:
    """Return what two reports about the same thing have in common: at least one of these."""
    named = [(path, value) for path, value in report.values.items() if _is_named(value, report.prompt)]
    return [report.prompt, report.ids, *named] if report.ids else [report.prompt, *named]


def _is_same_thing(one: _Report, other: _Report) -> bool:
    if one.prompt == other.prompt:
        return True
    is_shared = False
    for path, value in one.values.items():
        if path in other.values:
            theirs = other.values[path]
            is_named = _is_named(value, one.prompt) and _is_named(theirs, other.prompt)
            if is_named and value != theirs:
                return False
            is_shared |= is_named
    return is_shared or (bool(one.ids) and one.ids == other.ids)


def _is_named(value: object, prompt: str) -> bool:
    """Return whether a prompt names a value, as a whole word."""
    text = str(value).casefold()
    at = prompt.find(text) if text else -1
    around = prompt[max(0, at - 1) : at], prompt[at + len(text) : at + len(text) + 1]
    return at >= 0 and not any(one.isalnum() for one in around)


def _conflict(parent: str, group: list[_Report], said: str, figures: frozenset[str]) -> Finding | None:
    """Return the finding about the first field of some reports in which they differ."""
    for path in dict.fromkeys(path for report in group for path in report.values):
        column = [(report, report.values[path]) for report in group if path in report.values]
        counts = Counter(_key(value) for _, value in column)
        (_, most), *others = counts.most_common()
        if not others or most > others[0][1] or any(not _can_be_found(value) for _, value in column):
            continue
        used = {key for key in counts if (key in figures if key.isdigit() else key in said)}
        if len(used) == 1:
            (report, value), *_ = (one for one in column if _key(one[1]) in used)
            other, left = next(one for one in column if _key(one[1]) not in used)
            says = (
                f"{other.agent} reported {path} = {left!r:.60} and {report.agent} {value!r:.60}; {parent} "
                "passed on the second one, and did not mention that they differ"
            )
            return Finding("conflict", other.event.seq, other.agent, says, "tree {session} --reports")
    return None


def _can_be_found(value: object) -> bool:
    """Return whether a value stands in an answer as it was reported."""
    return not isinstance(value, str) or (0 < len(value) <= _CHARS and len(value.split()) <= _WORDS)


def _key(value: object) -> str:
    """Return a value as `figures_of` returns it, if it is a number in any spelling; else its text."""
    text = str(value).casefold().strip()
    runs = _RUN.findall(text)
    is_number = len(runs) == 1 and (not isinstance(value, str) or len(text) - len(runs[0]) <= _WORDS)
    return _digits(runs[0]) if is_number else text


def figures_of(text: str) -> frozenset[str]:
    """Return the numbers of a text by their digits, without signs between them and outer zeros.

    So a number is found in the spelling of any language: 4190 in 4,190, 4.190,00 and 4 190.
    """
    runs = _RUN.findall(text)
    return frozenset(map(_digits, [*runs, *(part for run in runs for part in run.split())]))


def _digits(written: str) -> str:
    return "".join(str(int(one)) for one in written if one.isdigit()).strip("0") or "0"
