"""Rules of whole requests, which a log holds only in their parts.

A simulation has the requests at hand; for a recorded log the deciders compute them again (`requests_of`).
Every rule here is one of `check_requests`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

import msgspec

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import (
    ApprovalGiven,
    Begin,
    CallModel,
    DeciderFailed,
    DelegationEnded,
    ModelReplied,
    ReportJudged,
    Stopped,
    ToolReturned,
    TurnRequested,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.core import SessionCore
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.rules.sources import NEW, PROVENANCE, Sources

APPEND_ONLY: Final = "Every request of an agent begins with its request before, byte for byte."
SENDABLE: Final = "In every request each tool call is answered in the next message, in call order."
GRANTED: Final = "A model gets the request that was granted: turn, attempt and digest are those of its wish."

REQUEST_RULES: Final = {
    "append-only": APPEND_ONLY,
    "sendable": SENDABLE,
    "provenance": PROVENANCE,
    "new": NEW,
    "granted": GRANTED,
}


_SOURCES: Final = frozenset(
    {Begin, ModelReplied, ToolReturned, ApprovalGiven, DelegationEnded, ReportJudged, TurnRequested}
)
"""Messages whose content may come into a conversation, and the one that says which did."""


def requests_of(events: Sequence[Event]) -> dict[int, ModelRequest]:
    """Return the request of every granted call by the seq of its grant, recomputed from the log."""
    core = SessionCore()
    failures = {event.cause: event.body.error for event in events if isinstance(event.body, DeciderFailed)}
    found: dict[int, ModelRequest] = {}
    for event in events:
        if is_decider(event.recipient):
            core.decide(event, failures.get(event.seq, ""))
        if isinstance(event.body, CallModel):
            state = core.states.get(event.body.agent)
            if isinstance(state, AgentState) and state.prefix is not None:
                found[event.seq] = request_of(state)
    return found


def check_requests(
    events: Sequence[Event], requests: Mapping[int, ModelRequest] | None = None
) -> list[Breach]:
    """Return the breaches of a session's requests. requests: by the seq of the grant, if at hand."""
    if requests is None:
        requests = requests_of(events)
    found: list[Breach] = []
    forgetful = _forgetful(events)
    grants, appending, sources = _Grants(), _Appending(forgetful), Sources(forgetful)
    for event in events:
        kind = type(event.body)
        if kind is CallModel:
            request = requests.get(event.seq)
            found += grants.hear(event, request)
            found += appending.hear(event, request)
            found += sources.hear(event, request)
        elif kind in _SOURCES:
            found += sources.hear(event, None)
            if kind is TurnRequested:
                found += grants.hear(event, None)
            elif kind is Begin:
                found += appending.hear(event, None)
    return sorted(found, key=lambda breach: breach.seq)


def _breach(name: str, seq: int, detail: str) -> Breach:
    return Breach(name, REQUEST_RULES[name], seq, detail)


class _Grants:
    """Checks that requests are the granted ones and can be sent; only new messages are read."""

    def __init__(self) -> None:
        self._wishes: dict[str, TurnRequested] = {}
        self._read: dict[str, int] = {}
        self._owed: dict[str, list[object]] = {}

    def hear(self, event: Event, request: ModelRequest | None) -> Iterator[Breach]:
        """Check the next event with the request that it grants."""
        if isinstance(event.body, TurnRequested):
            self._wishes[event.sender] = event.body
        if not isinstance(event.body, CallModel):
            return
        agent = event.body.agent
        wish = self._wishes.pop(agent, TurnRequested(0))
        asked = None if request is None else (request.digest, request.turn, request.attempt)
        if request is None or asked != (wish.digest, wish.turn, wish.attempt):
            yield _breach("granted", event.seq, f"{agent} was granted a call that it did not request")
        elif why := self._why_unsendable(request):
            yield _breach("sendable", event.seq, f"{agent}, turn {wish.turn}: {why}")

    def _why_unsendable(self, request: ModelRequest) -> str:
        """Return why a service would refuse this conversation; empty if it would not."""
        who, start = request.address, self._read.get(request.address, 0)
        if start > request.length:  # it has forgotten its conversation
            start, self._owed[who] = 0, []
        self._read[who] = request.length
        owed, why = _owed_after(request.messages[start:], self._owed.get(who, []))
        self._owed[who] = owed
        return why or (f"the calls {owed} have no results" if owed else "")


def _owed_after(messages: Iterable[Json], owed: list[object]) -> tuple[list[object], str]:
    """Return the calls that have no results after these messages, or the reason they are wrong."""
    for raw in messages:
        message = msgspec.json.decode(raw)
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if results != owed:
            return [], f"the results {results} follow the calls {owed}"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            return [], "something stands before a result"
        if not content:
            return [], "a message is empty"
        owed = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if owed and message["role"] != "assistant":
            return [], "a user calls a tool"
    return owed, ""


class _Appending:
    """Checks that a request only grows within one life, and a conversation in all lives."""

    def __init__(self, forgetful: Set[str]) -> None:
        self._forgetful = forgetful
        self._lives: dict[str, int] = {}
        self._last: dict[str, tuple[int, ModelRequest]] = {}

    def hear(self, event: Event, request: ModelRequest | None) -> Iterator[Breach]:
        """Compare the next granted request with the one before."""
        if isinstance(event.body, Begin):
            self._lives[event.recipient] = event.seq
        if request is None or request.address in self._forgetful:
            return
        who = request.address
        life, before = self._last.get(who, (0, request))
        if life == self._lives.get(who) and (before.system, before.tools) != (request.system, request.tools):
            yield _breach("append-only", event.seq, f"{who} has another system prompt or other tools now")
        if request.messages[: before.length] != before.messages:
            yield _breach("append-only", event.seq, f"{who} has rewritten its conversation")
        self._last[who] = self._lives.get(who, 0), request


def _forgetful(events: Iterable[Event]) -> set[str]:
    """Return the agents whose decider failed while they drained: they lose their conversation."""
    failed: set[tuple[str, int]] = set()
    found = set()
    for event in events:
        if isinstance(event.body, DeciderFailed):
            failed.add((event.sender, event.cause))
        elif isinstance(event.body, Stopped) and (event.sender, event.cause) in failed:
            found.add(event.sender)
    return found
