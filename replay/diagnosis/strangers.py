"""A guess about ids: an agent works with one that was given to a sibling, and not to it.

The tasks of one reply are siblings. An id is a word with digits, of four characters or more, in the prompt of
a task. It is a stranger's if one sibling's prompt has it, and nothing that the agent read does: neither its
prompt nor a result. A report is wrong, too, if it read the id somewhere but names none of those of its own.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.replay.diagnosis.finding import CallCheck, Finding, Returned, ToolCall

_TOKEN: Final = re.compile(rb"(?<![\w.])(?=[A-Za-z_-]*+\d)[A-Za-z0-9][A-Za-z0-9_-]{3,63}+")
_ESCAPES: Final = re.compile(rb"\\[nrtbf]")
_YEAR: Final = re.compile(r"(?:19|20)\d\d(?:-(?:0\d|1[0-2])(?:-[0-3]\d)?|(?:0\d|1[0-2])[0-3]\d)?")
_TOKENS_MAX: Final = 10_000  # of one agent, by which memory is bounded


def _ids(text: bytes) -> set[str]:
    found = {one.decode().casefold() for one in _TOKEN.findall(_ESCAPES.sub(b" ", text))}
    return {one for one in found if not _YEAR.fullmatch(one)}


class SiblingIds(CallCheck):
    """Calls and reports with an id of a sibling."""

    kinds: ClassVar = frozenset({"Delegate", "Begin", "Tell", "DelegationEnded"})

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, int], dict[int, set[str]]] = {}
        self._of: dict[str, tuple[str, int, int]] = {}
        self._seen: dict[str, set[str]] = {}
        self._waiting: dict[tuple[str, bytes], tuple[str, int, int]] = {}
        self._found: dict[str, Finding] = {}

    def take(self, event: Event) -> None:
        """Take in a task, the start of its agent, words to it, or its end."""
        body = event.body
        if isinstance(body, Delegate):
            place = event.sender, body.turn
            self._tasks.setdefault(place, {})[body.call] = _ids(bytes(body.prompt))
            # Of two equal prompts the later one is kept: no id is in one of them alone.
            self._waiting[event.sender, bytes(body.prompt)] = event.sender, body.turn, body.call
        elif isinstance(body, Begin):
            self._begin(event.recipient, body)
        elif isinstance(body, Tell):
            self._see(body.address, body.text.encode())
        elif isinstance(body, DelegationEnded):
            self._report(event, body)
            self._see(event.recipient, bytes(body.value) + body.text.encode())

    def _begin(self, agent: str, begin: Begin) -> None:
        place = self._waiting.pop((parent_of(agent), bytes(begin.prompt)), None)
        tasks = self._tasks.get(place[:2], {}) if place is not None else {}
        if place is not None and len(tasks) > 1 and tasks[place[2]]:
            self._of[agent] = place
            parts = begin.prompt, begin.context, *begin.history
            self._seen[agent] = set().union(*(_ids(bytes(one)) for one in parts))

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in a call and its result."""
        if call.agent in self._of:
            for one in sorted(_ids(call.arguments) - self._seen[call.agent]):
                self._note(call.seq, call.agent, one, f"called {call.tool} with {one}")
            self._see(call.agent, result.output)

    def _see(self, agent: str, text: bytes) -> None:
        if agent in self._seen and len(self._seen[agent]) < _TOKENS_MAX:
            self._seen[agent] |= _ids(text)

    def _report(self, event: Event, end: DelegationEnded) -> None:
        agent = end.address
        if (place := self._of.get(agent)) is not None:
            said, own = _ids(bytes(end.value) + b"\n" + end.text.encode()), self._tasks[place[:2]][place[2]]
            for one in sorted(said - own if said.isdisjoint(own) else said - self._seen[agent]):
                self._note(event.seq, agent, one, f"reported about {one}")
            del self._of[agent], self._seen[agent]

    def _note(self, seq: int, agent: str, one: str, said: str) -> None:
        parent, turn, call = self._of[agent]
        tasks = self._tasks[parent, turn]
        others = [number for number, ids in tasks.items() if one in ids and number != call]
        if len(others) == 1 and one not in tasks[call]:
            own = ", ".join(sorted(tasks[call]))
            says = f"{agent} {said}, which is in the task of a sibling; its own has {own:.80}"
            command = f"search {{session}} {one}"
            self._found.setdefault(agent, Finding("sibling_id", seq, agent, says, command))

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent."""
        yield from self._found.values()
