"""A guess about resources: an agent read one, another changed it, and the first went on with what it had.

A resource is a text that two calls have among their arguments: under one name, or under two if it looks like
a path or an id, such as `limits.toml`.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.replay.diagnosis.finding import Finding

_CHARS: Final = range(3, 300)
_PATH: Final = re.compile(r"[^\s./\d]*[./\d]\S*")
_Resource = tuple[str, str]


class _Call(NamedTuple):
    agent: str
    tool: str
    seq: int
    is_read: bool
    resources: tuple[_Resource, ...]


class _Stale(NamedTuple):
    """A read that was overtaken: the seq of the read, and the write."""

    seq: int
    write: _Call


class StaleReads:
    """Reads of an agent before a write of another one, if the reader ended after it without another read."""

    kinds: ClassVar = frozenset({"CallTool", "ToolReturned", "DelegationEnded"})

    def __init__(self) -> None:
        self._open: dict[int, _Call] = {}
        self._read: dict[_Resource, dict[str, int]] = {}
        self._resources: dict[str, set[_Resource]] = {}
        self._stale: dict[str, dict[_Resource, _Stale]] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a call, its result, or the end of an agent."""
        body = event.body
        if isinstance(body, CallTool):
            is_read = body.effect == "read"
            resources = _resources(body.arguments)
            self._open[event.seq] = _Call(event.sender, body.tool, event.seq, is_read, resources)
        elif isinstance(body, ToolReturned):
            call = self._open.pop(event.cause, None)
            if call is not None and body.status == "ok":
                for resource in call.resources:
                    self._touch(call, resource, event.seq)
        elif isinstance(body, DelegationEnded) and body.address:
            self._end(body.address)

    def _touch(self, call: _Call, resource: _Resource, seq: int) -> None:
        readers = self._read.setdefault(resource, {})
        if call.is_read:
            readers[call.agent] = seq
            self._resources.setdefault(call.agent, set()).add(resource)
            self._stale.get(call.agent, {}).pop(resource, None)
            return
        for agent, read in readers.items():
            if agent != call.agent:
                self._stale.setdefault(agent, {}).setdefault(resource, _Stale(read, call))

    def _end(self, agent: str) -> None:
        for (_, value), stale in self._stale.pop(agent, {}).items():
            write = stale.write
            says = (
                f"{agent} read {value!r:.60} before {write.agent} changed it by {write.tool} ({write.seq}), "
                "and ended without reading it again"
            )
            command = f"events {{session}} --from {stale.seq} --to {write.seq}"
            self._found.append(Finding("stale_read", stale.seq, agent, says, command))
        for resource in self._resources.pop(agent, ()):
            del self._read[resource][agent]

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _resources(arguments: Json) -> tuple[_Resource, ...]:
    value = msgspec.json.decode(arguments)
    if not isinstance(value, dict):
        return ()
    texts = ((name, one) for name, one in value.items() if isinstance(one, str) and len(one) in _CHARS)
    return tuple(("" if _PATH.fullmatch(one) else name, one) for name, one in texts if "\n" not in one)
