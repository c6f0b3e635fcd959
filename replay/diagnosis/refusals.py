"""Checks of what people and agents refused.

Checks of what people did: approvals with other arguments, and words that came too late or never.

Findings about calls that agents refused by themselves, and that were never made good.

A model that reads of a wrong name or argument mostly calls again, correctly. That is not a finding. A call
that is not made again is one, because the agent went on without its result.

A guess about denials: a call was denied, and its agent did the same by another tool.

The same: a value of the denied call, such as an order, a path or a sum, is an argument of the later call, or
stands in its command.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded, Tell, TellEnded
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Delegate, DelegationEnded, ReportBack, Told, TurnRequested
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.protocol.prompts import ASK_MODEL, REPORT_BACK, TASK, TASK_CANCEL, TASK_WAIT
from callboard.actors.protocol.refusals import NOT_CALLED
from callboard.replay.diagnosis.calls import Loops
from callboard.replay.diagnosis.finding import GROUPED, CallCheck, Finding, Returned, ToolCall, is_at_or_below
from callboard.replay.json_values import leaves
from callboard.replay.refused_calls import RefusedCall

_CHARS: Final = 80


class ChangedApprovals:
    """Calls that a person approved with other arguments than the model had written."""

    kinds: ClassVar = frozenset({"RequestApproval", "ApprovalGiven"})

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int, int], RequestApproval] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a question or its answer."""
        body = event.body
        if isinstance(body, RequestApproval):
            self._asked[event.sender, body.turn, body.call] = body
        elif isinstance(body, ApprovalGiven):
            asked = self._asked.pop((event.recipient, body.turn, body.call), None)
            if asked and body.verdict == "approved" and _is_changed(asked.arguments, body.arguments):
                says = (
                    f"{event.recipient} asked for {asked.tool} with {_short(asked.arguments)}, "
                    f"and {body.by or 'a person'} approved {_short(body.arguments)}"
                )
                command = GROUPED + event.recipient
                self._found.append(Finding("changed_approval", event.seq, event.recipient, says, command))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _is_changed(asked: Json, given: Json) -> bool:
    return given != NULL and msgspec.json.decode(asked) != msgspec.json.decode(given)


def _short(arguments: Json) -> str:
    text = bytes(arguments).decode()
    return text if len(text) <= _CHARS else text[: _CHARS - 1] + "…"


class LateWords(CallCheck):
    """Words for an agent while it, or one below it, carried out a call with an effect, or after its end."""

    kinds: ClassVar = frozenset({"Tell", "Told", "TurnRequested", "TellEnded"})
    results: ClassVar = "effects"

    def __init__(self) -> None:
        self._running: dict[str, dict[int, str]] = {}
        self._told: dict[tuple[str, int], tuple[int, list[str]]] = {}
        self._asked: dict[str, tuple[int, str]] = {}
        self._found: list[Finding] = []

    def called(self, call: ToolCall) -> None:
        """Take in a call with an effect: it starts before the agent hears the words that it has not heard."""
        said = f"{call.tool} ({call.seq})"
        self._running.setdefault(call.agent, {})[call.seq] = said
        for (agent, _), (_, calls) in self._told.items():
            if is_at_or_below(call.agent, agent):
                calls.append(said)

    def returned(self, call: ToolCall, result: Returned) -> None:
        """Take in the end of a call."""
        self._running[call.agent].pop(call.seq, None)

    def take(self, event: Event) -> None:
        """Take in words, or the turn that hears them."""
        if type(event.body) is TurnRequested and not event.body.told:
            return
        match event.body:
            case Told(number=number):
                running = self._running.items()
                below = [calls for agent, calls in running if is_at_or_below(agent, event.recipient)]
                calls = [call for calls in below for call in calls.values()]
                self._told[event.recipient, number] = event.seq, calls
            case TurnRequested(turn=turn, told=told):
                self._hear(event.sender, turn, told)
            case Tell(request_id=request_id, address=address):
                self._asked[request_id] = event.seq, address
            case TellEnded(request_id=request_id, status="refused", detail=detail):
                self._refuse(request_id, detail)
            case _:
                pass

    def _hear(self, agent: str, turn: int, told: int) -> None:
        for key in [key for key in self._told if key[0] == agent and key[1] <= told]:
            seq, calls = self._told.pop(key)
            if calls:
                says = f"the message to {agent} was read in turn {turn}, after {', '.join(calls)} had started"
                self._found.append(Finding("late_message", seq, agent, says, GROUPED + agent))

    def _refuse(self, request_id: str, detail: str) -> None:
        if (asked := self._asked.pop(request_id, None)) is not None:
            seq, agent = asked
            says = f"the message to {agent} was not read: {detail or 'it had ended'}"
            self._found.append(Finding("unread_message", seq, agent, says))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


_REASON_CHARS: Final = 160
_LATCHED: Final[frozenset[OutcomeKind | None]] = frozenset({"budget", "iteration_cap"})
_WAITS: Final = frozenset({TASK_WAIT, TASK_CANCEL})
"""Calls that bring no result: an agent does without them."""


class MadeCalls:
    """The calls that agents made, as far as they make refused ones good. loops: has those of tools."""

    kinds: ClassVar = frozenset({"Delegate", "ReportBack", "DelegationEnded", "AskEnded"})

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._ends: dict[str, list[tuple[int, OutcomeKind]]] = {}
        self._last: dict[tuple[str, str | bytes], int] = {}

    def take(self, event: Event) -> None:
        """Take in a delegation, a report, or an end."""
        body = event.body
        if isinstance(body, DelegationEnded | AskEnded):
            agent = body.address if isinstance(body, DelegationEnded) else HOST
            self._ends.setdefault(agent, []).append((event.seq, body.kind))
        if isinstance(body, Delegate | ReportBack):
            name = TASK if isinstance(body, Delegate) else REPORT_BACK
            self._last[event.sender, name] = event.seq

    def way_on(self, call: RefusedCall) -> str:
        """Return how the agent of a refused call went on: a question without room ends its program."""
        ends = self._ends.get(call.agent, ()) if call.tool == ASK_MODEL else ()
        kind = next((kind for seq, kind in ends if seq > call.seq), None)
        return f"ended as {kind}" if kind in _LATCHED else "went on without it"

    def last(self) -> dict[tuple[str, str | bytes], int]:
        """Return where each agent last had a result, by the tool and by the arguments of the call."""
        last = self._last.copy()
        for agent, tool, arguments, seq in self._loops.answered():
            for name in (tool, arguments):
                last[agent, name] = max(seq, last.get((agent, name), 0))
        return last


def _is_good(call: RefusedCall, last: Mapping[tuple[str, str | bytes], int]) -> bool:
    """Return whether the agent called the tool later, or another one with the same arguments."""
    arguments = bytes(call.arguments)
    names: list[str | bytes] = [call.tool, *([arguments] if len(arguments) > 2 else [])]
    return any(last.get((call.agent, name), 0) > call.seq for name in names)


def refusals(refused: Sequence[RefusedCall], made: MadeCalls) -> Iterator[Finding]:
    """Yield one finding for each agent and tool with a refused call that was not made good."""
    found: dict[tuple[str, str], list[RefusedCall]] = {}
    last = made.last() if refused else {}
    for call in refused:
        if call.tool not in _WAITS and not _is_good(call, last):
            found.setdefault((call.agent, call.tool), []).append(call)
    for (agent, tool), calls in found.items():
        times = f" {len(calls):,} times" if len(calls) > 1 else ""
        reason = calls[0].reason[:_REASON_CHARS]
        says = f"{agent} called {tool}{times}, which did not run, and {made.way_on(calls[0])}: {reason}"
        command = f"events {{session}} --grouped --actor {agent}"
        yield Finding("refused_call", calls[0].reply, agent, says, command)


_OTHER_WAYS_CHARS: Final = range(3, 300)
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
        if isinstance(value, str) and len(value) in _OTHER_WAYS_CHARS:
            values.add(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= _NUMBER_MIN:
            values.add(str(value))
        if isinstance(value, str) and _COMMAND.search(path):
            commands.append(value[:_COMMAND_CHARS_MAX])
    return frozenset(values), tuple(commands)
