"""Tools that change: each change reaches every running agent that it is for, and no other."""

from collections.abc import Sequence

from callboard.actors.protocol.addresses import CLIENT
from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, ToolsGiven, TurnRequested
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Life, of_kind


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
