"""Guesses about resources and files.

A guess about resources: an agent read one, another changed it, and the first went on with the old content.

A resource is a text that two calls have among their arguments: under one name, or under two if it looks like
a path or an id, such as `limits.toml`.

A guess about files: an agent wrote one whole that a sibling had written, and had not read that.

The siblings were at work at the same time, so neither was given the work of the other.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.replay.diagnosis.finding import CallCheck, Finding, Returned, ToolCall

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
        readers.pop(call.agent, None)  # it knows what it wrote: `Overwrites` tells of a later write over that
        for agent, read in readers.items():
            self._stale.setdefault(agent, {}).setdefault(resource, _Stale(read, call, seq))

    def _end(self, agent: str) -> None:
        if agent in self._stale:  # it may have read again
            self._look()
        self._ended.add(agent)
        for resource, stale in self._stale.pop(agent, {}).items():
            write = stale.write
            says = (
                f"{agent} read {resource[1]!r:.60} before {write.agent} changed it by {write.tool} "
                f"({write.seq}), and ended without reading it again"
            )
            command = f"events {{session}} --from {stale.seq} --to {stale.written}"
            self._found.append(Finding("stale_read", stale.seq, agent, says, command, _key(agent, resource)))
        for resource in self._resources.pop(agent, ()):
            self._read[resource].pop(agent, None)

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _key(agent: str, resource: _Resource) -> tuple[str]:
    """Name what an agent had read, so that a read is told with the write over it."""
    return (f"{agent} {resource[0]} {resource[1]}",)


def resources(arguments: bytes) -> tuple[_Resource, ...]:
    """Return the texts among a call's arguments that may name a thing, with the names of their fields."""
    value = msgspec.json.decode(arguments)
    if not isinstance(value, dict):
        return ()
    texts = ((name, one) for name, one in value.items() if isinstance(one, str) and len(one) in _CHARS)
    return tuple(("" if _PATH.fullmatch(one) else name, one) for name, one in texts if "\n" not in one)


_CONTENT: Final = re.compile(r"(?i)(?:file_?)?(?:content|contents|text|data|body|value|html|source)$")
_EDIT: Final = re.compile(r"(?i)old|search|replace|patch|diff|insert|line|append|mode")


class _Write(NamedTuple):
    call: ToolCall
    content: object


class Overwrites(CallCheck):
    """Writes of a whole file or key that another child of the same parent had written meanwhile."""

    kinds: ClassVar = frozenset({"Begin", "DelegationEnded"})

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._last: dict[tuple[str, str], _Write] = {}
        self._has_read: dict[tuple[str, str], set[str]] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in the start or the end of an agent."""
        body = event.body
        if isinstance(body, Begin):
            self._begun[event.recipient] = event.seq
        elif isinstance(body, DelegationEnded) and body.address:
            self._ended[body.address] = event.seq

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call."""
        if result.status != "ok" or (call.effect == "read" and not self._last):
            return
        content = _content(call.arguments) if call.effect != "read" else None
        for resource in resources(call.arguments):
            if call.effect == "read":
                if resource in self._last:
                    self._has_read[resource].add(call.agent)
            elif content is not None:
                self._write(call, resource, content, result.seq)

    def _write(self, call: ToolCall, resource: tuple[str, str], content: object, seq: int) -> None:
        before = self._last.get(resource)
        if before is not None and before.content != content and self._is_blind(before.call, call, resource):
            says = (
                f"{call.agent} wrote {resource[1]!r:.60} by {call.tool}, over what {before.call.agent} had "
                f"written ({before.call.seq}), without reading it"
            )
            command = f"events {{session}} --from {before.call.seq} --to {seq}"
            self._found.append(
                Finding("overwritten", call.seq, call.agent, says, command, _key(call.agent, resource))
            )
        self._last[resource] = _Write(call, content)
        self._has_read[resource] = set()

    def _is_blind(self, before: ToolCall, call: ToolCall, resource: tuple[str, str]) -> bool:
        one, other = before.agent, call.agent
        if one == other or HOST in (one, other) or parent_of(one) != parent_of(other):
            return False
        is_beside = self._ended.get(one, call.seq) > self._begun.get(other, 0)
        return is_beside and other not in self._has_read[resource]

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _content(arguments: bytes) -> object:
    """Return the whole content that a call writes; None for a call that edits, or writes none."""
    value = msgspec.json.decode(arguments)
    if not isinstance(value, dict) or any(_EDIT.search(name) for name in value):
        return None
    return next((one for name, one in value.items() if _CONTENT.fullmatch(name)), None)
