"""A guess about files: an agent wrote one whole that a sibling had written, and had not read that.

The siblings were at work at the same time, so neither was given the work of the other.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.stale_reads import resources
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall

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
            self._found.append(Finding("overwritten", call.seq, call.agent, says, command))
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
