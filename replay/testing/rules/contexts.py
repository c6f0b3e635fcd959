"""Contexts: a delegation begins with the contexts that were made for it, and not before."""

from collections.abc import Sequence
from typing import TypeAlias

from callboard.actors.protocol.addresses import HOST, place_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.histories import why_broken
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ContextMade, MakeContext
from callboard.actors.protocol.profiles import Profile
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind

_Place: TypeAlias = tuple[str, int]


class Contexts(Invariant):
    """The contexts of delegations."""

    name = "contexts"
    rule = (
        "An agent begins with the context that was made for its delegation, once all contexts are made; its "
        "messages have each call with its result."
    )
    _delegates: dict[int, tuple[str, Delegate]] = {}
    _racers: dict[_Place, _Place] = {}  # each racer's place: the delegation that waits for contexts
    _made: dict[_Place, dict[str, ContextMade | None]] = {}

    def on_Delegate(self, event: Event, body: Delegate) -> None:
        """Record a delegation."""
        self._delegates[event.seq] = event.sender, body

    def on_MakeContext(self, event: Event, wanted: MakeContext) -> None:
        """Check that a context is wanted for a delegation of its parent, by a profile in it."""
        sender, request = self._delegates.get(wanted.request, ("", None))
        if request is None or sender != wanted.parent or wanted.profile not in request.profiles:
            self.broken(event.seq, f"a context is wanted for event {wanted.request}, which needs none")
            return
        if not self._wants_context(wanted.profile):
            self.broken(event.seq, f"{wanted.profile} wants no context")
        place = (wanted.parent, wanted.delegation)
        self._made.setdefault(place, {})[wanted.profile] = None
        for ordinal in range(wanted.delegation, wanted.delegation + len(request.profiles)):
            self._racers[wanted.parent, ordinal] = place

    def _wants_context(self, profile: str) -> bool:
        known = self.facts.profiles.get(profile)
        return known is not None and _is_prepared(known[0])

    def on_ContextMade(self, event: Event, made: ContextMade) -> None:
        """Record a context."""
        self._made.setdefault((made.parent, made.delegation), {})[made.profile] = made

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Compare the context of an agent with the one that was made."""
        who, profile = event.recipient, self.facts.lives[event.recipient].profile
        made = self._made.get(self._racers.get(place_of(who), ("", 0)), {}) if who != HOST else {}
        if any(one is None or one.status != "ok" for one in made.values()):
            self.broken(event.seq, f"{who} begins before every context of its delegation is made")
        own = made.get(profile.name)
        given = (own.content, own.history, own.makers) if own else (NULL, (), ())
        if (begin.context, begin.history, begin.makers) != given:
            self.broken(event.seq, f"{who} begins with another context than was made for it")
        elif why := why_broken(begin.history):
            self.broken(event.seq, f"{who} is handed a conversation that no service takes: {why}")
        elif _is_prepared(profile) and who != HOST and own is None:
            self.broken(event.seq, f"{who} begins without the context that its profile wants")

    def handled_ContextMade(self, event: Event, made: ContextMade, outputs: Sequence[Event]) -> None:
        """Check that a context that failed ends its delegation as `unavailable`."""
        ends = [end.kind for _, end in of_kind(outputs, DelegationEnded)]
        if ends and made.status != "ok" and ends != ["unavailable"]:
            self.broken(event.seq, f"a context that is {made.status} ends a delegation as {ends[0]}")


def _is_prepared(profile: Profile) -> bool:
    """Return whether agents of this profile wait for a context or for a new instance."""
    return bool(profile.context) or bool(profile.factory)
