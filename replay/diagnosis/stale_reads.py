"""A guess about resources: an agent read one, another changed it, and the first went on with the old content.

A resource is a text that two calls have among their arguments: under one name, or under two if it looks like
a path or an id, such as `limits.toml`.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall

_CHARS: Final = range(3, 300)
_PATH: Final = re.compile(r"[^\s./\d]*[./\d]\S*")
_Resource = tuple[str, str]


class _Stale(NamedTuple):
    """A read that was overtaken: the seq of its call, the write, and the seq of the write's result."""

    seq: int
    write: ToolCall
    written: int


class StaleReads(CallCheck):
    """Reads of an agent before a write of another one, if the reader ended after it without another read."""

    kinds: ClassVar = frozenset({"DelegationEnded"})

    def __init__(self) -> None:
        # Reads are looked at once a call with an effect follows: in many sessions, none does.
        self._new: list[tuple[ToolCall, int]] = []
        self._read: dict[_Resource, dict[str, int]] = {}
        self._resources: dict[str, set[_Resource]] = {}
        self._stale: dict[str, dict[_Resource, _Stale]] = {}
        self._ended: set[str] = set()
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in the end of an agent."""
        if isinstance(event.body, DelegationEnded) and event.body.address:
            self._end(event.body.address)

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        if result.status != "ok":
            return
        self._new.append((call, result.seq))
        if call.effect != "read":
            self._look()

    def _look(self) -> None:
        new, self._new = self._new, []
        for call, seq in new:
            if call.agent not in self._ended:
                for resource in resources(call.arguments):
                    self._touch(call, resource, seq)

    def _touch(self, call: ToolCall, resource: _Resource, seq: int) -> None:
        readers = self._read.setdefault(resource, {})
        if call.effect == "read":
            readers[call.agent] = call.seq
            self._resources.setdefault(call.agent, set()).add(resource)
            self._stale.get(call.agent, {}).pop(resource, None)
            return
        for agent, read in readers.items():
            if agent != call.agent:
                self._stale.setdefault(agent, {}).setdefault(resource, _Stale(read, call, seq))

    def _end(self, agent: str) -> None:
        if agent in self._stale:  # it may have read again
            self._look()
        self._ended.add(agent)
        for (_, value), stale in self._stale.pop(agent, {}).items():
            write = stale.write
            says = (
                f"{agent} read {value!r:.60} before {write.agent} changed it by {write.tool} ({write.seq}), "
                "and ended without reading it again"
            )
            command = f"events {{session}} --from {stale.seq} --to {stale.written}"
            self._found.append(Finding("stale_read", stale.seq, agent, says, command))
        for resource in self._resources.pop(agent, ()):
            del self._read[resource][agent]

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def resources(arguments: bytes) -> tuple[_Resource, ...]:
    """Return the texts among a call's arguments that may name a thing, with the names of their fields."""
    value = msgspec.json.decode(arguments)
    if not isinstance(value, dict):
        return ()
    texts = ((name, one) for name, one in value.items() if isinstance(one, str) and len(one) in _CHARS)
    return tuple(("" if _PATH.fullmatch(one) else name, one) for name, one in texts if "\n" not in one)
