"""Agents that change while a delegation waits: a resume has given the session other ones."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import AnyMessage, Begin, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ContextMade, SchemaChecked
from callboard.actors.protocol.profiles import Profile
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Call, of_kind

_Definitions: TypeAlias = tuple[Profile | None, ...]


class ChangedAgents(Invariant):
    """Delegations that wait while the agents of their session change."""

    name = "changed-agents"
    rule = (
        "A delegation that has waited begins agents that the session has, or it ends because they have "
        "changed, and its parent learns which one is missing."
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
