"""Sources of a conversation: the event that brought each part of it, and the event's place in `new`."""

from collections import deque
from collections.abc import Iterable, Iterator, Set
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol import prompts
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    ApprovalGiven,
    Begin,
    CallModel,
    DelegationEnded,
    ModelReplied,
    ReportJudged,
    ToolReturned,
    TurnRequested,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.rules.base import Breach

PROVENANCE: Final = "Every byte of an agent's conversation came in a message to it, or is a fixed phrase."
NEW: Final = "An event that adds content to a request is named in `new` of one request of its agent, once."

Part: TypeAlias = tuple[str, bytes]
"""The role of a message, and a text, a result or another block in it."""

_PHRASES: Final = (prompts.CANCELLED, prompts.TRUNCATED, prompts.REPORT_NOW)
_OPENINGS: Final = (prompts.UNUSABLE_TASK, "There is no tool named ", "Not run: one reply may make ")
"""The texts of callboard itself, whole or by their beginning."""


class Sources:
    """Compare what each granted request adds with the events that its agent has named since the last one.

    forgetful: agents that may have lost their conversation, and with it the events not named yet.
    """

    def __init__(self, forgetful: Set[str]) -> None:
        self._forgetful = forgetful
        self._unnamed: dict[int, list[Part]] = {}
        self._known: dict[str, set[Part]] = {}
        self._named: dict[str, list[int]] = {}
        self._checked: dict[str, int] = {}

    def hear(self, event: Event, request: ModelRequest | None) -> Iterator[Breach]:
        """Record an event; check the request that it grants."""
        body = event.body
        if isinstance(body, TurnRequested):
            self._named.setdefault(event.sender, []).extend(body.new)
        elif request is not None:
            yield from self._check(event.seq, request)
        elif not isinstance(body, CallModel):
            parts = _parts_of(body)
            self._unnamed[event.seq] = parts
            self._known.setdefault(event.recipient, set()).update(parts)

    def _check(self, seq: int, request: ModelRequest) -> Iterator[Breach]:
        who, start = request.address, self._checked.get(request.address, 0)
        self._checked[who] = request.length
        named = self._named.pop(who, [])
        expected = deque((one, part) for one in named for part in self._unnamed.pop(one, [("", b"")]))
        known, is_forgetful = self._known.get(who, set()), who in self._forgetful
        for index, message in enumerate(request.messages[start:], start):
            for part in _parts_in(message):
                if expected and expected[0][1] == part:
                    expected.popleft()
                elif _is_phrase(part):
                    continue
                elif part not in known:
                    yield _breach("provenance", seq, f"message {index} of {who} came in no message to it")
                elif not is_forgetful:
                    yield _breach("new", seq, f"message {index} of {who} has content of no event in `new`")
        if expected and not is_forgetful:
            yield _breach("new", seq, f"{who} names event {expected[0][0]}, which adds nothing here")


def _breach(name: str, seq: int, detail: str) -> Breach:
    return Breach(name, PROVENANCE if name == "provenance" else NEW, seq, detail)


def _parts_of(body: object) -> list[Part]:
    """Return the parts that this message may add to its recipient's conversation."""
    if isinstance(body, ModelReplied):
        return [("assistant", bytes(body.content))]
    if isinstance(body, Begin):
        return [("user", part) for part in _split(bytes(body.prompt))]
    if isinstance(body, ToolReturned):
        return [("user", bytes(body.output))]
    if isinstance(body, ApprovalGiven):
        return [("user", encode(prompts.not_approved(body)))]
    if isinstance(body, DelegationEnded):
        return [("user", encode(prompts.delegation_result(body)[0]))]
    assert isinstance(body, ReportJudged)
    return [("user", encode(prompts.judged_result(body)[0]))]


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw


class _Block(msgspec.Struct):
    type: str
    text: msgspec.Raw = NULL
    content: msgspec.Raw = NULL


def _parts_in(message: bytes) -> Iterable[Part]:
    """Return the parts of a message; the content of a reply is one part."""
    read = msgspec.json.decode(message, type=_Message)
    content = bytes(read.content)
    return [(read.role, part) for part in ([content] if read.role == "assistant" else _split(content))]


def _split(content: bytes) -> list[bytes]:
    """Return the texts and results in a user's content; other blocks whole."""
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


def _is_phrase(part: Part) -> bool:
    """Return whether callboard itself says this to a model."""
    try:
        text = msgspec.json.decode(part[1], type=str)
    except msgspec.DecodeError:
        return False
    return part[0] == "user" and (text in _PHRASES or text.startswith(_OPENINGS))
