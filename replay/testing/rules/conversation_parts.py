"""The parts of a conversation: the texts, results and other blocks that a message adds to it.

The rules of whole requests look for the origin of each part.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from callboard.actors.protocol import prompts
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    Begin,
    Delegated,
    DelegationEnded,
    ReportJudged,
    Told,
    ToolsGiven,
)
from callboard.actors.protocol.port_messages import ApprovalGiven, ModelReplied, ToolReturned
from callboard.actors.protocol.refusals import NOT_CALLED
from callboard.replay.testing.rules.beginnings import context_in_message, handed_messages

Part: TypeAlias = tuple[str, bytes]
"""The role of a message, and a text, a result or another block in it."""

_PHRASES: Final = (prompts.CANCELLED, prompts.GIVEN_UP, prompts.TRUNCATED, prompts.REPORT_NOW)
_OPENINGS: Final = (
    prompts.NOT_DELEGATED,
    prompts.WRONG_NAMES,
    prompts.UNUSABLE_QUESTION,
    prompts.UNUSABLE_REQUEST,
    prompts.NO_QUESTIONS_LEFT,
    prompts.UNREAD_ARGUMENTS,
    "There is no tool named ",
    "Not run: one reply may make ",
    "No background task '",
    NOT_CALLED,
    prompts.UNUSABLE_TASK_WAIT,
    prompts.UNUSABLE_TASK_CANCEL,
)
"""The texts of callboard itself, whole or by their beginning."""

PARTS_OF: Final[Mapping[type, Callable[[Any], list[Part]]]] = {
    Begin: lambda body: [
        *(part for said in handed_messages(body) for part in parts_in(said)),
        *(
            ("user", part)
            for given in (context_in_message(body), body.prompt)
            if given != NULL
            for part in _split(bytes(given))
        ),
    ],
    ModelReplied: lambda body: [("assistant", bytes(body.content))],
    ToolReturned: lambda body: [("user", bytes(body.output))],
    ToolsGiven: lambda body: [],  # compared by the rule of tools
    Compacted: lambda body: [],  # compared by the rule of compactions
    ApprovalGiven: lambda body: [("user", encode(prompts.not_approved(body)))],
    Delegated: lambda body: [("user", encode(prompts.started(body.address)))],
    Told: lambda body: [("user", encode(prompts.told(body.text)))],
    DelegationEnded: lambda body: [("user", encode(prompts.delegation_result(body)[0]))],
    ReportJudged: lambda body: [("user", encode(prompts.judged_result(body)[0]))],
}
"""Kind of message -> the parts that it may add to its recipient's conversation."""


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw


class _Block(msgspec.Struct):
    type: str
    text: msgspec.Raw = NULL
    content: msgspec.Raw = NULL


def parts_in(message: bytes) -> list[Part]:
    """Return the parts of a message; the content of a reply is one part."""
    read = msgspec.json.decode(message, type=_Message)
    content = bytes(read.content)
    return [(read.role, part) for part in ([content] if read.role == "assistant" else _split(content))]


def _split(content: bytes) -> list[bytes]:
    """Return the texts and results in a user's content; other blocks whole."""
    if not content.startswith(b"["):
        return [content]
    raws = msgspec.json.decode(content, type=list[msgspec.Raw])
    blocks = [(raw, msgspec.json.decode(raw, type=_Block)) for raw in raws]
    parts = {"tool_result": "content", "text": "text"}
    return [bytes(getattr(block, parts[block.type]) if block.type in parts else raw) for raw, block in blocks]


def is_phrase(part: Part) -> bool:
    """Return whether callboard itself says this to a model."""
    try:
        text = msgspec.json.decode(part[1], type=str)
    except msgspec.DecodeError:
        return False
    return part[0] == "user" and (text in _PHRASES or text.startswith(_OPENINGS))
