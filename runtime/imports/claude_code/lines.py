"""The lines of a transcript of Claude Code, as parts of traffic.

    user        a text, or results of calls with texts beside them; `[Request interrupted by user]` breaks off
    assistant   a message, or one block of it: a line for each, with the same `message.id`
    system      `compact_boundary`: the conversation begins again with a summary

The output of `claude -p --output-format stream-json` has the same lines without parents and times; those of a
sub-agent name the call that began it (`parent_tool_use_id`).

Every other type is left out: titles, snapshots, attachments, queues, progress. So are unknown fields. A line
that is not a JSON object is left out and counted.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from callboard.actors.protocol.usage import ZERO
from callboard.runtime.imports.pieces import text_in
from callboard.runtime.imports.traffic import Block, Broken, Part, Returned, Said, Words
from callboard.runtime.models.anthropic.answer import usage_of
from callboard.runtime.sanitize import clean_json

BROKEN_OFF: Final = "[Request interrupted by user"
SYNTHETIC: Final = "<synthetic>"
_MESSAGES: Final = ("user", "assistant", "tool_result")
TASKS: Final = frozenset({"Task", "Agent"})


class Line(msgspec.Struct, gc=False):
    """The fields that the import reads. Each may have any value: no version of the format is written down."""

    type: object = None
    subtype: object = None
    uuid: object = None
    parentUuid: object = None
    sessionId: object = None
    session_id: object = None
    agentId: object = None
    parent_tool_use_id: object = None
    isSidechain: object = None
    isMeta: object = None
    isCompactSummary: object = None
    isApiErrorMessage: object = None
    timestamp: object = None
    version: object = None
    cwd: object = None
    gitBranch: object = None
    message: object = None
    toolUseResult: msgspec.Raw = msgspec.Raw(b"null")


class _Task(msgspec.Struct, gc=False):
    agentId: object = None
    status: object = None


_LINE: Final = msgspec.json.Decoder(Line)
_TASK: Final = msgspec.json.Decoder(_Task)


def line_of(data: bytes) -> Line | None:
    """Read a line; None for one that is not a JSON object."""
    try:
        return _LINE.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass  # read once more below, cleaned
    try:  # lone surrogates and bytes that are no text, which other readers pass over
        return _LINE.decode(clean_json(data))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def is_message(line: Line) -> bool:
    """Return True for a line of the conversation."""
    return line.type in _MESSAGES and isinstance(line.message, dict)


def agent_of(line: Line) -> str:
    """Return the sub-agent whose line it is, as the line says; empty for none."""
    return _text(line.agentId) or _text(line.parent_tool_use_id)


def is_side(line: Line) -> bool:
    """Return True for a line of a sub-agent's conversation."""
    return line.isSidechain is True or bool(_text(line.parent_tool_use_id))


def is_prompt(line: Line) -> bool:
    """Return True for a line of the user that has no result of a call."""
    return line.type != "assistant" and not any(one.get("type") == "tool_result" for one in blocks_of(line))


def time_of(line: Line) -> int:
    """Return the time of a line in milliseconds since 1970 UTC; 0 for none."""
    if not isinstance(line.timestamp, str):
        return 0
    try:
        when = datetime.fromisoformat(line.timestamp)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0, round(when.timestamp() * 1_000))
    except (ValueError, OverflowError, OSError):
        return 0


def message_of(line: Line) -> Block:
    """Return the message of a line; an empty one if it has none."""
    return line.message if isinstance(line.message, dict) else {}


def blocks_of(line: Line) -> list[Block]:
    """Return the blocks of the content of a message."""
    content = message_of(line).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def parts_of(line: Line) -> list[Part]:
    """Return the parts of traffic in a line of the conversation."""
    return [_said(line)] if line.type == "assistant" else _of_user(line)


def _said(line: Line) -> Said:
    message, blocks = message_of(line), [_readable(one) for one in blocks_of(line)]
    model = _text(message.get("model"))
    usage = ZERO if model == SYNTHETIC else usage_of(message.get("usage"))
    failure = text_in(blocks) or "the call failed" if line.isApiErrorMessage is True else ""
    reason = _text(message.get("stop_reason"))
    return Said(time_of(line), blocks, _text(message.get("id")), reason, usage, model, failure)


def _readable(block: Block) -> Block:
    """Return a block that a decider can read: a call has a name, an id, and an object of arguments."""
    if block.get("type") != "tool_use":
        return block
    given = block.get("input")
    name = block.get("name") if isinstance(block.get("name"), str) and block.get("name") else "unnamed"
    return {
        **block,
        "id": _text(block.get("id")),
        "name": name,
        "input": given if isinstance(given, dict) else {},
    }


def _of_user(line: Line) -> list[Part]:
    at = time_of(line)
    found: list[Part] = []
    words: list[Block] = []
    for block in blocks_of(line):
        if block.get("type") == "tool_result":
            content = block.get("content")
            is_read = isinstance(content, str | list)
            given = (
                content
                if isinstance(content, str)
                else [one for one in content or [] if isinstance(one, dict)]
            )
            call, is_error = _text(block.get("tool_use_id")), block.get("is_error") is True
            found.append(Returned(at, call, given if is_read else "", is_error))
        elif block.get("type") == "text" and _text(block.get("text")).startswith(BROKEN_OFF):
            found.append(Broken(at, _text(block.get("text"))))
        else:
            words.append(block)
    return [*found, Words(at, words)] if words else found


def task_of(line: Line) -> tuple[str, bool]:
    """Return the id of the sub-agent whose result a line has, and True if it went on in the background."""
    try:
        task = _TASK.decode(line.toolUseResult)
    except (msgspec.DecodeError, RecursionError):
        task = _Task()
    return _text(task.agentId) or (
        "" if line.isSidechain is True else _text(line.agentId)
    ), task.status == "async_launched"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
