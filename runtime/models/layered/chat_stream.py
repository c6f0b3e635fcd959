"""A stream of Chat Completions whose calls come at its end, each in one piece.

The events without calls go to the layer as they came. The pieces of calls are kept back until the end, joined
(`chat_calls`), and written as one event, in which each call has an index of its own.
"""

from collections.abc import Callable
from typing import Final

from callboard.runtime.models.call_arguments import UNFINISHED, Settled
from callboard.runtime.models.layered.chat_calls import JoinedCall, Piece, joined, piece_of
from callboard.runtime.models.layered.dialects import JsonObject
from callboard.runtime.models.layered.events import data_of, event_of, value_of

_CUT: Final = frozenset({None, "length", "max_tokens", "content_filter"})
"""Ends after which a call without arguments may have lost them."""

OnCalls = Callable[[list[str]], None]
"""Told once: for each call the reason not to run it, "" to run it."""


class ChatStream:
    """The calls of one stream. tools: the names of those that were offered. on_calls: told of the calls."""

    def __init__(self, tools: frozenset[str], on_calls: OnCalls) -> None:
        self._tools = tools
        self._on_calls = on_calls
        self._pieces: list[Piece] = []
        self._closing: list[Piece] = []
        self._first: JsonObject = {}  # the event with the first of them
        self._end: object = None

    def take(self, event: bytes) -> bytes:
        """Take an event. Return the events to read in its place. Raises what a wrong form raises."""
        if not self._first and b'"tool_calls"' not in event:
            return event
        data = data_of(event)
        if data == b"[DONE]":
            return self.end() + event
        if not data:  # a comment, to keep the connection alive
            return event
        chunk = value_of(event)
        if not isinstance(chunk, dict) or not chunk.get("choices"):
            return event
        return event_of(chunk) if self._has_taken(chunk) else event

    def end(self) -> bytes:
        """Return the event with the calls; b"" without one."""
        first, self._first = self._first, {}
        if not first:
            return b""
        calls = joined(self._pieces, self._closing, self._tools)
        if self._end in _CUT:
            calls = [_unfinished(call) for call in calls]
        self._on_calls([call.arguments.why for call in calls])
        delta = {"tool_calls": [_written(call, index) for index, call in enumerate(calls)]}
        choice = {**first["choices"][0], "delta": delta, "finish_reason": None}
        choice.pop("message", None)
        return event_of({**first, "choices": [choice], "usage": None})

    def _has_taken(self, chunk: JsonObject) -> bool:
        """Take the calls out of an event. Return False if it has none."""
        choice = chunk["choices"][0]
        self._end = choice.get("finish_reason") or self._end
        said = [one for name in ("delta", "message") if (one := choice.get(name)) and one.get("tool_calls")]
        if not said:
            return False
        if not self._first:
            self._first = {**chunk, "choices": [{**choice}]}
        for one in said:
            calls = one.pop("tool_calls")
            found = [piece_of(call, at if len(calls) > 1 else None) for at, call in enumerate(calls)]
            if one is choice.get("delta"):
                self._pieces += found
            elif found != self._closing:  # some servers say it twice
                self._closing += found
        return True


def _unfinished(call: JoinedCall) -> JoinedCall:
    """Refuse a call without arguments in an answer that was cut."""
    is_none = call.arguments == Settled("{}") and not call.has_text
    return call._replace(arguments=Settled("", UNFINISHED)) if is_none else call


def _written(call: JoinedCall, index: int) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments.text}
    return {**call.rest, "index": index, "id": call.id or None, "type": "function", "function": function}
