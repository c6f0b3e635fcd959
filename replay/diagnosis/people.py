"""Checks of what people did: approvals with other arguments, and words that came too late or never."""

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from callboard.actors.protocol.client_messages import Tell, TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Told, TurnRequested
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.replay.diagnosis.finding import Finding, is_at_or_below
from callboard.replay.diagnosis.tool_calls import CallCheck, Returned, ToolCall

_CHARS: Final = 80
_GROUPED: Final = "events {session} --grouped --actor "


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
                command = _GROUPED + event.recipient
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
                says = (
                    f"the words for {agent} were heard in turn {turn}, after {', '.join(calls)} had started"
                )
                self._found.append(Finding("late_word", seq, agent, says, _GROUPED + agent))

    def _refuse(self, request_id: str, detail: str) -> None:
        if (asked := self._asked.pop(request_id, None)) is not None:
            seq, agent = asked
            says = f"the words for {agent} were not heard: {detail or 'it had ended'}"
            self._found.append(Finding("unheard_word", seq, agent, says))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found
