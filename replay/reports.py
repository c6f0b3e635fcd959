"""The reports of the sub-agents of a session, siblings side by side."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.replay.json_values import leaves


@dataclass(frozen=True)
class Report:
    """The end of one delegation. values: of its report by their paths; of a text, one without a path."""

    seq: int
    address: str
    kind: OutcomeKind
    values: Mapping[str, object]


@dataclass
class Siblings:
    """The delegations of one parent to one profile, in the order of their ends."""

    parent: str
    profile: str
    reports: list[Report] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Return the paths of all values, in the order in which they first occur."""
        return list(dict.fromkeys(path for report in self.reports for path in report.values))

    def is_around(self, address: str) -> bool:
        """Return whether these are the sub-agents of an agent, or its siblings and itself."""
        return address == self.parent or any(report.address == address for report in self.reports)


def sibling_reports(events: Iterable[Event]) -> list[Siblings]:
    """Return the ends of a session's delegations, by parent and profile."""
    profiles: dict[tuple[str, int, int], str] = {}
    found: dict[tuple[str, str], Siblings] = {}
    for event in events:
        body = event.body
        if isinstance(body, Delegate):
            profiles[event.sender, body.turn, body.call] = ", ".join(dict.fromkeys(body.profiles))
        elif isinstance(body, DelegationEnded):
            key = event.recipient, profiles.pop((event.recipient, body.turn, body.call), "")
            report = Report(event.seq, body.address, body.kind, _values(event, body))
            found.setdefault(key, Siblings(*key)).reports.append(report)
    return list(found.values())


def reported(event: Event) -> object:
    """Return the value that a delegation reported, None if the event is not a report."""
    if isinstance(event.body, DelegationEnded) and event.body.kind == "reported":
        return msgspec.json.decode(event.body.value)
    return None


def _values(event: Event, body: DelegationEnded) -> dict[str, object]:
    value = reported(event)
    if value is None:
        return {"": body.text or body.detail}
    return {path.removeprefix("."): leaf for path, leaf in leaves(value, "")}
