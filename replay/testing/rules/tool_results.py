"""Results of tools, and the state that they update.

Results of tools: given again, measured, and in the order of the line of one reply.

Shared state: every update fits its declaration, and the state is what the log folds to.

`Naive` folds a log in other words than the port gate: plain Python values, without persistent structures.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from callboard.actors.agent.content import read
from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.layers import effective
from callboard.actors.protocol.messages import Begin, Stop, TurnRequested
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.replay.testing.rules.base import Invariant

FOLD: Final = "On every run, a tool is given the shared state to which the log folds at its call."


class Naive:
    """The shared state as plain values. values: by key."""

    def __init__(self) -> None:
        self.keys: dict[str, StateKey] = {}
        self.values: JsonObject = {}

    def declare(self, keys: Iterable[StateKey]) -> None:
        """Take the keys that are not known yet."""
        for key in keys:
            if key.name not in self.keys:
                self.keys[key.name] = key
                self.values[key.name] = msgspec.json.decode(key.first)

    def why_unfit(self, update: StateUpdate) -> str:
        """Return how an update does not fit its key, or an empty text."""
        key, value = self.keys.get(update.key), msgspec.json.decode(update.value)
        if key is None:
            return f"updates {update.key!r}, which is not declared"
        if key.reducer == "add":
            return "" if type(value) is int else f"adds {value!r:.40} to {update.key!r}"
        first = msgspec.json.decode(key.first)
        if key.reducer == "append" or _is_alike(first, value):
            return ""
        return f"puts {value!r:.40} into {update.key!r}, which holds values like {first!r:.40}"

    def take(self, body: ToolReturned) -> None:
        """Apply the updates of a call that returned ok."""
        for update in body.state_update:
            value, reducer = msgspec.json.decode(update.value), self.keys[update.key].reducer
            if reducer == "append":
                self.values[update.key] = [*self.values[update.key], value]
            else:
                self.values[update.key] = value + self.values[update.key] if reducer == "add" else value

    def hear(self, event: Event) -> None:
        """Take in the next event of the log."""
        body = event.body
        if isinstance(body, SessionOpened | Resumed):
            self.declare(body.state)
        elif isinstance(body, ToolReturned) and body.status == "ok":
            self.take(body)

    def copy(self) -> JsonObject:
        """Return the values as they are now."""
        return dict(self.values)


def _is_alike(first: object, value: object) -> bool:
    """Return whether a key that began with the first value may hold the other."""
    return first is None or _kind(first) == _kind(value)


def _kind(value: object) -> type:
    return float if type(value) is int else type(value)


class StateUpdates(Invariant):
    """The updates of the shared state."""

    name = "state-updates"
    rule = "Every update of the shared state names a declared key and has a value of its type."
    _naive: Naive = msgspec.field(default_factory=Naive)

    def on_SessionOpened(self, event: Event, opened: SessionOpened) -> None:
        """Record the keys."""
        self._naive.declare(opened.state)

    def on_Resumed(self, event: Event, resumed: Resumed) -> None:
        """Record further keys."""
        self._naive.declare(resumed.state)

    def on_ToolReturned(self, event: Event, returned: ToolReturned) -> None:
        """Check the updates and the keys that were read."""
        for update in returned.state_update:
            if why := self._naive.why_unfit(update):
                self.broken(event.seq, f"a tool of {event.recipient} {why}")
        if returned.state_update and returned.status != "ok":
            self.broken(event.seq, f"a call that is {returned.status} updates the shared state")
        for key in returned.state_read:
            if key not in self._naive.keys:
                self.broken(event.seq, f"a tool of {event.recipient} has read {key!r}, which is not declared")


def states_at(events: Iterable[Event], wanted: Iterable[int]) -> dict[int, JsonObject]:
    """Return the shared state before each of these events, by its seq."""
    naive, found, seqs = Naive(), {}, set(wanted)
    for event in events:
        if event.seq in seqs:
            found[event.seq] = naive.copy()
        naive.hear(event)
    return found


_FOREVER: Final = 2**63
RESULTS = frozenset({"ok", "error", "cancelled"})
"""The statuses after which a call is over. After any other a person may be asked."""


class _Call(msgspec.Struct, frozen=True):
    """A call of a tool whose results may be given again, with what its result may depend on."""

    event: Event
    body: CallTool
    spec: ToolSpec
    basis: tuple[object, ...]
    state: JsonObject


class CachedAnswers(Invariant):
    """Results that are given again."""

    name = "cached-answers"
    rule = (
        "A result is given again only for the same call, rights, state and labels, while it is recent and no "
        "effect has come since."
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


class _Line(msgspec.Struct, eq=False):
    """The calls of a reply. started: how many of them. causes: the events that may start one each."""

    turn: int
    calls: Sequence[int]
    causes: list[int]
    started: int = 0


class LinesOfTools(Invariant):
    """Calls of tools that stand in line."""

    name = "line-of-tools"
    rule = (
        "The tools of a reply start in call order: as many as may run at a time with the reply, and one more "
        "with each result."
    )
    _lines: dict[str, _Line] = {}

    def on_Begin(self, event: Event, body: Begin | Stop) -> None:
        """Forget the calls of an earlier life, or of an agent that starts no more."""
        self._lines.pop(event.recipient, None)

    on_Stop = on_Begin

    def on_ModelReplied(self, event: Event, body: ModelReplied) -> None:
        """Follow the calls of a reply."""
        who, life = event.recipient, self.facts.lives.get(event.recipient)
        self._lines.pop(who, None)
        if life is None or life.profile.is_eager or life.begin.permissions:
            return
        if self.facts.is_summary(event, body):
            return
        said = read(body.content) if body.status == "ok" and body.stop_reason == "tool_use" else None
        if said is None:
            return
        specs, most = self.facts.tools.of(who), life.most("max_tool_calls", 1)
        used = [specs.get(use.name) for use in said.uses[:most] if use.unread is None]
        if len(used) < len(said.uses[:most]) or any(one is None or one.approval != "never" for one in used):
            return
        places = life.most("max_parallel_tools", 1)
        free = min(places, len(used))  # a session without a limit has more places than memory
        self._lines[who] = _Line(body.turn, range(len(used)), [event.seq] * free)

    def on_CallTool(self, event: Event, body: CallTool) -> None:
        """Compare a start with the first call in line and the event that may start it."""
        line = self._lines.get(event.sender)
        if line is None or body.turn != line.turn:
            return
        place, line.started = line.started, line.started + 1
        if line.calls[place : place + 1] != range(body.call, body.call + 1):
            self.broken(event.seq, f"{event.sender} starts call {body.call} as number {place + 1}")
        elif place >= len(line.causes) or line.causes[place] != event.cause:
            self.broken(event.seq, f"{event.sender} starts call {body.call}, and no place is free for it")

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Free a place for the next call."""
        line = self._lines.get(event.recipient)
        if line is None or body.turn != line.turn:
            return
        if body.status not in RESULTS:
            del self._lines[event.recipient]
        else:
            line.causes.append(event.seq)

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check that all calls have started before their agent goes on."""
        line = self._lines.pop(event.sender, None)
        if line is not None and line.started < len(line.calls):
            self.broken(event.seq, f"{event.sender} goes on, and call {line.started} has not started")
