"""The failures below the outcome of a session: delegations and tool calls that did not succeed.

An ask may end `ok` although a sub-agent failed, since its parent's model chose to go on. Feed every event of
a session in order.
"""

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.endings import EXPLAINED, STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.session.place_names import call_name

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
