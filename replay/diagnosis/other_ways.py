"""A guess about denials: a call was denied, and its agent did the same by another tool.

The same: a value of the denied call, such as an order, a path or a sum, is an argument of the later call, or
stands in its command.
"""

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.protocol.refusals import NOT_CALLED
from callboard.replay.diagnosis.finding import Finding, is_at_or_below
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall
from callboard.replay.json_values import leaves
from callboard.replay.refused_calls import RefusedCall

_CHARS: Final = range(3, 300)
_COMMAND_CHARS_MAX: Final = 2_000
_SPECIFIC: Final = re.compile(r"[\d./\\_@:-]")
_COMMAND: Final = re.compile(
    r"(?i)(?:command|cmd|code|script|sql|query|statement|argv|args|url|body)(?:\.\d+)?$"
)
_NUMBER_MIN: Final = 100


class _Denial(NamedTuple):
    seq: int
    agent: str
    tool: str
    arguments: bytes


class _Done(NamedTuple):
    """A call with an effect that ended well."""

    call: ToolCall
    values: frozenset[str]
    commands: tuple[str, ...]


class OtherWays(CallCheck):
    """Calls with an effect that do what an earlier call was denied."""

    kinds: ClassVar = frozenset({"RequestApproval", "ApprovalGiven"})
    results: ClassVar = "effects"

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int, int], RequestApproval] = {}
        self._denials: list[_Denial] = []
        self._approved: set[tuple[str, str]] = set()
        self._done: list[_Done] = []

    def take(self, event: Event) -> None:
        """Take in a question or its answer."""
        body = event.body
        if isinstance(body, RequestApproval):
            self._asked[event.sender, body.turn, body.call] = body
        elif isinstance(body, ApprovalGiven):
            asked = self._asked.pop((event.recipient, body.turn, body.call), None)
            if asked is not None and body.verdict == "approved":
                self._approved.add((event.recipient, asked.tool))
            elif asked is not None:
                denial = _Denial(event.seq, event.recipient, asked.tool, bytes(asked.arguments))
                self._denials.append(denial)

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the result of a call with an effect."""
        if result.status == "ok" and call.effect != "read" and (call.agent, call.tool) not in self._approved:
            values, commands = _parts(call.arguments)
            if values or commands:
                self._done.append(_Done(call, values, commands))

    def after(self, refused: Sequence[RefusedCall]) -> list[tuple[tuple[str, str], Finding]]:
        """Return the findings, each with the agent and the tool of its denied call.

        refused: the calls that agents refused by themselves.
        """
        found: dict[tuple[str, str], Finding] = {}
        own = (
            _Denial(one.seq, one.agent, one.tool, bytes(one.arguments))
            for one in refused
            if one.reason.startswith(NOT_CALLED)
        )
        for denial in (*self._denials, *own):
            wanted = [value for value in _parts(denial.arguments)[0] if _is_specific(value)]
            other = next((one for one in self._done if _is_other_way(denial, wanted, one)), None)
            if other is not None:
                says = (
                    f"{denial.agent} was denied {denial.tool} ({denial.seq}), and {other.call.agent} did it "
                    f"by {other.call.tool}"
                )
                command = f"events {{session}} --from {denial.seq} --to {other.call.seq}"
                way = Finding("other_way", other.call.seq, other.call.agent, says, command)
                found.setdefault((denial.agent, denial.tool), way)
        return [*found.items()]


def _is_other_way(denial: _Denial, wanted: Iterable[str], done: _Done) -> bool:
    call = done.call
    if call.seq < denial.seq or call.tool == denial.tool or not is_at_or_below(call.agent, denial.agent):
        return False
    return any(value in done.values or any(value in text for text in done.commands) for value in wanted)


def _is_specific(value: str) -> bool:
    return _SPECIFIC.search(value) is not None


def _parts(arguments: bytes) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the values of a call's arguments, and the texts among them that are commands."""
    values, commands = set[str](), []
    for path, value in leaves(msgspec.json.decode(arguments), ""):
        if isinstance(value, str) and len(value) in _CHARS:
            values.add(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= _NUMBER_MIN:
            values.add(str(value))
        if isinstance(value, str) and _COMMAND.search(path):
            commands.append(value[:_COMMAND_CHARS_MAX])
    return frozenset(values), tuple(commands)
