"""What models are asked: rules of whole requests, which a log holds only in their parts.

A simulation has the requests at hand; for a recorded log they are worked out anew by the deciders
(`requests_of`). Every rule here is one of `check_requests`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
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

APPEND_ONLY: Final = "Every request of an agent begins with its request before, byte for byte."
SENDABLE: Final = "In every request each tool call is answered in the next message, in call order."
PROVENANCE: Final = "Every byte of an agent's conversation came in a message to it, or is a fixed word."
GRANTED: Final = "A model is asked what was granted: the request has the digest of its grant."

REQUEST_RULES: Final = {
    "append-only": APPEND_ONLY,
    "sendable": SENDABLE,
    "provenance": PROVENANCE,
    "granted": GRANTED,
}


_SOURCES: Final = frozenset({Begin, ModelReplied, ToolReturned, ApprovalGiven, DelegationEnded, ReportJudged})
"""Messages whose content may come into a conversation."""


def requests_of(events: Sequence[Event]) -> dict[int, ModelRequest]:
    """What every granted call asked, by the seq of its grant, as this code computes it from the log."""
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
    """What the requests of a session break. requests: by the seq of the grant, if they are at hand."""
    if requests is None:
        requests = requests_of(events)
    found: list[Breach] = []
    grants, appending, sources = _Grants(), _Appending(events), _Sources()
    for event in events:
        kind = type(event.body)
        if kind is CallModel:
            request = requests.get(event.seq)
            found += grants.hear(event, request)
            found += appending.hear(event, request)
            found += sources.hear(event, request)
        elif kind is TurnRequested:
            found += grants.hear(event, None)
        elif kind in _SOURCES:
            found += sources.hear(event, None)
            if kind is Begin:
                found += appending.hear(event, None)
    return sorted(found, key=lambda breach: breach.seq)


def _breach(name: str, seq: int, detail: str) -> Breach:
    return Breach(name, REQUEST_RULES[name], seq, detail)


class _Grants:
    """Grants and requests fit together, and requests can be sent. Of each only what is new is read."""

    def __init__(self) -> None:
        self._wishes: dict[str, TurnRequested] = {}
        self._read: dict[str, int] = {}
        self._owed: dict[str, list[object]] = {}

    def hear(self, event: Event, request: ModelRequest | None) -> Iterator[Breach]:
        """The next event, and the request that it grants."""
        if isinstance(event.body, TurnRequested):
            self._wishes[event.sender] = event.body
        if not isinstance(event.body, CallModel):
            return
        agent = event.body.agent
        wish = self._wishes.pop(agent, TurnRequested(0))
        asked = None if request is None else (request.digest, request.turn, request.attempt)
        if request is None or asked != (wish.digest, wish.turn, wish.attempt):
            yield _breach("granted", event.seq, f"{agent} does not ask for what it got")
        elif why := self._why_unsendable(request):
            yield _breach("sendable", event.seq, f"{agent}, turn {wish.turn}: {why}")

    def _why_unsendable(self, request: ModelRequest) -> str:
        """Why a service would refuse this conversation; nothing if it would not."""
        who, start = request.address, self._read.get(request.address, 0)
        if start > request.length:  # it has forgotten its conversation
            start, self._owed[who] = 0, []
        self._read[who] = request.length
        owed, why = _owed_after(request.messages[start:], self._owed.get(who, []))
        self._owed[who] = owed
        return why or (f"the calls {owed} have no results" if owed else "")


def _owed_after(messages: Iterable[Json], owed: list[object]) -> tuple[list[object], str]:
    """The calls that have no results after these messages, or what is wrong with them."""
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
    """Within one life the request only grows; a conversation does so for ever."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._forgetful = _forgetful(events)
        self._lives: dict[str, int] = {}
        self._last: dict[str, tuple[int, ModelRequest]] = {}

    def hear(self, event: Event, request: ModelRequest | None) -> Iterator[Breach]:
        """The next event, and the request that it grants."""
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
    """Agents whose decider failed even while it drained: they start their conversation anew."""
    failed: set[tuple[str, int]] = set()
    found = set()
    for event in events:
        if isinstance(event.body, DeciderFailed):
            failed.add((event.sender, event.cause))
        elif isinstance(event.body, Stopped) and (event.sender, event.cause) in failed:
            found.add(event.sender)
    return found


_FIXED: Final = (prompts.CANCELLED, prompts.TRUNCATED, prompts.REPORT_NOW)
_OPENINGS: Final = (prompts.UNUSABLE_TASK, "There is no tool named ", "Not run: one reply may make ")
"""Words of callboard's own, or their beginning."""


class _Sources:
    """Where the content of every message came from."""

    def __init__(self) -> None:
        self._replies: dict[str, set[bytes]] = {}
        self._texts: dict[str, set[bytes]] = {}
        self._checked: dict[str, int] = {}

    def hear(self, event: Event, request: ModelRequest | None) -> Iterator[Breach]:
        """Take in what came to an agent; hold a request against it."""
        who, body = event.recipient, event.body
        if isinstance(body, ModelReplied):
            self._replies.setdefault(who, set()).add(bytes(body.content))
        elif isinstance(body, Begin):
            self._texts.setdefault(who, set()).update(_parts(bytes(body.prompt)))
        elif isinstance(body, ToolReturned):
            self._texts.setdefault(who, set()).add(bytes(body.output))
        elif isinstance(body, ApprovalGiven):
            self._texts.setdefault(who, set()).add(encode(prompts.not_approved(body)))
        elif isinstance(body, DelegationEnded):
            self._texts.setdefault(who, set()).add(encode(prompts.delegation_result(body)[0]))
        elif isinstance(body, ReportJudged):
            self._texts.setdefault(who, set()).add(encode(prompts.judged_result(body)[0]))
        if request is not None:
            yield from self._check(event.seq, request)

    def _check(self, seq: int, request: ModelRequest) -> Iterator[Breach]:
        who, start = request.address, self._checked.get(request.address, 0)
        self._checked[who] = request.length
        for place, message in enumerate(request.messages[start:], start):
            if not self._is_known(who, bytes(message)):
                yield _breach("provenance", seq, f"message {place} of {who} came to it from nowhere")

    def _is_known(self, who: str, message: bytes) -> bool:
        role, content = msgspec.json.decode(message, type=_Message).parts
        if role == "assistant":
            return content in self._replies.get(who, ())
        texts = self._texts.get(who, set())
        return all(part in texts or _is_own_word(part) for part in _parts(content))


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw

    @property
    def parts(self) -> tuple[str, bytes]:
        """Role and content."""
        return self.role, bytes(self.content)


class _Block(msgspec.Struct):
    type: str
    text: msgspec.Raw = NULL
    content: msgspec.Raw = NULL


def _parts(content: bytes) -> list[bytes]:
    """The texts and results of a user's content; a block that is neither, whole."""
    if not content.startswith(b"["):
        return [content]
    found = []
    for raw in msgspec.json.decode(content, type=list[msgspec.Raw]):
        block = msgspec.json.decode(raw, type=_Block)
        if block.type == "tool_result":
            found.append(bytes(block.content))
        else:
            found.append(bytes(block.text) if block.type == "text" else bytes(raw))
    return found


def _is_own_word(part: bytes) -> bool:
    """Whether callboard itself says this to a model."""
    try:
        text = msgspec.json.decode(part, type=str)
    except msgspec.DecodeError:
        return False
    return text in _FIXED or text.startswith(_OPENINGS)
