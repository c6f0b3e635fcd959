"""Agents and tools that change while a session runs.

Agents that change while a delegation waits: a resume has given the session other ones.

Tools that change: each change reaches every running agent that it is for, and no other.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from callboard.actors.protocol.addresses import CLIENT, HOST
from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    Delegate,
    DelegationEnded,
    ToolsGiven,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ContextMade, SchemaChecked, ToolReturned
from callboard.actors.protocol.profiles import Profile
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.lives import Call, Life

_Definitions: TypeAlias = tuple[Profile | None, ...]


class ChangedAgents(Invariant):
    """Delegations that wait while the agents of their session change."""

    name = "changed-agents"
    rule = (
        "A delegation that has waited begins only agents that the session still has, or it ends because "
        "they have changed, and then its parent learns which one is missing."
    )
    _named: dict[Call, _Definitions] = {}

    def handled_Delegate(self, event: Event, body: Delegate, outputs: Sequence[Event]) -> None:
        """Record the definitions of the agents that a delegation names."""
        self._named[event.sender, body.turn, body.call] = self._definitions(body)

    def _definitions(self, body: Delegate) -> _Definitions:
        """Return the agents of a delegation without their tools; None for one that is gone."""
        known = [self.facts.profiles.get(name) for name in body.profiles]
        return tuple(one and msgspec.structs.replace(one[0], tools=()) for one in known)

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Check that the session has every agent of the delegation that begins."""
        delegate = self.facts.delegates.get(self.facts.lives[event.recipient].call)
        if event.recipient != HOST and delegate is not None and (gone := self._gone(delegate)):
            self.broken(event.seq, f"{event.recipient} begins, and agent {gone[0]!r} is gone")

    def _gone(self, body: Delegate) -> list[str]:
        known = self.facts.profiles
        return [] if body.implicit != NULL else [name for name in body.profiles if name not in known]

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Check the reason of a delegation that ends before it has begun."""
        is_good = isinstance(body, (ContextMade, SchemaChecked)) and body.status == "ok"
        for output, end in of_kind(outputs, DelegationEnded):
            call = (output.recipient, end.turn, end.call)
            delegate = self.facts.delegates.get(call)
            if delegate is None or end.kind not in ("unavailable", "denied") or call not in self._named:
                continue
            if is_good and self._definitions(delegate) == self._named[call]:
                self.broken(output.seq, f"a good answer ends a call as {end.kind}; no agent has changed")
            gone = self._gone(delegate)
            if end.kind == "unavailable" and gone and is_good and repr(gone[0]) not in end.detail:
                self.broken(output.seq, f"agent {gone[0]!r} is gone, and the end does not name it")


class ToolsPassedOn(Invariant):
    """The changes of tools."""

    name = "tools-passed-on"
    rule = (
        "A change of tools that a tool makes is passed to the supervisor and to each running agent that it "
        "is for, unless the agent that made it has ended."
    )
    _made: dict[str, list[int]] = {}  # by agent: the results of tools that change tools and are not told

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Forget the results of an earlier life."""
        self._made.pop(event.recipient, None)

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Record a result that changes tools."""
        life = self.facts.lives.get(event.recipient)
        # The answer to a call that a program has given up changes nothing.
        if body.tools is not None and body.status == "ok" and life is not None and not life.profile.is_eager:
            self._made.setdefault(event.recipient, []).append(event.seq)

    def on_ToolsChanged(self, event: Event, body: ToolsChanged) -> None:
        """Record that a change is told."""
        if event.cause in (made := self._made.get(event.sender, [])):
            made.remove(event.cause)

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check that an agent which goes on has told the changes that it has read."""
        if left := [seq for seq in self._made.get(event.sender, ()) if seq <= event.cause]:
            self.broken(event.seq, f"{event.sender} does not tell the change of event {left[0]}")

    def handled_ToolsChanged(self, event: Event, body: ToolsChanged, outputs: Sequence[Event]) -> None:
        """Compare the agents that were told with those that run."""
        lives, change = self.facts.lives, body.change
        told = {given.recipient for given, _ in of_kind(outputs, ToolsGiven)}
        maker = lives.get(event.sender)
        counts = event.sender == CLIENT or (maker is not None and not self._has_ended(maker, event))
        wanted = {
            who
            for who, life in lives.items()
            if who == change.address or change.profile == life.profile.name
            if counts and not self.facts.closed_by and not self._has_ended(life, event)
        }
        if told != wanted:
            self.broken(event.seq, f"{sorted(told)} are told of other tools, and not {sorted(wanted)}")
        if any(given.tools != change.tools for _, given in of_kind(outputs, ToolsGiven)):
            self.broken(event.seq, "an agent is told of other tools than were set")

    def _has_ended(self, life: Life, event: Event) -> bool:
        return bool(life.ended_by) and life.ended_by < event.seq
