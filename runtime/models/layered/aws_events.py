"""The events of ConverseStream: binary frames with checksums, joined to the whole answer that Converse gives.

event                the part of the answer
contentBlockStart    the begin of a call, or of the result of a tool of the service
contentBlockDelta    a piece of a block: text, arguments, reasoning, a citation, a result
messageStop          stopReason
metadata             usage, trace
any other            none
"""

import base64
import json
from typing import Any, Final

import msgspec
from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError
from botocore.exceptions import EventStreamError

from callboard.runtime.models.failures import CallFailed, garbage_answer
from callboard.runtime.models.layered.dialects import JsonObject

_TOLD: Final = frozenset({"stopReason", "usage", "trace"})
_OPERATION: Final = "ConverseStream"


class Events:
    """The events of one answer."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()
        self._blocks: dict[int, _Block] = {}
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
        """Return the answer, without a reason for its end if none came.

        Raises EventStreamError for the error that the service sent, CallFailed for pieces of no text.
        """
        if self._failed is not None:
            raise self._failed
        try:
            content = [block.whole() for block in self._blocks.values()]
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
            return self._block(value).add(value["delta"])
        if kind == "contentBlockStart":
            self._block(value).start(value["start"])
        elif kind in ("messageStop", "metadata"):
            self._told |= {key: value[key] for key in _TOLD & value.keys()}
        return ""

    def _block(self, value: JsonObject) -> "_Block":
        return self._blocks.setdefault(value["contentBlockIndex"], _Block())


class _Block:
    """A block of content. Its pieces are joined at the end: an answer may have a hundred thousand."""

    def __init__(self) -> None:
        self._begin: JsonObject = {}
        self._texts: list[str] = []
        self._reasoning: dict[str, list[Any]] = {}
        self._citations: list[object] = []
        self._results: list[object] = []

    def start(self, begin: JsonObject) -> None:
        """Begin a block that is a call or a result."""
        self._begin = {**begin}

    def add(self, delta: JsonObject) -> str:
        """Add a piece. Return its text. Raises LookupError for a piece of a call that did not begin."""
        if "reasoningContent" in delta:
            for kind, piece in delta["reasoningContent"].items():
                self._reasoning.setdefault(kind, []).append(piece)
        if "toolUse" in delta:
            self._begin["toolUse"].setdefault("input", []).append(delta["toolUse"].get("input", ""))
        if "citation" in delta:
            self._citations.append(delta["citation"])
        if "toolResult" in delta:
            self._results += delta["toolResult"]
        text: str = delta.get("text", "")
        self._texts.append(text)
        return text

    def whole(self) -> JsonObject:
        """Return the block as Converse has it, but for the arguments of a call: as they were written."""
        if use := self._begin.get("toolUse"):
            return {"toolUse": {**use, "input": "".join(use.get("input", ()))}}
        if result := self._begin.get("toolResult"):
            return {"toolResult": {**result, "content": self._results}}
        if self._reasoning:
            return {"reasoningContent": _reasoning(self._reasoning)}
        text = "".join(self._texts)
        if self._citations:
            return {"citationsContent": {"content": [{"text": text}], "citations": self._citations}}
        return {"text": text}


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
