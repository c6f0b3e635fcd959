"""A guess about reports: one whose values the parent never used, although it could have.

Only values that were asked for count: the name of their field stands in the prompt of the delegation, or in
that of the parent.
A value is used if a later reply of the parent holds it, in any spelling: 41900 as 41,900 or 419.00. A parent
that repeats few of its reports may have summed them up, and is left alone.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

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
                yield from (_finding(event) for event, _ in left)


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


def _finding(event: Event) -> Finding:
    assert isinstance(event.body, DelegationEnded)
    agent = event.body.address
    says = (
        f"no value that {agent} reported stands in any later reply of {event.recipient}, which asked for it"
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
