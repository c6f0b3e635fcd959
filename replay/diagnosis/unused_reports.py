"""A guess about reports: one whose values the parent never used."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

_UNUSED_MAX: Final = 1 / 3  # of a parent's reports may be unused without being a sign of its way to work
_VALUE_CHARS: Final = range(3, 200)  # shorter values stand in any text, longer ones are told in other words
_NUMBER: Final = re.compile(r"\d[\d,. ]*\d|\d")


class UnusedReports:
    """Reports none of whose values stands in any later reply of the parent's model."""

    kinds: ClassVar = frozenset({"DelegationEnded", "ModelReplied"})

    def __init__(self) -> None:
        self._open: dict[str, list[tuple[Event, frozenset[str]]]] = {}
        self._reports: Counter[str] = Counter()

    def take(self, event: Event) -> None:
        """Take in a report, or a reply that may use one."""
        parent = event.recipient
        if isinstance(event.body, ModelReplied):
            if parent in self._open and event.body.content != NULL:
                self._use(parent, plain_text(bytes(event.body.content).decode()))
        elif values := _told(reported(event)):
            self._open.setdefault(parent, []).append((event, values))
            self._reports[parent] += 1

    def _use(self, parent: str, said: str) -> None:
        self._open[parent] = [one for one in self._open[parent] if not any(map(said.__contains__, one[1]))]

    def findings(self) -> Iterator[Finding]:
        """Yield those that no reply has used, of parents that repeat most of their reports."""
        for parent, left in self._open.items():
            # A parent that repeats no report out of many may have summed them up.
            if self._reports[parent] == 1 or len(left) <= _UNUSED_MAX * self._reports[parent]:
                yield from (_finding(event) for event, _ in left)


def _finding(event: Event) -> Finding:
    assert isinstance(event.body, DelegationEnded)
    agent = event.body.address
    says = f"no value that {agent} reported stands in any later reply of {event.recipient}"
    return Finding("unused_report", event.seq, agent, says, "tree {session} --reports")


def _told(value: object) -> frozenset[str]:
    """Return the values of a report that a reader of it would repeat."""
    found = (leaf for _, leaf in leaves(value, "") if isinstance(leaf, str | int | float))
    texts = {plain_text(str(leaf)) for leaf in found if not isinstance(leaf, bool)}
    return frozenset(text for text in texts if len(text) in _VALUE_CHARS)


def plain_text(text: str) -> str:
    """Return a text in one case, with numbers as plain digits, so that 41,900 and 41900 are equal."""
    return _NUMBER.sub(lambda found: re.sub(r"[, ]", "", found[0]), text.casefold())
