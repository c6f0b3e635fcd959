"""The rights and labels of every agent of a recording, the origin of each, and the way of a label."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.addresses import is_agent, parent_of
from callboard.actors.protocol.bundle_entries import KINDS
from callboard.actors.protocol.bundles import Denied, Names, Rights
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.layers import Layers, effective, refused_by
from callboard.actors.protocol.messages import AnyMessage, Begin, DelegationEnded, Told, ToolsGiven
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, ToolReturned
from callboard.actors.protocol.profiles import Profile, ToolSpec

_NO_TOOL: Final = ToolSpec("", "", NULL)


@dataclass(frozen=True)
class Entry:
    """One entry of an agent's rights. names: those that it may use. by: the holders that bound it."""

    entry: str
    names: Names
    by: tuple[str, ...]


@dataclass(frozen=True)
class Denial:
    """A name that an agent may not use, or a capability for a label. by: the holder that denies it."""

    entry: str
    name: str
    by: str
    label: str = ""


@dataclass(frozen=True)
class LabelOrigin:
    """A label, and the first event that brought it. how: in words."""

    label: str
    seq: int
    how: str


@dataclass
class AgentRights:
    """The rights and the labels of one agent.

    narrowed: the names that its own bundle asks for and a bundle above it withholds.
    """

    address: str
    profile: str
    layers: Layers = ()
    labels: list[LabelOrigin] = field(default_factory=list)
    own: Rights = field(default_factory=Rights)

    @property
    def entries(self) -> list[Entry]:
        """Return the entries that are bounded."""
        allowed = effective(self.layers).allowed
        bounded = ((entry, getattr(allowed, entry)) for entry in KINDS)
        return [Entry(entry, names, self._bounded_by(entry)) for entry, names in bounded if names is not None]

    def _bounded_by(self, entry: str) -> tuple[str, ...]:
        return tuple(one.by for one in self.layers if getattr(one.rights.allowed, entry) is not None)

    @property
    def denials(self) -> list[Denial]:
        """Return the denials and the rules of labels, each with its holder."""
        found = []
        for layer in self.layers:
            for entry in Denied.__struct_fields__:
                names = getattr(layer.rights.denied, entry)
                found += [Denial(entry, name, layer.by) for name in names]
            found += [Denial("capabilities", one.deny, layer.by, one.label) for one in layer.rights.rules]
        return found

    @property
    def narrowed(self) -> list[Denial]:
        """Return the names that its own bundle asks for, and the holder that withholds each."""
        asked = [(entry, name) for entry in KINDS for name in getattr(self.own.allowed, entry) or ()]
        left = {one.entry: one.names for one in self.entries}
        withheld = [(entry, name) for entry, name in asked if name not in left[entry]]
        return [Denial(entry, name, refused_by(self.layers, entry, name)) for entry, name in withheld]

    def read(self, labels: Iterable[str], seq: int, how: str) -> None:
        """Record labels that an event brought."""
        known = {one.label for one in self.labels}
        self.labels += [LabelOrigin(label, seq, how) for label in labels if label not in known]


def rights_of(events: Iterable[Event]) -> dict[str, AgentRights]:
    """Return the rights and the labels of each agent after these events, by address."""
    reader = _Reader()
    for event in events:
        reader.hear(event)
    return reader.agents


class _Reader:
    def __init__(self) -> None:
        self.agents: dict[str, AgentRights] = {}
        self._specs: dict[str, dict[str, ToolSpec]] = {}
        self._calls: dict[tuple[str, int, int], str] = {}

    def hear(self, event: Event) -> None:
        """Take in the next event."""
        body, who = event.body, event.recipient
        if isinstance(body, Begin):
            self._begin(event, body)
        elif isinstance(body, ToolsGiven):
            self._specs.setdefault(who, {}).update({spec.name: spec for spec in body.tools})
        elif isinstance(body, CallTool):
            self._calls[event.sender, body.turn, body.call] = body.tool
        elif who in self.agents:
            for labels, how in self._brought(who, body):
                self.agents[who].read(labels, event.seq, how)

    def _begin(self, event: Event, begin: Begin) -> None:
        who, profile = event.recipient, msgspec.json.decode(begin.profile, type=Profile)
        before = self.agents.get(who)
        agent = AgentRights(who, profile.name, begin.permissions, before.labels if before else [])
        agent.own = profile.permissions.own
        agent.read(begin.labels, event.seq, "given with its prompt")
        self.agents[who] = agent
        self._specs[who] = {spec.name: spec for spec in profile.tools}

    def _brought(self, who: str, body: object) -> Iterator[tuple[Names, str]]:
        """Yield the labels that a message brings, and how."""
        if isinstance(body, ToolReturned):
            tool = self._calls.get((who, body.turn, body.call), "")
            spec = self._specs.get(who, {}).get(tool, _NO_TOOL)
            yield (*spec.labels, *body.labels), f"a result of {tool}"
        elif isinstance(body, DelegationEnded):
            yield body.labels, f"the end of {body.address}"
        elif isinstance(body, Told | ApprovalGiven):
            yield body.labels, "words of the client"


class _Place(NamedTuple):
    """An agent, and the event up to which its labels count."""

    agent: str
    seq: int


def label_source(events: Iterable[Event], seq: int, label: str) -> tuple[Event, ...]:
    """Return the events through which a label came to the agent of an event, the newest first.

    events: of the session, up to that event at least. Raises UnknownName if that agent does not have it.
    """
    log = [event for event in events if event.seq <= seq]
    found = tuple(_way(log, seq, label))
    if not found:
        raise UnknownName(
            f"no agent of event {seq} has read the label {label!r}; see `callboard tree --labels`"
        )
    return found


def _way(log: list[Event], seq: int, label: str) -> Iterator[Event]:
    event = log[seq - 1]
    who = event.recipient if is_agent(event.recipient) else event.sender
    place: _Place | None = _Place(who, seq)
    while place is not None and (at := _brought(log, place, label)):
        yield log[at - 1]
        place, input_at = _before(log, log[at - 1], label)
        if input_at:
            yield log[input_at - 1]


def _brought(log: list[Event], place: _Place, label: str) -> int:
    """Return the seq of the event that brought a label to an agent; 0 for none."""
    agent = rights_of(log[: place.seq]).get(place.agent)
    labels = agent.labels if agent else []
    return next((one.seq for one in labels if one.label == label), 0)


def _before(log: list[Event], event: Event, label: str) -> tuple[_Place | None, int]:
    """Return where a label was before an event brought it: an agent, or the seq of a client's input."""
    body = event.body
    if isinstance(body, Begin):
        return _above(log, event)
    if isinstance(body, DelegationEnded):
        return _Place(body.address, event.seq - 1), 0
    if isinstance(body, ToolReturned) and (writer := _writer(log, event, body, label)) is not None:
        return _Place(writer.recipient, writer.seq), 0
    return None, 0


def _above(log: list[Event], begin: Event) -> tuple[_Place | None, int]:
    """Return the parent of an agent as of its delegation, or the ask of the host."""
    parent = parent_of(begin.recipient)
    if is_agent(parent):
        return _Place(parent, begin.seq - 1), 0
    asks = [one.seq for one in log[: begin.seq] if isinstance(one.body, Ask)]
    return None, asks[-1] if asks else 0


def _writer(log: list[Event], event: Event, read: ToolReturned, label: str) -> Event | None:
    """Return the answer of the call that wrote a file or a key, which a call has read with a label."""
    names = {*(one.name for one in read.uses if label in one.labels), *read.state_read}
    before = reversed(log[: event.seq - 1])
    return next((one for one in before if not names.isdisjoint(_written(one.body, label))), None)


def _written(body: AnyMessage, label: str) -> Iterator[str]:
    """Yield the files and keys that a call wrote with a label."""
    if isinstance(body, ToolReturned):
        yield from (use.name for use in body.uses if use.entry == "write" and label in use.labels)
        yield from (update.key for update in body.state_update if label in update.labels)
