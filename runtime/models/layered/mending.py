"""The streams of servers as the layer can join them: the calls in them are joined here, from the wire.

The layer joins pieces by one key, which servers leave out, repeat and change. So it never gets pieces: each
call reaches it once, whole, with the reason not to run it beside it.

    dialect            what the layer gets
    chat               the stream, with the calls as one event at its end
    responses          the whole answer that the stream makes
    generate-content   the stream, without the calls that came twice
    converse           the whole answer (`aws_events`)

The calls of a stream of generateContent: each part holds a whole one, so only doubles and pieces matter.

A call that comes again under its id is the same one, and is left out. If its arguments have grown meanwhile,
both are kept and none runs; any other arguments are those of another call. Without ids, an equal call in a
later event may be the same one or another: it is kept and does not run. Nor does a call that comes in pieces
(`partialArgs`), which callboard never asks for.

A stream of Chat Completions whose calls come at its end, each in one piece.

The events without calls go to the layer as they came. The pieces of calls are kept back until the end, joined
(`chat_calls`), and written as one event, in which each call has an index of its own.

Its usage comes once, in whole numbers. The layer adds up what the events report, but each report is the total
so far: vLLM and others send one with every event, some gateways send the last one twice, and some servers end
with zeros. Moonshot reports in the choice.
"""

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple, Protocol

import httpx2

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.models.answer_bodies import BOTH, counts_of
from callboard.runtime.models.call_arguments import CONTRADICTED, DOUBLED, UNFINISHED, Settled
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.chat_calls import JoinedCall, Piece, joined, piece_of
from callboard.runtime.models.layered.dialects import (
    CHAT,
    GENERATE_CONTENT,
    Dialect,
    Mender,
    Split,
    data_of,
    event_of,
    value_of,
)
from callboard.runtime.models.layered.responses_stream import ResponsesStream

_WRONG_FORM: Final = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError)
_CUT: Final = frozenset({None, "length", "max_tokens", "content_filter"})
"""Ends after which a call without arguments may have lost them."""
_KEPT: Final = re.compile(rb'"tool_calls"|"(?:usage|logprobs)"\s*:\s*[^n\s]')
"""In an event that does not go to the layer as it came."""
OnCalls = Callable[[list[str]], None]
"""Told once: for each call the reason not to run it, "" to run it."""


class Asked(Protocol):
    """The call whose answer is mended, as far as that matters."""

    dialect: Dialect
    tools: frozenset[str]
    refused: list[str]

    def spoil(self, what: str, code: str = "garbage") -> ValueError:
        """Keep the reason why the answer cannot be read, and return it as an error to raise."""


def mended(asked: Asked, response: httpx2.Response) -> httpx2.Response:
    """Return a streamed answer whose events the layer joins rightly."""
    mender: Mender
    if asked.dialect is CHAT:
        mender = ChatStream(asked.tools, asked.refused.extend)
    elif asked.dialect is GENERATE_CONTENT:
        mender = GeminiStream(asked.refused.extend)
    else:
        return response
    stream = _Mended(response.stream, asked, mender)  # type: ignore[arg-type]  # of an async client
    joined = httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=stream,
        request=response.request,
        extensions=response.extensions,
    )
    joined.encoding = "utf-8"
    return joined


class _Mended(httpx2.AsyncByteStream):
    """The bytes of an answer, with other events in the place of those with calls."""

    def __init__(self, stream: httpx2.AsyncByteStream, asked: Asked, mender: Mender) -> None:
        self._stream = stream
        self._asked = asked
        self._mender = mender

    async def __aiter__(self) -> AsyncIterator[bytes]:
        split = Split()
        async for data in self._stream:
            if events := b"".join([self._read(event) for event in split.take(data)]):
                yield events
        yield self._read(split.end()) + self._read(None)

    def _read(self, event: bytes | None) -> bytes:
        """Return the events to read in the place of an event, or of the end of the stream."""
        try:
            return self._mender.end() if event is None else self._mender.take(event)
        except _WRONG_FORM as error:
            raise self._asked.spoil(_wrong_form(self._asked, error)) from error

    async def aclose(self) -> None:
        """Close the connection, or give it back to the pool."""
        await self._stream.aclose()


async def joined_answer(asked: Asked, response: httpx2.Response, on_text: Callable[[str], None]) -> bytes:
    """Return the whole answer that a stream of Responses makes. Raises CallFailed."""
    stream, split = ResponsesStream(on_text), Split()
    try:
        async for data in response.aiter_bytes():
            for event in split.take(data):
                stream.take(event)
        stream.take(split.end())
        answer, reasons = stream.whole()
    except _WRONG_FORM as error:
        raise asked.spoil(_wrong_form(asked, error)) from error
    except CallFailed as error:
        raise asked.spoil(error.failure.message, error.failure.code) from error
    asked.refused.extend(reasons)
    return answer


def _wrong_form(asked: Asked, error: Exception) -> str:
    return f"the stream is not in the form of {asked.dialect.name}: {error}"


class _Said(NamedTuple):
    """A call with an id. said: as a text. at: its number."""

    call: JsonObject
    said: str
    at: int


class GeminiStream:
    """The calls of one stream. on_calls: told of each one's reason not to run it, "" to run it."""

    def __init__(self, on_calls: Callable[[list[str]], None]) -> None:
        self._on_calls = on_calls
        self._reasons: list[str] = []
        self._by_id: dict[str, list[_Said]] = {}
        self._seen: set[str] = set()  # calls without ids of earlier events

    def take(self, event: bytes) -> bytes:
        """Take an event. Return the events to read in its place. Raises what a wrong form raises."""
        if b'"functionCall"' not in event:
            return event
        chunk = value_of(event)
        content = (chunk.get("candidates") or [{}])[0].get("content") or {}
        parts = content.get("parts") or []
        new: set[str] = set()
        kept = [
            part for part in parts if "functionCall" not in part or self._is_kept(part["functionCall"], new)
        ]
        self._seen |= new
        if len(kept) == len(parts):
            return event
        content["parts"] = kept
        return event_of(chunk)

    def end(self) -> bytes:
        """Tell of the calls."""
        self._on_calls(self._reasons)
        return b""

    def _is_kept(self, call: JsonObject, new: set[str]) -> bool:
        is_piece = bool(call.get("willContinue") or call.get("partialArgs"))
        if not call.get("name"):  # a further piece
            self._reasons[-1:] = [UNFINISHED] if self._reasons else []
            return False
        why = UNFINISHED if is_piece else ""
        said = json.dumps([call["name"], call.get("args") or {}], sort_keys=True)
        if call_id := call.get("id"):
            same = [one for one in self._by_id.setdefault(call_id, []) if one.call["name"] == call["name"]]
            if any(one.said == said for one in same):
                return False
            for one in same:
                if _has_grown(one.call.get("args"), call.get("args")):
                    self._reasons[one.at] = why = CONTRADICTED
            self._by_id[call_id].append(_Said(call, said, len(self._reasons)))
        elif said in self._seen:
            why = why or DOUBLED
        else:
            new.add(said)
        self._reasons.append(why)
        return True


def _has_grown(before: object, after: object) -> bool:
    """Return True if the arguments so far are the beginning of later ones."""
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) <= len(after) and all(map(_has_grown, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() <= after.keys() and all(_has_grown(before[key], after[key]) for key in before)
    return before == after or before is None or before == {}


class ChatStream:
    """The calls and the usage of one stream.

    tools: the names of those that were offered. on_calls: told of the calls.
    """

    def __init__(self, tools: frozenset[str], on_calls: OnCalls) -> None:
        self._tools = tools
        self._on_calls = on_calls
        self._pieces: list[Piece] = []
        self._closing: list[Piece] = []
        self._first: JsonObject = {}  # the event with the first of them
        self._end: object = None
        self._usage: JsonObject = {}
        self._last: JsonObject = {}  # the last event with a usage

    def take(self, event: bytes) -> bytes:
        """Take an event. Return the events to read in its place. Raises what a wrong form raises."""
        if not (self._first or self._usage or _KEPT.search(event)):
            return event
        data = data_of(event)
        if data == b"[DONE]":
            return self.end() + event
        if not data:  # a comment, to keep the connection alive
            return event
        chunk = value_of(event)
        if not isinstance(chunk, dict):
            return event
        has_usage = self._has_taken_usage(chunk)
        has_calls = bool(chunk.get("choices")) and self._has_taken(chunk)
        return event_of(chunk) if has_usage or has_calls else event

    def end(self) -> bytes:
        """Return the event with the calls, and that with the usage; b"" for neither."""
        usage, self._usage = self._usage, {}
        told = event_of({**self._last, "choices": [], "usage": usage}) if usage.keys() >= BOTH else b""
        return self._joined_calls() + told

    def _joined_calls(self) -> bytes:
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

    def _has_taken_usage(self, chunk: JsonObject) -> bool:
        """Take the usage out of an event, and what no one reads. Return False if it has neither."""
        places = [chunk, *(chunk.get("choices") or ())]
        told = [one.pop("usage") for one in places if one.get("usage") is not None]
        odd = [one.pop("logprobs") for one in places if one.get("logprobs") is not None]
        for usage in told:
            self._usage, self._last = _most(self._usage, counts_of(usage)), {**chunk}
        return bool(told or odd)

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


def _most(known: JsonObject, told: JsonObject) -> JsonObject:
    """Return the greater number of two reports for each field, and the later value where it is no number."""
    return {**known, **{name: _greater(known.get(name), value) for name, value in told.items()}}


def _greater(before: object, value: object) -> object:
    if isinstance(before, dict) and isinstance(value, dict):
        return _most(before, value)
    if isinstance(before, int | float) and isinstance(value, int | float):
        return max(before, value)
    return before if value is None else value


def _unfinished(call: JoinedCall) -> JoinedCall:
    """Refuse a call without arguments in an answer that was cut."""
    is_none = call.arguments == Settled("{}") and not call.has_text
    return call._replace(arguments=Settled("", UNFINISHED)) if is_none else call


def _written(call: JoinedCall, index: int) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments.text}
    return {**call.rest, "index": index, "id": call.id or None, "type": "function", "function": function}
