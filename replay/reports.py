"""The ends below the outcome of a session: reports, and failures.

The reports of the sub-agents of a session, siblings side by side.

The failures below the outcome of a session: delegations and tool calls that did not succeed.

An ask may end `ok` although a sub-agent failed, since its parent's model chose to go on. Feed every event of
a session in order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.session.place_names import call_name
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
        return {"": body.text or body.detail or EXPLAINED[body.kind] * (STATUS[body.kind] == "failed")}
    return {path.removeprefix("."): leaf for path, leaf in leaves(value, "")}


FailureKind: TypeAlias = Literal["delegation", "tool", "doubt"]


class Failure(NamedTuple):
    """A failure of a delegation or a tool call, or a tool call in doubt: its effect is not known.

    seq: of the event that says so. address: of the sub-agent, or of the tool's agent; '' for a delegation
    that was denied before it had an address. name: of the tool, or the kind of the delegation's end.
    why: the reason, in one line. trace: the traceback of a tool that raised. place: of the call.
    """

    seq: int
    kind: FailureKind
    address: str
    name: str
    why: str
    trace: str = ""
    place: str = ""


class Failures:
    """The failures of a session so far."""

    def __init__(self) -> None:
        self.found: list[Failure] = []
        self._calls: dict[int, str] = {}

    def add(self, event: Event) -> None:
        """Add the next event."""
        match event.body:
            case CallTool(tool=tool):
                self._calls[event.seq] = tool
            case ToolReturned() as returned:
                self._add_tool(event, returned, self._calls.pop(event.cause, "a tool"))
            case DelegationEnded() as end if STATUS[end.kind] == "failed":
                why = end.detail or EXPLAINED[end.kind]
                self._note(event, "delegation", end.address, end.kind, why)
            case _:
                pass

    def _add_tool(self, event: Event, returned: ToolReturned, tool: str) -> None:
        if returned.status in ("error", "interrupted"):
            kind: FailureKind = "tool" if returned.status == "error" else "doubt"
            output = msgspec.json.decode(returned.output)
            why = output if isinstance(output, str) else bytes(returned.output).decode()
            self._note(event, kind, event.recipient, tool, why, returned.trace)

    def _note(
        self, event: Event, kind: FailureKind, address: str, name: str, why: str, trace: str = ""
    ) -> None:
        self.found.append(Failure(event.seq, kind, address, name, why, trace, call_name(event)))

    def headline(self, start: int = 1, upto: int | None = None) -> str:
        """Count the failures among the events start to upto, in words; '' without any."""
        kinds = [each.kind for each in self.found if start <= each.seq and (upto is None or each.seq <= upto)]
        counts = [(kinds.count(kind), noun, verb) for kind, noun, verb in _WORDS]
        return ", ".join(
            f"{count:,} {noun}{'s' * (count > 1)} {verb}" for count, noun, verb in counts if count
        )


_WORDS: tuple[tuple[FailureKind, str, str], ...] = (
    ("delegation", "delegation", "failed"),
    ("tool", "tool call", "failed"),
    ("doubt", "tool call", "in doubt"),
)
