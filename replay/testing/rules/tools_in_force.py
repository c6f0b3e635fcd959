"""The tools that each agent has: those that were set last before its latest new request was formed."""

from collections.abc import Sequence

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, ToolsGiven, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import Profile, ToolSpec
from callboard.replay.testing.rules.read_profiles import profile_of


class ToolsInForce:
    """The tools of all agents after the events heard so far."""

    def __init__(self) -> None:
        self._profiles: dict[str, Profile] = {}
        self._changes: dict[str, list[tuple[int, Sequence[ToolSpec]]]] = {}
        self._pauses: set[tuple[str, int]] = set()

    def of(self, who: str) -> dict[str, ToolSpec]:
        """Return the tools of an agent as of its latest new request, by name."""
        profile = self._profiles.get(who)
        return {spec.name: spec for spec in profile.tools} if profile else {}

    def profile(self, who: str) -> Profile | None:
        """Return the profile of an agent, with those tools."""
        return self._profiles.get(who)

    def hear(self, event: Event) -> None:
        """Take in the next event of the log."""
        body, who = event.body, event.recipient
        if isinstance(body, Begin):
            self._profiles[who] = profile_of(bytes(body.profile))
            self._changes.pop(who, None)
        elif isinstance(body, ToolsGiven):
            self._changes.setdefault(who, []).append((event.seq, body.tools))
        elif isinstance(body, ToolReturned):
            self._take_own(event, body)
        elif isinstance(body, ModelReplied) and body.stop_reason == "pause_turn":
            self._pauses.add((who, event.seq))
        elif isinstance(body, TurnRequested) and body.attempt == 1:
            self._form(event.sender, event.cause)

    def _take_own(self, event: Event, returned: ToolReturned) -> None:
        """Take the tools that a tool has set for its own agent."""
        change, who = returned.tools, event.recipient
        profile = self._profiles.get(who)
        if change is None or profile is None or returned.status != "ok":
            return
        if change.address == who or change.profile == profile.name:
            self._changes.setdefault(who, []).append((event.seq, change.tools))

    def _form(self, who: str, cause: int) -> None:
        """Apply the changes that an agent had heard when it formed a new request."""
        if (who, cause) in self._pauses:  # the continuation repeats the earlier request
            return
        heard = [tools for seq, tools in self._changes.get(who, ()) if seq <= cause]
        if heard:
            self._changes[who] = self._changes[who][len(heard) :]
            profile = self._profiles[who]
            self._profiles[who] = msgspec.structs.replace(profile, tools=tuple(heard[-1]))
