"""Rules of results that are given again, and of telemetry, in other words than the core's.

A call with an effect runs from its request to its answer, for all that a log tells.
"""

from typing import Any, Final

import msgspec

from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.layers import effective
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ToolSpec
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.shared_state import Naive

_FOREVER: Final = 2**63


class _Call(msgspec.Struct, frozen=True):
    """A call of a tool whose results may be given again, with what its result may depend on."""

    event: Event
    body: CallTool
    spec: ToolSpec
    basis: tuple[object, ...]
    state: dict[str, Any]


class CachedAnswers(Invariant):
    """Results that are given again."""

    name = "cached-answers"
    rule = (
        "A result given again has the same call, rights, state and labels, is recent, with no effect since."
    )
    _naive: Naive = msgspec.field(default_factory=Naive)
    _calls: dict[int, _Call] = {}
    _answers: dict[int, tuple[Event, ToolReturned]] = {}
    _effects: dict[int, int] = {}  # the end of each call with an effect, by its seq

    def on_SessionOpened(self, event: Event, opened: SessionOpened) -> None:
        """Record the keys of the shared state."""
        self._naive.declare(opened.state)

    def on_Resumed(self, event: Event, resumed: Resumed) -> None:
        """Record further keys."""
        self._naive.declare(resumed.state)

    def on_CallTool(self, event: Event, call: CallTool) -> None:
        """Record a call."""
        who = event.sender
        if call.effect != "read":
            self._effects[event.seq] = _FOREVER
        spec, life = self.facts.tools.of(who).get(call.tool), self.facts.lives.get(who)
        if spec is None or spec.cache is None or life is None or call.effect != "read":
            return
        form = "program" if life.is_program else life.most("max_tool_output_chars")
        rights = effective(self.facts.rights.of(who))
        instance = who if life.profile.factory else ""
        basis = (spec, msgspec.json.decode(call.arguments), rights, form, instance)
        self._calls[event.seq] = _Call(event, call, spec, basis, self._naive.copy())

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Check a result that is given again."""
        if event.cause in self._effects:
            self._effects[event.cause] = event.seq
        # A fork repeats the answers of its origin, whose numbers are those of another log.
        if body.cached_from and not body.reused and (why := self._why_wrong(event, body)):
            self.broken(event.seq, f"{event.recipient} is given {body.cached_from} again, {why}")
        if event.cause in self._calls:
            self._answers[event.seq] = event, body
        self._naive.hear(event)

    def _why_wrong(self, event: Event, body: ToolReturned) -> str:
        """Return the reason why a result may not be given again to a call; empty if it may."""
        seq = int(body.cached_from.rpartition("#")[2])
        answer, call = self._answers.get(seq), self._calls.get(event.cause)
        origin = self._calls.get(answer[0].cause) if answer else None
        if answer is None or origin is None or call is None:
            return "which is not an answer of a tool whose results may be given again"
        if why := _why_unlike(answer[1], body):
            return why
        if origin.basis != call.basis:
            return "the result of another call, of an agent with other rights, or of another instance"
        if any(origin.state.get(key) != call.state.get(key) for key in answer[1].state_read):
            return "although the state that its tool has read has changed"
        return self._why_late(origin, call, answer[0])

    def _why_late(self, origin: _Call, call: _Call, answer: Event) -> str:
        rules = call.spec.cache
        assert rules is not None  # only such calls are recorded
        if rules.ttl_ms and call.event.at - answer.at >= rules.ttl_ms:
            return "which is too old"
        if rules.over_writes:
            return ""
        is_between = any(end > origin.event.seq for end in self._effects.values())
        return "although a tool with an effect has run since" * is_between


def _why_unlike(origin: ToolReturned, body: ToolReturned) -> str:
    if origin.status != "ok" or any((origin.cached_from, origin.state_update, origin.checkpoints)):
        return "which is not a result of a tool that ran and changed nothing"
    if (body.output, body.status, body.state_update) != (origin.output, "ok", ()):
        return "with another result"
    return "" if body.labels == origin.labels else "without its labels"


class TelemetryOfCalls(Invariant):
    """Telemetry."""

    name = "telemetry"
    rule = "Telemetry names its own call, and says `hit` if and only if a result is given again."
    _calls: dict[int, CallTool] = {}

    def on_CallTool(self, event: Event, call: CallTool) -> None:
        """Record a call."""
        self._calls[event.seq] = call

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Check the telemetry of an answer."""
        told, call = body.telemetry, self._calls.get(event.cause)
        if told is None or body.reused or call is None:  # a fork gives the telemetry of its origin
            return
        seq = told.execution.rpartition("#")[2]
        if (told.tool, seq) != (call.tool, str(event.cause)):
            self.broken(event.seq, f"the telemetry of {call.tool} is of {told.tool}, call {told.execution}")
        if (told.cache == "hit") != bool(body.cached_from):
            self.broken(event.seq, f"the telemetry of {call.tool} says {told.cache!r}")
