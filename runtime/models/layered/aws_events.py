"""The events of ConverseStream: binary frames with checksums, read from the bytes as they come.

Pieces of one block are joined, so that the layer reads few events of a long answer.
"""

import base64
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError
from botocore.exceptions import EventStreamError

from callboard.runtime.models.failures import garbage_answer
from callboard.runtime.models.layered.dialects import JsonObject

_DELTA: Final = "contentBlockDelta"
_OPERATION: Final = "ConverseStream"


class Events:
    """The events of one answer. An iteration raises EventStreamError for the error that the service sent."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()
        self._events: list[JsonObject] = []
        self._failed: EventStreamError | None = None

    def take(self, data: bytes) -> str:
        """Read further bytes. Return the text in them. Raises CallFailed for bytes that are no events."""
        self._buffer.add_data(data)
        try:
            return "".join(map(self._text, list(self._buffer)))
        except (ParserError, ValueError, LookupError, TypeError) as error:
            raise garbage_answer(f"the stream is not in the form of converse: {error}") from error

    def __iter__(self) -> Iterator[JsonObject]:
        yield from self._events
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """Do nothing: all has been read."""

    def _text(self, message: EventStreamMessage) -> str:
        headers = message.headers
        if headers[":message-type"] != "event":
            self._failed = _error_of(headers, message.payload)
            return ""
        kind, value = headers[":event-type"], msgspec.json.decode(message.payload)
        if kind != _DELTA:
            self._events.append({kind: value})
            return ""
        return self._delta(value)

    def _delta(self, value: JsonObject) -> str:
        """Keep a piece of a block. Return its text."""
        delta = _decoded(value["delta"])
        if not _is_joined(self._events[-1:], value["contentBlockIndex"], delta):
            self._events.append({_DELTA: {**value, "delta": delta}})
        return str(value["delta"].get("text", ""))


def _error_of(headers: JsonObject, payload: bytes) -> EventStreamError:
    told = msgspec.json.decode(payload or b"{}")
    code = headers.get(":exception-type") or headers.get(":error-code", "")
    words = told.get("message") or headers.get(":error-message", "")
    return EventStreamError({"Error": {"Code": code, "Message": words}}, _OPERATION)


def _decoded(delta: JsonObject) -> JsonObject:
    """Return a piece of a block with its sealed reasoning as bytes."""
    sealed = delta.get("reasoningContent", {}).get("redactedContent")
    return delta if sealed is None else {"reasoningContent": {"redactedContent": base64.b64decode(sealed)}}


def _is_joined(last: list[JsonObject], index: object, delta: JsonObject) -> bool:
    """Add a piece to the last event if that is of the same block. Return whether it was."""
    before = last[0].get(_DELTA) if last else None
    return before is not None and before["contentBlockIndex"] == index and _join(before["delta"], delta)


def _join(last: JsonObject, more: JsonObject) -> bool:
    """Add a piece to the last one, if both are text of one kind. Return whether they are."""
    (kind,), (other,) = last, more
    if kind != other:
        return False
    one, two = last[kind], more[kind]
    if isinstance(one, str) and isinstance(two, str):
        last[kind] = one + two
        return True
    return _join_inner(one, two)


def _join_inner(one: Any, two: Any) -> bool:
    if not isinstance(one, dict) or one.keys() != two.keys() or one.keys() not in ({"text"}, {"input"}):
        return False
    for key in one:
        one[key] += two[key]
    return True
