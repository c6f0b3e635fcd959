"""The result of a tool, as the model reads it.

    text                        unchanged
    None                        "(no output)"
    numbers, dicts, structs     their JSON, as text
    content blocks              unchanged: a list of dicts that are text, image, document, search_result or
                                tool_reference blocks of the Messages API, or any list inside `Blocks`
    bytes, generators, other    an error that says what to return instead

A result above the limit is cut and says so. Text is searched for secrets before it is cut, so that no half of
one stays at the cut. The board searches the results that are not cut.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeGuard

from callboard.actors.protocol.errors import InvalidPrompt, ToolError
from callboard.actors.protocol.immutable import Json, Value
from callboard.actors.protocol.port_messages import ToolStatus
from callboard.actors.protocol.telemetry import Telemetry
from callboard.actors.protocol.value_types import InputAsked
from callboard.runtime.failure_text import text_of
from callboard.runtime.sanitize import clean_text, to_json
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.registry import NO_SECRETS

NO_OUTPUT: Final = to_json("(no output)")  # of a tool that returned None; not a claim of success
MAX_ERROR_CHARS: Final = 2_000  # characters of an exception's message that reach the model
_NOTICE_ROOM = 130
_NOTHING: Final = NO_SECRETS.redactor
_BLOCK_KEYS: Final = {
    "text": "text",
    "image": "source",
    "document": "source",
    "search_result": "content",
    "tool_reference": "tool_name",
}


class ToolOutcome(Value, frozen=True):
    """The outcome of a tool call. output: a JSON string or a list of content blocks.

    trace: the traceback of a tool that raised, for people; no model reads it. asked: the input that it wants,
    of status `input_required`. telemetry: of a tool with unified output; None for any other.
    """

    status: ToolStatus
    output: Json
    trace: str = ""
    asked: InputAsked | None = None
    telemetry: Telemetry | None = None


class Blocks:
    """Content blocks of any type, for the model unchanged: dicts with a `type`.

    >>> Blocks([{"type": "text", "text": "hello"}]).blocks
    [{'type': 'text', 'text': 'hello'}]
    """

    def __init__(self, blocks: Iterable[Mapping[str, object]]) -> None:
        self.blocks = [dict(block) for block in blocks]


def failed(text: str, max_chars: int = MAX_ERROR_CHARS) -> ToolOutcome:
    """Return an error result with this text, for an unknown tool, a forbidden call, and the like."""
    return ToolOutcome("error", to_json(cut(text, max_chars)))


def returned(
    value: object, max_chars: int, redactor: Redactor = _NOTHING, *, may_cut: bool = True
) -> ToolOutcome:
    """Return the outcome of a tool that returned this value. Never raises.

    may_cut: False makes a result above the limit an error, for programs, which need the whole value.
    """
    if value is None:
        return ToolOutcome("ok", NO_OUTPUT)
    try:
        return ToolOutcome("ok", _output(value, max_chars, redactor, may_cut))
    except Exception as error:
        said = str(error) if isinstance(error, InvalidPrompt) else describe(error, redactor)
        reason = _unfinished(value) or said
        return failed(f"The tool ran, but what it returned cannot be used: {reason}", max_chars)


def _output(value: object, max_chars: int, redactor: Redactor, may_cut: bool) -> Json:
    if is_blocks(value):
        blocks = value.blocks if isinstance(value, Blocks) else value
        if not may_cut:
            _refuse_long(sum(len(str(block.get("text", ""))) for block in blocks), max_chars)
        return _blocks(blocks, max_chars, redactor)
    if not isinstance(value, str):
        value = str(value) if type(value) is int else bytes(to_json(value, what="it")).decode()
    if not may_cut:
        _refuse_long(len(value), max_chars)
    return to_json(cut(value, max_chars, redactor))


def _refuse_long(chars: int, max_chars: int) -> None:
    if chars > max_chars:
        raise InvalidPrompt(
            f"it has {chars:,} characters, more than max_tool_output_chars ({max_chars:,}), and a program "
            "gets no part of a value; return less, or the path of a file"
        )


def cut(text: str, max_chars: int, redactor: Redactor = _NOTHING) -> str:
    """Cut a text to max_chars, its notice included; to 130 more where max_chars is tiny."""
    if len(text) <= max_chars:
        return text  # the board searches it for secrets
    kept = max(max_chars - _NOTICE_ROOM, max_chars // 2)
    return (
        f"{redactor.kept(text, kept)}\n[cut: these are the first {kept:,} of {len(text):,} characters; "
        "ask for a part, or for less, to see the rest]"
    )


def describe(error: BaseException, redactor: Redactor = _NOTHING) -> str:
    """Describe an exception in one line: class and message, without a traceback. Never raises.

    A `ToolError` is its message alone, which its author wrote for the model.
    """
    try:
        message = redactor.kept(text_of(error), MAX_ERROR_CHARS)
        if isinstance(error, BaseExceptionGroup):
            parts = "; ".join(describe(part, redactor) for part in error.exceptions[:3])
            message = parts[:MAX_ERROR_CHARS]
    except Exception:
        message = "its message cannot be read"
    name = type(error).__name__
    if isinstance(error, ToolError) and message:
        return clean_text(message)
    return clean_text(f"{name}: {message}" if message else name)


def _unfinished(value: object) -> str:
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that it was never awaited
        return "it is a coroutine; declare the function with async def"
    if inspect.isawaitable(value):
        return "it is an awaitable; declare the function with async def"
    if isinstance(value, Iterator) or inspect.isasyncgen(value):
        return "it is an iterator, which has not run yet; return a list"
    return ""


def is_blocks(value: object) -> TypeGuard[Blocks | list[dict[str, object]]]:
    """Return True for `Blocks`, and for a list of content for a model, not data with a `type` by chance."""
    if isinstance(value, Blocks):
        return True
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and _BLOCK_KEYS.get(str(one.get("type"))) in one for one in value)
    )


def _blocks(blocks: list[dict[str, object]], max_chars: int, redactor: Redactor) -> Json:
    """Encode the blocks, with their texts cut to max_chars together."""
    left, kept = max_chars, []
    for block in blocks:
        if not isinstance(block.get("type"), str):
            raise InvalidPrompt("it has a block without a type; a block is a dict with a type, such as text")
        text = block.get("text")
        if isinstance(text, str):
            if left <= 0:
                continue
            kept.append({**block, "text": cut(text, left, redactor)})
            left -= len(text)
        else:
            kept.append(block)
    return to_json(kept, what="it")
