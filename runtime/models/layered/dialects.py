"""The wire dialects: where a request holds its conversation, and how a call looks in it.

A body holds the conversation as a list under one key. The list grows only at its end, apart from its head
(the system prompt, where the dialect has it in the list).

    dialect            conversation  arguments of a call  stream
    chat               messages      text                 server-sent events
    responses          input         text                 server-sent events
    generate-content   contents      an object            server-sent events
    converse           messages      an object            binary events

Server-sent events: the bytes of a stream, event by event, each as it came.

Only `data` lines are read: no dialect tells anything in the others that its data does not hold.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, Protocol

from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.repairs import InputRules

"""An object of JSON whose form is known to the reader only."""


class Dialect(NamedTuple):
    """One way to write a request.

    name: in origins. key: of the conversation in the body. is_head: tells an item of the head. calls_of:
    returns the objects of an item that hold the arguments of a call. arguments: the key of these.
    has_text_arguments: they are text, not an object. stream_type, stream_form: the content type of a stream,
    and its form. answer_marks: one of them is in every whole answer.
    filler: the item that the layer puts before a conversation that a model begins. documents_of: returns the
    objects of an item that hold a document with a name, which no other one may have. has_files_in_results:
    True if the result of a tool may hold images. rules: for the model's own replies, as
    `callboard.testing.request_problem` states them with their sources.
    """

    name: str
    key: str
    is_head: Callable[[JsonObject], bool]
    calls_of: Callable[[JsonObject], Iterator[JsonObject]]
    arguments: str = "arguments"
    has_text_arguments: bool = True
    stream_type: str = "text/event-stream"
    stream_form: Literal["events", "frames"] = "events"
    answer_marks: tuple[bytes, ...] = ()
    filler: JsonObject | None = None
    has_files_in_results: bool = False
    rules: InputRules = InputRules()
    documents_of: Callable[[JsonObject], Iterator[JsonObject]] = lambda item: iter(())


def _chat_calls(item: JsonObject) -> Iterator[JsonObject]:
    for call in item.get("tool_calls") or ():
        yield call["function"]


def _responses_calls(item: JsonObject) -> Iterator[JsonObject]:
    if item.get("type") == "function_call":
        yield item


def _gemini_calls(item: JsonObject) -> Iterator[JsonObject]:
    for part in item.get("parts") or ():
        if "functionCall" in part:
            yield part["functionCall"]


def _converse_calls(item: JsonObject) -> Iterator[JsonObject]:
    for block in item.get("content") or ():
        if "toolUse" in block:
            yield block["toolUse"]


def _converse_documents(item: JsonObject) -> Iterator[JsonObject]:
    for block in item.get("content") or ():
        if "document" in block:
            yield block["document"]


CHAT: Final = Dialect(
    "chat",
    "messages",
    lambda item: item.get("role") in ("system", "developer"),
    _chat_calls,
    answer_marks=(b'"choices"',),
)
RESPONSES: Final = Dialect(
    "responses",
    "input",
    lambda item: False,
    _responses_calls,
    answer_marks=(b'"output"',),
    has_files_in_results=True,
    rules=InputRules(use_id=re.compile("(?s).{1,64}"), ends_spoken=True, item_ids=True),
)
GENERATE_CONTENT: Final = Dialect(
    "generate-content",
    "contents",
    lambda item: False,
    _gemini_calls,
    "args",
    has_text_arguments=False,
    answer_marks=(b'"candidates"',),
    filler={"role": "user", "parts": [{"text": ""}]},
    rules=InputRules(name=re.compile("[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"), texts="a character", signs_next=True),
)
CONVERSE: Final = Dialect(
    "converse",
    "messages",
    lambda item: False,
    _converse_calls,
    "input",
    has_text_arguments=False,
    stream_type="application/vnd.amazon.eventstream",
    stream_form="frames",
    answer_marks=(b'"output"',),
    documents_of=_converse_documents,
    rules=InputRules(use_id=re.compile("[a-zA-Z0-9_.:-]{1,64}"), is_unique=True, texts="a word"),
)


class Mender(Protocol):
    """Puts the events of an answer in the form that the layer joins rightly."""

    def take(self, event: bytes) -> bytes:
        """Take an event. Return the events to read in its place."""

    def end(self) -> bytes:
        """Return the events to read at the end of the stream."""


class Split:
    """Splits a stream into its events."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []  # of the event that has not ended
        self._line: list[bytes] = []  # the pieces of the line that has not ended

    def take(self, data: bytes) -> Iterator[bytes]:
        """Return the events that end in these bytes, each with the blank line that ends it."""
        self._line.append(data)
        if b"\n" not in data and b"\r" not in data:
            return
        lines = b"".join(self._line).splitlines(keepends=True)
        # The end of a line may go on: "\r" now, "\n" in the next bytes.
        self._line = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        for line in lines:
            self._lines.append(line)
            if line in (b"\n", b"\r\n", b"\r"):
                yield b"".join(self._lines)
                self._lines = []

    def end(self) -> bytes:
        """Return the bytes after the last event."""
        rest = b"".join((*self._lines, *self._line))
        self._lines, self._line = [], []
        return rest


def data_of(event: bytes) -> bytes:
    """Return the data of an event."""
    if event.startswith(b"data: ") and event.count(b"\n") == 2:  # nearly every one
        return event[6:].strip()
    lines = (line for line in event.splitlines() if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def value_of(event: bytes) -> Any:
    """Return the JSON value that is the data of an event. Raises ValueError."""
    # Not by msgspec, which refuses the half of a surrogate pair: the other half may be in the next piece.
    return json.loads(data_of(event))


def event_of(value: JsonObject) -> bytes:
    """Return an event with this data."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"
