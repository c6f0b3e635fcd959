"""Tools that change: each change reaches every running agent that it is for, and no other."""

from collections.abc import Sequence

from callboard.actors.protocol.addresses import CLIENT
from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import ToolsGiven
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Life, of_kind


class ToolsPassedOn(Invariant):
    """The changes of tools."""

    name = "tools-passed-on"
    rule = "A change of tools goes to each running agent that it is for, unless its maker has ended."

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
