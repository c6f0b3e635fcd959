"""The messages of a server as they come in, read leniently, before the SDK reads them.

A message that answers a request of ours is an answer in any shape, so it is noted in the
`Sending` of its call here. The SDK refuses results that do not fit its models, and drops answers that are not
JSON-RPC to the letter, which leaves a call waiting. So it gets a stand-in for each answer to a call, and a
list of tools that it can read.

a line or body that is not JSON        ValueError; the answer to the request that it names, if it names one
JSON without "jsonrpc", with an id
  as text or as 3.0, error codes and
  texts of other types                read as meant
neither a result nor an error         an answer that cannot be read
an error without an id                the answer to the only open request (`nameless`)
an id that no request waits for       dropped

Errors that name no request: which request each of them answers.

A server that cannot read a request does not know its id, so JSON-RPC lets it answer with an error whose id is
null. Such an error answers one of the messages that were open when it came, and it waits here until the
others are out of the question:

a request               open until it is answered
a notification          open until a request that was sent after it is answered, since some servers answer
                        notifications with errors
a request given up      the same, counted from there: a server does not answer it after its cancellation

As many errors as messages that they can mean answer all of these. An error whose requests were all answered
by their ids was meant for none of them, and is dropped. One that may have meant a notification stays in doubt
while a request is open that it may mean, too.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import mcp.types as types
import msgspec

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.mcp.foreign_json import CURRENT, Answer, Sending, parsed, shown
from callboard.runtime.mcp.specs import ToolLists
from callboard.runtime.sanitize import clean_text, to_json

_BEGIN_BYTES: Final = 300  # of a broken message, that an error shows
# The protocol 2026-07-28 wants the second field; earlier ones ignore it.
_STAND_IN: Final[JsonObject] = {"content": [], "resultType": "complete"}
_ID: Final = re.compile(rb'"id"\s*:\s*(?:"([^"\\]{1,64})"|(-?\d{1,18}))')
_ID_BYTES: Final = 400  # at either end of a broken message, where the ids of all known servers stand
_NO_CODE: Final = 0
Message = types.JSONRPCMessage


class Wire:
    """The requests of one connection that wait for an answer. lists: reads the lists of tools."""

    def __init__(self, lists: ToolLists) -> None:
        self._lists = lists
        self._waiting: dict[object, tuple[str, Sending | None]] = {}
        self._nameless = NamelessErrors()

    def sent(self, message: Message) -> None:
        """Note a message that is about to be sent by the current task."""
        if isinstance(message, types.JSONRPCRequest):
            self._waiting[_key(message.id)] = (message.method, CURRENT.get())
            self._nameless.sent(_key(message.id))
        elif isinstance(message, types.JSONRPCNotification):
            self._nameless.sent()

    def forget(self, sending: Sending) -> None:
        """Wait no longer for the answers to a call."""
        for key in [key for key, (_, one) in self._waiting.items() if one is sending]:
            del self._waiting[key]
            if (error := self._nameless.given_up(key)) is not None:
                sending.doubt = f"meanwhile it sent an error that names no request: {error_of(error).message}"

    def read(self, data: bytes, request: object = None) -> list[Message]:
        """Return the messages of a line, an event or a body, as the SDK takes them.

        request: the id of the request that the data answers, where the transport knows it. Raises ValueError
        for data that is not JSON-RPC message, and drops an answer without a waiting call.
        """
        value = parsed(data)
        batch = value if isinstance(value, list) else [value]
        return [message for one in batch for message in self._read(one, request)]

    def broken(self, data: bytes, why: str, request: object = None) -> list[Message]:
        """Return the messages for data that cannot be read, if it names the request that it answers."""
        named = [request] if request is not None else _ids(data)
        keys = [key for key in map(_key, named) if key in self._waiting]
        begin = clean_text(data[:_BEGIN_BYTES].decode(errors="replace")).strip()
        answer = Answer("unreadable", f"{why}: {begin!r}")
        return [message for key in keys[:1] for message in self._answered(key, answer)]

    def _read(self, value: object, request: object) -> list[Message]:
        if not isinstance(value, dict):
            raise ValueError("a message is an object")
        if "method" in value:
            message = _cleaned({**value, "jsonrpc": "2.0"})
            return [types.jsonrpc_message_adapter.validate_python(message, by_name=False)]
        if not value.keys() & {"id", "result", "error"}:
            raise ValueError("a message has a method, or answers one")
        answer = _answer(value)
        if request is None and value.get("id") in (None, "") and answer.kind == "error":
            return self._all_written(self._nameless.came(answer.value))
        key = _key(value.get("id") if request is None else request)
        return self._answered(key, answer) if key in self._waiting else []

    def _answered(self, key: object, answer: Answer) -> list[Message]:
        return [self._written(key, answer), *self._all_written(self._nameless.answered(key))]

    def _all_written(self, found: Sequence[tuple[object, object]]) -> list[Message]:
        return [self._written(key, Answer("error", error)) for key, error in found]

    def _written(self, key: Any, answer: Answer) -> Message:
        """Return an answer as the SDK takes it, and note that of a call."""
        method, sending = self._waiting.pop(key)
        if method == "tools/call" and sending is not None:
            sending.answer = answer
            return types.JSONRPCResponse(jsonrpc="2.0", id=key, result=_STAND_IN)
        try:
            result = self._result(method, answer)
        except _Failed as error:
            return types.JSONRPCError(jsonrpc="2.0", id=key, error=error_of(error.value))
        except ValueError as error:
            return types.JSONRPCError(jsonrpc="2.0", id=key, error=error_of(str(error)))
        return types.JSONRPCResponse(jsonrpc="2.0", id=key, result=result)

    def _result(self, method: str, answer: Answer) -> dict[str, object]:
        """Return a result that the SDK can read. Raises _Failed for an error, and ValueError."""
        if answer.kind != "result":
            raise _Failed(answer.value)
        if not isinstance(answer.value, dict):
            raise ValueError(f"its result is not an object: {shown(answer.value)}")
        return self._lists.readable(answer.value) if method == "tools/list" else _cleaned(answer.value)


class _Failed(Exception):
    """The error that a server answered with."""

    def __init__(self, value: object) -> None:
        self.value = value


def same_id(one: object, other: object) -> bool:
    """Return whether two ids are the same one: 3, "3" and 3.0 are."""
    return _key(one) is not None and _key(one) == _key(other)


def error_of(value: object) -> types.ErrorData:
    """Read an error that may have fields of other types, or be no object."""
    fields = value if isinstance(value, dict) else {"message": value}
    code, message = fields.get("code"), fields.get("message")
    if isinstance(code, str) and re.fullmatch(r"-?[0-9]{1,9}", code):
        code = int(code)
    return types.ErrorData(
        code=code if isinstance(code, int) and not isinstance(code, bool) else _NO_CODE,
        message=clean_text(
            message if isinstance(message, str) else "" if message is None else shown(message)
        ),
        data=fields.get("data"),
    )


def _cleaned(value: dict[str, object]) -> dict[str, object]:
    """Return a message or a result without half characters, which the SDK refuses. Raises ValueError."""
    found: dict[str, object] = msgspec.json.decode(bytes(to_json(value, what="the message")))
    return found


def _answer(message: dict[str, object]) -> Answer:
    if message.get("error") is not None:
        return Answer("error", message["error"])
    if "result" in message:
        return Answer("result", message["result"])
    return Answer("unreadable", f"it has neither a result nor an error: {shown(message)}")


def _key(request: object) -> object:
    """Return one key for the forms of an id: 3, "3" and 3.0."""
    if isinstance(request, str) and re.fullmatch(r"-?[0-9]{1,18}", request):
        return int(request)
    if isinstance(request, float) and request.is_integer():
        return int(request)
    return request if isinstance(request, int | str) and not isinstance(request, bool) else None


def _ids(data: bytes) -> Iterator[object]:
    """Yield the ids that a broken message may have: those near its end and its beginning."""
    text = data.strip()
    if not text.startswith((b"{", b"[")) or b'"method"' in text[:_ID_BYTES]:
        return
    for part in (text[:_ID_BYTES], text[-_ID_BYTES:]):
        for found in _ID.finditer(part):
            yield found[1].decode(errors="replace") if found[1] is not None else int(found[2])


class NamelessErrors:
    """The errors without an id of one connection, and the messages that are open."""

    def __init__(self) -> None:
        self._sent = 0
        self._requests: dict[object, int] = {}  # by id: the place among all that were sent
        self._others: set[int] = set()  # the places of notifications, and of requests that were given up
        self._errors: list[tuple[object, set[int]]] = []  # with the places that each may answer

    def sent(self, request: object = None) -> None:
        """Note a message that leaves. request: its id, None for a notification."""
        self._sent += 1
        if request is None:
            self._others.add(self._sent)
        else:
            self._requests[request] = self._sent

    def answered(self, request: object) -> list[tuple[Any, object]]:
        """Note an answer that has an id. Return the requests that errors now answer, with those errors."""
        place = self._requests.pop(request, 0)
        self._others = {one for one in self._others if one > place}
        self._leave_out({place})
        return self._settled()

    def given_up(self, request: object) -> object:
        """Note that a request waits no longer. Return an error that may have been its answer, else None."""
        place = self._requests.pop(request, 0)
        self._sent += 1
        self._others.add(self._sent)
        found = None
        for error, places in self._errors:
            if place in places:
                found = error
                places.add(self._sent)
        self._leave_out({place})
        return found

    def came(self, error: object) -> list[tuple[Any, object]]:
        """Take an error without an id. Return the requests that errors now answer, with those errors."""
        self._errors.append((error, {*self._requests.values(), *self._others}))
        self._leave_out(set())
        return self._settled()

    def _leave_out(self, answered: set[int]) -> None:
        """Take answered messages out of the question, and errors that can mean no open request any more."""
        open_ = set(self._requests.values())
        self._errors = [
            (error, left) for error, places in self._errors if (left := places - answered) & open_
        ]

    def _settled(self) -> list[tuple[object, object]]:
        """Take the requests out that errors must mean. Return them, with the errors in their order."""
        found: list[tuple[object, object]] = []
        while self._errors:
            meant = min((places for _, places in self._errors), key=len)
            if len(meant) > 1:
                meant = set().union(*(places for _, places in self._errors))
            errors = [error for error, places in self._errors if places <= meant]
            if len(errors) < len(meant):
                break
            requests = {place: request for request, place in self._requests.items()}
            for place, error in zip(sorted(meant), errors, strict=False):
                if place in requests:
                    found.append((requests[place], error))
                    del self._requests[requests[place]]
            self._leave_out(meant)
        return found
