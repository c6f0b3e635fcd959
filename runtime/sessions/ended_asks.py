"""Asks that ended: the events that their outcomes are made of.

An outcome needs the end of its ask, the type of its report, and the ends of the delegations in between. A
live session collects these as they are posted, a resumed one reads them from its log.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked, Resumed, SessionOpened
from callboard.actors.protocol.events import Event, Takers
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, Finished, Stopped
from callboard.actors.protocol.profiles import Profile
from callboard.runtime.sessions.session_types import TypeName

DELEGATION_KINDS: Final = frozenset({Delegate, DelegationEnded})


class EndedDelegation(NamedTuple):
    """A delegation that ended. is_typed: its schema was that of its profile, not of the call."""

    seq: int
    profile: str
    is_typed: bool
    end: DelegationEnded


class EndedAsk(NamedTuple):
    """An ask that ended, at a seq. kind: of its report. delegations: of its agents, in log order."""

    seq: int
    end: AskEnded
    kind: TypeName
    delegations: tuple[EndedDelegation, ...]


class Delegations:
    """The ends of the delegations of the running ask."""

    def __init__(self) -> None:
        # By agent, turn and call. Ten thousand may be open, of few kinds: equal kinds are one object.
        self._open: dict[tuple[str, int, int], tuple[str, bool]] = {}
        self._kinds: dict[tuple[str, bool], tuple[str, bool]] = {}
        self._ended: list[EndedDelegation] = []

    def add(self, event: Event) -> None:
        """Add a `Delegate` or a `DelegationEnded`."""
        body = event.body
        if isinstance(body, Delegate):
            kind = next(iter(body.profiles), ""), body.schema == NULL
            self._open[event.sender, body.turn, body.call] = self._kinds.setdefault(kind, kind)
        elif isinstance(body, DelegationEnded):
            opened = self._open.pop((event.recipient, body.turn, body.call), ("", False))
            self._ended.append(EndedDelegation(event.seq, *opened, body))

    def taken(self, end: int) -> tuple[EndedDelegation, ...]:
        """Take the delegations of an ask that ended at this seq."""
        found = tuple(one for one in self._ended if one.seq < end)
        self._ended = [one for one in self._ended if one.seq > end]
        return found


class AskReader:
    """Reads the asks of a session from its events. running: the type of the ask that runs.

    request_ids: those of the asks so far, as keys, in order.
    """

    def __init__(self) -> None:
        self.request_ids: dict[str, None] = {}
        self.running = TypeName()
        self.delegations = Delegations()
        self._host = TypeName()
        self._begun: dict[str, Json] = {}

    def read(self, event: Event) -> EndedAsk | None:
        """Take the next event. Return the ask that it ends, if it ends one."""
        take = _READERS.get(type(event.body))
        return take(self, event, event.body) if take else None

    def _on_agents(self, event: Event, body: SessionOpened | Resumed) -> None:
        if body.profiles:
            profiles = {profile.name: profile for profile in map(_profile, body.profiles)}
            self._host = _type_of(profiles.get(body.host))

    def _on_fork(self, event: Event, body: Forked) -> None:
        self._on_agents(event, body.resumed)

    def _on_ask(self, event: Event, body: Ask) -> None:
        self.request_ids[body.request_id] = None
        self.running = TypeName(body.output_type, body.schema) if body.schema != NULL else self._host
        self._begun = {}

    def _on_begin(self, event: Event, body: Begin) -> None:
        self._begun[event.recipient] = body.profile

    def _on_agent_end(self, event: Event, body: Finished | Stopped) -> None:
        self._begun.pop(event.sender, None)

    def _on_delegate(self, event: Event, body: Delegate) -> None:
        self.delegations.add(event)

    def _on_delegation_end(self, event: Event, body: DelegationEnded) -> None:
        self.delegations.add(event)
        self._begun.pop(body.address, None)  # it may have to drain, and needs no type for that

    def _on_ask_end(self, event: Event, body: AskEnded) -> EndedAsk:
        return EndedAsk(event.seq, body, self.running, self.delegations.taken(event.seq))

    def needed(self) -> tuple[TypeName, ...]:
        """Return the types that the running ask and its agents need to go on."""
        return (self.running, *types_of_profiles(self._begun.values()))


def types_of_profiles(profiles: Iterable[Json]) -> Iterator[TypeName]:
    """Yield the types of the reports of agents with these profiles."""
    return (_type_of(_profile(raw)) for raw in profiles)


def _profile(raw: Json) -> Profile:
    return msgspec.json.decode(raw, type=Profile)


def _type_of(profile: Profile | None) -> TypeName:
    return TypeName(profile.output_type, profile.schema) if profile else TypeName()


_READERS: Final[Takers[AskReader, EndedAsk | None]] = {
    SessionOpened: AskReader._on_agents,
    Resumed: AskReader._on_agents,
    Forked: AskReader._on_fork,
    Ask: AskReader._on_ask,
    Begin: AskReader._on_begin,
    Finished: AskReader._on_agent_end,
    Stopped: AskReader._on_agent_end,
    Delegate: AskReader._on_delegate,
    DelegationEnded: AskReader._on_delegation_end,
    AskEnded: AskReader._on_ask_end,
}


def ended_asks(events: Iterable[Event]) -> Iterator[EndedAsk]:
    """Yield the asks that ended, in order."""
    reader = AskReader()
    for event in events:
        ended = reader.read(event)
        if ended is not None:
            yield ended
