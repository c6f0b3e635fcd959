"""The results of `read` tools that may be given again: a fold of the session's log. No I/O.

The port gate keeps it, so that live sessions, recovery, forks and simulation find the same results. A result
that is given again is an answer like any other: it names its origin, and replay reads it from the log.

Rules
  - A result is found by the key of its call, which holds the tool, the arguments and the caller's rights.
  - The keys of the shared state that the tool has read have the same values as of both calls.
  - It is not older than its tool allows, by the clock of the tools port.
  - No tool with an effect has run since its call, not even in part, unless its tool says that this is of no
    matter. A call runs, for all that is known here, from its request to its answer.
  - It is the answer of a tool that ran: no result is the origin of another that is an origin itself. A call
    that failed, asked for input, or changed the session is never given again.
  - It carries the labels of its origin.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.session.shared_state import SharedState

RESULTS_MAX: Final = 256
"""Results that a session keeps. The oldest one goes first."""

BYTES_MAX: Final = 8_000_000
"""Bytes of output that the kept results of a session have together."""


class CachedResult(msgspec.Struct, frozen=True):
    """A result that may be given again.

    call, seq, at: of its call's event, and of its own. read: the values of the shared state that the tool has
    read, by key.
    """

    call: int
    seq: int
    at: int
    body: ToolReturned
    read: Mapping[str, bytes]


class CachedResults:
    """The results of one session, after the events so far.

    running: the seqs of the calls without an answer of tools with an effect, at the first call of a tool
    whose results may be given again.
    """

    def __init__(self, running: Iterable[int] = ()) -> None:
        self._kept: dict[str, CachedResult] = {}
        self._bytes = 0
        self._running = set(running)
        self._effect_at = 0  # the last event of such a call

    def on_call(self, event: Event) -> None:
        """Take in the call of a tool with an effect."""
        self._running.add(event.seq)
        self._effect_at = event.seq

    def on_answer(self, event: Event, request: Event, shared: SharedState) -> None:
        """Take in the answer to a call. shared: the shared state as of the call."""
        call, body = request.body, event.body
        assert isinstance(call, CallTool)
        assert isinstance(body, ToolReturned)
        if has_effect(request):
            self._running.discard(request.seq)
            self._effect_at = event.seq
        elif call.cache is not None and _may_repeat(body):
            read = {key: bytes(shared.json_of(key)) for key in body.state_read if key in shared.cells}
            self._keep(call.cache.key, CachedResult(request.seq, event.seq, event.at, body, read))

    def _keep(self, key: str, result: CachedResult) -> None:
        self._drop(key)
        self._kept[key] = result
        self._bytes += len(result.body.output)
        while len(self._kept) > RESULTS_MAX or self._bytes > BYTES_MAX:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= len(old.body.output)

    def find(self, call: CallTool, now_ms: int, shared: SharedState) -> CachedResult | None:
        """Return the result that answers a call, or None.

        now_ms: the time, in milliseconds since 1970 UTC. shared: the shared state as of the call.
        """
        wanted = call.cache
        found = None if wanted is None else self._kept.get(wanted.key)
        if wanted is None or found is None:
            return None
        if wanted.ttl_ms and now_ms - found.at >= wanted.ttl_ms:
            return None
        if not wanted.over_writes and (self._running or self._effect_at > found.call):
            return None
        is_same = all(bytes(shared.json_of(key)) == value for key, value in found.read.items())
        return found if is_same else None


def has_effect(call: Event) -> bool:
    """Return True for the call of a tool that is not a `read` one."""
    return isinstance(call.body, CallTool) and call.body.effect != "read"


def _may_repeat(body: ToolReturned) -> bool:
    changed = body.state_update or body.tools is not None or body.checkpoints
    return body.status == "ok" and not body.cached_from and not changed


def repeated(request: Event, found: CachedResult, session_id: str) -> ToolReturned:
    """Return the answer to a call that gives a result again."""
    call, origin = request.body, found.body
    assert isinstance(call, CallTool)
    return ToolReturned(
        call.turn,
        call.call,
        output=origin.output,
        state_read=origin.state_read,
        labels=origin.labels,
        cached_from=f"{session_id}#{found.seq}",
    )


def origin_of(body: ToolReturned) -> int:
    """Return the seq of the answer that this one repeats; 0 for none."""
    return int(body.cached_from.rpartition("#")[2]) if body.cached_from else 0
