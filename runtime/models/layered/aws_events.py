"""The events of ConverseStream: binary frames with checksums, joined to the whole answer that Converse gives.

event                the part of the answer
contentBlockStart    the begin of a call, or of the result of a tool of the service
contentBlockDelta    a piece of a block: text, arguments, reasoning, a citation, a result
contentBlockStop     the end of a block: a call without arguments so far has none
messageStop          stopReason
metadata             usage, trace
any other            none

A block is named by its index. Some gateways leave that out, or give all blocks the same: then a piece belongs to
the last block of its kind, and a call to which a piece may belong that went elsewhere is refused.
"""

import base64
import json
from typing import Any, Final

import msgspec
from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError
from botocore.exceptions import EventStreamError

from callboard.runtime.models.call_arguments import CONTRADICTED, UNCLEAR, Settled, is_object, settled
from callboard.runtime.models.failures import CallFailed, garbage_answer
from callboard.runtime.models.layered.dialects import JsonObject

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
        """Read further bytes. Return the text in them. Raises CallFailed for bytes that are no events."""
        self._buffer.add_data(data)
        try:
            return "".join(map(self._text, list(self._buffer)))
        except (ParserError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise _garbage(error) from error

    def whole(self) -> JsonObject:
        """Return the answer, without a reason for its end if none came. Note the calls that are not to be run.

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
        kind, value = headers[":event-type"], msgspec.json.decode(message.payload)
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
            found = self._last[index, kind] = _Block(kind)
            found.index = index
            self._blocks.append(found)
        return found

    def _begin(self, value: JsonObject) -> None:
        """Begin a block that is a call or a result."""
        index, begin = value.get("contentBlockIndex"), value["start"]
        kind = _kind_of(begin)
        before = self._last.get((index, kind))
        if before is None or not before.is_begun_again(begin):
            self._last.pop((index, kind), None)
            self._block(value, kind).start(begin, before)

    def _stop(self, index: object) -> None:
        for (at, _), block in self._last.items():
            if at == index:
                block.is_stopped = True

    def _kept(self) -> "list[_Block]":
        """Return the blocks, each call once. Note for each call the reason not to run it."""
        kept: list[_Block] = []
        calls: dict[tuple[str, object], _Block] = {}
        for block in self._blocks:
            if block.kind == _CALL:
                key = (block.call_id, block.index)
                same = calls.setdefault(key, block) if block.call_id else block
                if same is not block and same.settled() == block.settled():
                    continue
                if same is not block:
                    same.why = block.why = CONTRADICTED
            kept.append(block)
        self.refused = [block.settled().why for block in kept if block.kind == _CALL]
        return kept


class _Block:
    """A block of content. Its pieces are joined at the end: an answer may have a hundred thousand.

    kind: the key of its pieces that it alone has, "" for text. why: the reason not to run it, if it is a call.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index: object = None
        self.call_id = ""
        self.why = ""
        self.is_stopped = False
        self._begin: JsonObject = {}
        self._input: list[str] = []
        self._texts: list[str] = []
        self._reasoning: dict[str, list[Any]] = {}
        self._citations: list[object] = []
        self._results: list[object] = []

    def start(self, begin: JsonObject, before: "_Block | None") -> None:
        """Begin a block that is a call or a result. before: the one that its index led to so far."""
        self._begin = {**begin}
        self.call_id = begin.get(_CALL, {}).get("toolUseId") or ""
        if before is not None and self.kind == _CALL and not before.is_stopped:
            if before.settled().why or not is_object(before.settled().text):
                before.why = self.why = UNCLEAR

    def is_begun_again(self, begin: JsonObject) -> bool:
        """Return True for the same begin a second time, before any piece."""
        return self._begin == begin and not self._input and not self.is_stopped

    def add(self, delta: JsonObject) -> str:
        """Add a piece. Return its text. Raises LookupError for a piece of a call that did not begin."""
        if "reasoningContent" in delta:
            for kind, piece in delta["reasoningContent"].items():
                self._reasoning.setdefault(kind, []).append(piece)
        if _CALL in delta:
            if not self._begin:
                raise LookupError("a piece of a call that did not begin")
            self._input.append(delta[_CALL].get("input", ""))
            self.why = self.why or UNCLEAR * self.is_stopped
        if "citation" in delta:
            self._citations.append(delta["citation"])
        if "toolResult" in delta:
            self._results += delta["toolResult"]
        text: str = delta.get("text", "")
        self._texts.append(text)
        return text

    def settled(self) -> Settled:
        """Return the arguments of a call."""
        told = self._begin[_CALL].get("input")
        wholes = [told if isinstance(told, str) else json.dumps(told)] if told else []
        found = settled(self._input, wholes, is_told=self.is_stopped)
        return Settled(found.text, found.why or self.why)

    def whole(self) -> JsonObject:
        """Return the block as Converse has it, but for the arguments of a call: as they were written."""
        if use := self._begin.get(_CALL):
            return {_CALL: {**use, "input": self.settled().text}}
        if result := self._begin.get("toolResult"):
            return {"toolResult": {**result, "content": self._results}}
        if self._reasoning:
            return {"reasoningContent": _reasoning(self._reasoning)}
        text = "".join(self._texts)
        if self._citations:
            return {"citationsContent": {"content": [{"text": text}], "citations": self._citations}}
        return {"text": text}


def _kind_of(part: JsonObject) -> str:
    return next((kind for kind in _KINDS if kind in part), "")


def _reasoning(pieces: dict[str, list[Any]]) -> JsonObject:
    if hidden := pieces.get("redactedContent"):
        return {"redactedContent": b"".join(base64.b64decode(one, validate=True) for one in hidden)}
    told = {"text": "".join(pieces.get("text", ()))}
    if signature := "".join(pieces.get("signature", ())):
        told["signature"] = signature
    return {"reasoningText": told}


def _garbage(error: Exception) -> CallFailed:
    return garbage_answer(f"the stream is not in the form of converse: {error}")


def _error_of(headers: JsonObject, payload: bytes) -> EventStreamError:
    told = msgspec.json.decode(payload or b"{}")
    code = headers.get(":exception-type") or headers.get(":error-code", "")
    words = told.get("message") or headers.get(":error-message", "")
    return EventStreamError({"Error": {"Code": code, "Message": words}}, _OPERATION)
