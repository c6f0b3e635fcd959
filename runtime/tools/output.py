"""The result of a tool, as the model reads it.

    text                        unchanged
    None                        "(no output)"
    numbers, dicts, structs     their JSON, as text
    content blocks              unchanged: a list of dicts that are text, image, document, search_result or
                                tool_reference blocks of the Messages API, or any list inside `Blocks`
    values of any other type    as `foreign_values.py` has them, with a note on what JSON has no form for
    coroutines, awaitables      an error: their work has not begun

A result above the limit is cut and says so. Text is searched for secrets before it is cut, so that no half of
one stays at the cut. The board searches the results that are not cut.

Tracebacks of tools for the log: short, without secrets, without callboard's own frames.
"""

import inspect
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.errors import InvalidPrompt, ToolError
from callboard.actors.protocol.immutable import Json, Value
from callboard.actors.protocol.port_messages import ToolStatus
from callboard.actors.protocol.telemetry import Telemetry
from callboard.actors.protocol.value_types import InputAsked
from callboard.runtime.failure_text import text_of
from callboard.runtime.foreign_types import BYTES
from callboard.runtime.foreign_values import note_of, taken
from callboard.runtime.sanitize import MAX_DEPTH, clean_text, to_json, without_blanks
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.registry import NO_SECRETS

_SMALL_DIGITS: Final = 15
_SMALL: Final = 10**_SMALL_DIGITS
NO_OUTPUT: Final = to_json("(no output)")  # of a tool that returned None; not a claim of success
MAX_ERROR_CHARS: Final = 2_000  # characters of an exception's message that reach the model
_NOTICE_ROOM = 130
UNUSABLE: Final = "The tool ran, but what it returned cannot be used: "
_LESS: Final = "return less, or the path of a file"
_WRITTEN: Final = frozenset((str, int, float, bool, list, dict))  # of most results, and no work that waits
_STRING: Final = msgspec.json.Decoder(str)
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
    if type(value) not in _WRITTEN and (reason := unfinished(value)):
        return failed(f"{UNUSABLE}{reason}", max_chars)
    try:
        return ToolOutcome("ok", _output(value, max_chars, redactor, may_cut))
    except InvalidPrompt as error:  # a program never gets part of a value
        return failed(f"{UNUSABLE}{error}", max_chars)


def _output(value: object, max_chars: int, redactor: Redactor, may_cut: bool) -> Json:
    """Encode a result. Raises InvalidPrompt for one that is too large for a program."""
    if type(value) is int and 0 <= value < _SMALL and max_chars >= _SMALL_DIGITS:
        return Json(b'"%d"' % value)  # as below, at a tenth of the work: counts and sums are common results
    if isinstance(value, str):
        return _text_output(value, max_chars, redactor, may_cut, "")
    if (blocks := blocks_in(value)) is not None:
        if not may_cut:
            _refuse_long(sum(len(str(block.get("text", ""))) for block in blocks), max_chars)
        return _blocks(blocks, max_chars, redactor)
    text, notes = _text(value, may_cut)
    return _text_output(text, max_chars, redactor, may_cut, notes)


def _text_output(text: str, max_chars: int, redactor: Redactor, may_cut: bool, notes: str) -> Json:
    """Encode a text, cut with room for the notes. Raises InvalidPrompt for one that must not be cut."""
    if not may_cut:
        _refuse_long(len(text), max_chars)
        return to_json(text)
    return to_json(cut(text, max(0, max_chars - len(notes)), redactor) + notes)


def _text(value: object, may_cut: bool) -> tuple[str, str]:
    """Return a result as text, and the line of notes on it. A program gets JSON, and no notes."""
    found = taken(value.blocks if isinstance(value, Blocks) else value, bytes_as_text=may_cut)
    text = bytes(found.json).decode()
    if may_cut:
        return (_STRING.decode(found.json) if isinstance(value, BYTES) else text), note_of(found.notes)
    if found.is_cut:
        raise InvalidPrompt(f"it is too large for a value; {_LESS}")
    return text, ""


def _refuse_long(chars: int, max_chars: int) -> None:
    if chars > max_chars:
        raise InvalidPrompt(
            f"it has {chars:,} characters, more than max_tool_output_chars ({max_chars:,}), and a program "
            f"gets no part of a value; {_LESS}"
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


def unfinished(value: object) -> str:
    """Return the reason why a result is work that has not begun; empty for any other."""
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that it was never awaited
        return "it is a coroutine; declare the function with async def"
    if inspect.isawaitable(value):
        return "it is an awaitable; declare the function with async def"
    if inspect.isasyncgen(value):
        return "it is an async iterator, which has not run yet; return a list"
    return ""


def blocks_in(value: object) -> list[dict[str, object]] | None:
    """Return the content blocks that a result is, in `Blocks` or in a list; None for any other result.

    Data in a list that has a `type` by chance is not content for a model.
    """
    if isinstance(value, Blocks):
        return value.blocks if all(isinstance(one.get("type"), str) for one in value.blocks) else None
    if not (isinstance(value, list) and value):
        return None
    is_content = all(isinstance(one, dict) and _BLOCK_KEYS.get(str(one.get("type"))) in one for one in value)
    return value if is_content else None


def _blocks(blocks: list[dict[str, object]], max_chars: int, redactor: Redactor) -> Json:
    """Encode the blocks without blank texts, with the others cut to max_chars together."""
    left = max_chars
    kept: list[Mapping[str, object]] = []
    for block in without_blanks(blocks):
        text = block.get("text")
        if isinstance(text, str):
            if left <= 0:
                continue
            kept.append({**block, "text": cut(text, left, redactor)})
            left -= len(text)
        else:
            kept.append(block)
    if not kept:
        return NO_OUTPUT
    found = taken(kept, max_depth=MAX_DEPTH + 1)  # a list around the blocks
    if not found.notes:
        return found.json
    return Json(b"".join((bytes(found.json)[:-1], b",", text_block(note_of(found.notes).strip()), b"]")))


TRACE_CHARS_MAX: Final = 4_000  # of a traceback in the log: its end, where the cause stands
_SEARCHED_CHARS: Final = 20 * TRACE_CHARS_MAX  # an exception's message may be as long as a file
_OWN: Final = str(Path(__file__).parent.parent)


def trace_of(error: BaseException, redactor: Redactor) -> str:
    """Return the end of an exception's traceback for people. Never raises.

    Empty for a `ToolError`: its author wrote all that there is to say.
    """
    if isinstance(error, ToolError):
        return ""
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _drop_own(told)
        text = "".join(told.format())
        return clean_text(redactor.text(text[-_SEARCHED_CHARS:])[-TRACE_CHARS_MAX:].strip())
    except Exception:  # an exception's own methods may raise anything
        return ""


def _drop_own(told: traceback.TracebackException | None) -> None:
    """Drop the frames of callboard from a traceback and from those of its causes. Shorten the others."""
    while told is not None:
        kept = [_short(frame) for frame in told.stack if not frame.filename.startswith(_OWN)]
        told.stack = traceback.StackSummary.from_list(kept)
        told = told.__cause__ or told.__context__


def _short(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    """Return a frame without the folders above its package: a log is handed on, a user's name need not be."""
    where = "/".join(Path(frame.filename).parts[-2:])
    return traceback.FrameSummary(where, frame.lineno, frame.name, line=frame.line)
