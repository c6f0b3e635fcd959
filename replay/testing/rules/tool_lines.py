"""The tools of one reply beyond max_parallel_tools: each answer starts the first call that stands in line.

A reply is followed if all of its calls are of tools that run without a question to a person and without
rights, and none of its results asks for more. A program's line is that of `tool-line`.
"""

from collections.abc import Sequence

import msgspec

from callboard.actors.agent.content import read
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, Stop, TurnRequested
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from callboard.replay.testing.rules.base import Invariant

RESULTS = frozenset({"ok", "error", "cancelled"})
"""The statuses after which a call is over. After any other a person may be asked."""


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
        said = read(body.content) if body.status == "ok" and body.stop_reason == "tool_use" else None
        if said is None:
            return
        specs, most = self.facts.tools.of(who), life.most("max_tool_calls", 1)
        used = [specs.get(use.name) for use in said.uses[:most] if use.unread is None]
        if len(used) < len(said.uses[:most]) or any(one is None or one.approval != "never" for one in used):
            return
        places = life.most("max_parallel_tools", 1)
        self._lines[who] = _Line(body.turn, range(len(used)), [event.seq] * places)

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
