"""The events of ConverseStream: binary frames with checksums, joined to the whole answer that Converse gives.

event                the part of the answer
contentBlockStart    the begin of a call, or of the result of a tool of the service
contentBlockDelta    a piece of a block: text, arguments, reasoning, a citation, a result
contentBlockStop     the end of a block: a call without arguments so far has none
messageStop          stopReason
metadata             usage, trace
any other            none

A piece belongs to the last block of its index and kind (`call_blocks`).
"""

import base64
import json
from typing import Any, Final

import msgspec
from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError
from botocore.exceptions import EventStreamError

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.models.call_arguments import CallBlock, once_each
from callboard.runtime.models.failures import CallFailed, garbage_answer

_TOLD: Final = frozenset({"stopReason", "usage", "trace"})
_CALL: Final = "toolUse"
_KINDS: Final = (_CALL, "toolResult", "reasoningContent")
_OPERATION: Final = "ConverseStream"


class Events:
    """The events of one answer."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()
        self._blocks: list[_Block] = []
        self._last: dict[tuple[object, str], _Block] = {}  # of each index and kind
        self.refused: list[str] = []
        self._told: JsonObject = {}
        self._failed: EventStreamError | None = None

    def take(self, data: bytes) -> str:
        """Read further bytes. Return the text in them. Raises CallFailed for bytes that are not events."""
        self._buffer.add_data(data)
        try:
            return "".join(map(self._text, list(self._buffer)))
        except (ParserError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise _garbage(error) from error

    def whole(self) -> JsonObject:
        """Return the answer, without a reason for its end if none came. Note the calls that must not run.

        Raises EventStreamError for the error that the service sent, CallFailed for pieces of no text.
        """
        if self._failed is not None:
            raise self._failed
        try:
            content = [block.whole() for block in self._kept()]
        except (ValueError, TypeError) as error:
            raise _garbage(error) from error
        return {"output": {"message": {"role": "assistant", "content": content}}, **self._told}

    def _text(self, message: EventStreamMessage) -> str:
        headers = message.headers
        if headers[":message-type"] != "event":
            self._failed = _error_of(headers, message.payload)
            return ""
        kind, value = headers[":event-type"], _parsed(message.payload)
        if kind == "contentBlockDelta":
            delta = value["delta"]
            return self._block(value, _kind_of(delta)).add(delta)
        if kind == "contentBlockStart":
            self._begin(value)
        elif kind == "contentBlockStop":
            self._stop(value.get("contentBlockIndex"))
        elif kind in ("messageStop", "metadata"):
            self._told |= {key: value[key] for key in _TOLD & value.keys()}
        return ""

    def _block(self, value: JsonObject, kind: str) -> "_Block":
        index = value.get("contentBlockIndex")
        found = self._last.get((index, kind))
        if found is None:
            found = self._last[index, kind] = _Block()
            self._blocks.append(found)
        return found

    def _begin(self, value: JsonObject) -> None:
        """Begin a block that is a call or a result."""
        index, begin = value.get("contentBlockIndex"), value["start"]
        kind = _kind_of(begin)
        before = self._last.get((index, kind))
        if before is not None and before.is_begun_again(begin):
            return
        self._last.pop((index, kind), None)
        block = self._block(value, kind)
        block.start(begin, index)
        if before is not None and before.call is not None and block.call is not None:
            block.call.follows(before.call)

    def _stop(self, index: object) -> None:
        block = self._last.get((index, _CALL))
        if block is not None and block.call is not None:
            block.call.is_stopped = True

    def _kept(self) -> "list[_Block]":
        """Return the blocks, each call once. Note for each call the reason not to run it."""
        again = once_each([block.call for block in self._blocks if block.call is not None])
        kept = [block for block in self._blocks if block.call not in again]
        self.refused = [block.call.settled().why for block in kept if block.call is not None]
        return kept


class _Block:
    """A block of content. Its pieces are joined at the end: an answer may have a hundred thousand.

    call: None for any other block.
    """

    def __init__(self) -> None:
        self.call: CallBlock | None = None
        self._begin: JsonObject = {}
        self._texts: list[str] = []
        self._reasoning: dict[str, list[Any]] = {}
        self._citations: list[object] = []
        self._results: list[object] = []

    def start(self, begin: JsonObject, index: object) -> None:
        """Begin a block that is a call or a result."""
        self._begin = {**begin}
        if use := begin.get(_CALL):
            told = use.get("input") or ""
            whole = told if isinstance(told, str) else json.dumps(told)
            self.call = CallBlock(index, use.get("toolUseId") or "", use.get("name"), whole)

    def is_begun_again(self, begin: JsonObject) -> bool:
        """Return True for the same begin a second time, before any piece."""
        return self._begin == begin and self.call is not None and not self.call.has_begun

    def add(self, delta: JsonObject) -> str:
        """Add a piece. Return its text. Raises LookupError for a piece of a call that did not begin."""
        if "reasoningContent" in delta:
            for kind, piece in delta["reasoningContent"].items():
                self._reasoning.setdefault(kind, []).append(piece)
        if _CALL in delta:
            if self.call is None:
                raise LookupError("a piece of a call that did not begin")
            self.call.add(delta[_CALL].get("input", ""))
        if "citation" in delta:
            self._citations.append(delta["citation"])
        if "toolResult" in delta:
            self._results += delta["toolResult"]
        text: str = delta.get("text", "")
        self._texts.append(text)
        return text

    def whole(self) -> JsonObject:
        """Return the block as Converse has it, but for the arguments of a call: as they were written."""
        if self.call is not None:
            return {_CALL: {**self._begin[_CALL], "input": self.call.settled().text}}
        if result := self._begin.get("toolResult"):
            return {"toolResult": {**result, "content": self._results}}
        if self._reasoning:
            return {"reasoningContent": _reasoning(self._reasoning)}
        text = "".join(self._texts)
        if self._citations:
            return {"citationsContent": {"content": [{"text": text}], "citations": self._citations}}
        return {"text": text}


def _kind_of(part: JsonObject) -> str:
    if "text" in part:  # nearly every one
        return ""
    return next((kind for kind in _KINDS if kind in part), "")


def _reasoning(pieces: dict[str, list[Any]]) -> JsonObject:
    if hidden := pieces.get("redactedContent"):
        return {"redactedContent": b"".join(base64.b64decode(one, validate=True) for one in hidden)}
    told = {"text": "".join(pieces.get("text", ()))}
    if signature := "".join(pieces.get("signature", ())):
        told["signature"] = signature
    return {"reasoningText": told}


def _parsed(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError:
        # With half of a surrogate pair, whose other half may come with the next event: cleaned once joined.
        return json.loads(payload.decode("utf-8", "replace"))


def _garbage(error: Exception) -> CallFailed:
    return garbage_answer(f"the stream is not in the form of converse: {error}")


def _error_of(headers: JsonObject, payload: bytes) -> EventStreamError:
    told = _parsed(payload or b"{}")
    code = headers.get(":exception-type") or headers.get(":error-code", "")
    words = told.get("message") or headers.get(":error-message", "")
    return EventStreamError({"Error": {"Code": code, "Message": words}}, _OPERATION)
