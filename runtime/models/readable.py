"""The view of a request for a policy, in which every part prints as its text.

    "found" in str(request.messages)        of the conversation,
    "found" in str(request.messages[-1])    of one message,
    any("found" in str(one) for one in request.messages[-2:])

Rules
  - A part is the bytes of its JSON, and its text is that JSON. `text in part` and `text in str(part)` find
    what the JSON holds, and what stands in any of its texts: quotes and line ends of a text are escaped in
    JSON, and those of JSON in a text twice.
  - The parts are for reading: `request.plain` has those that msgspec encodes.
  - No part prints as an object at an address, in which no text is ever found.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import cast

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.request import Messages, ModelRequest


class PrintedText(str):
    """A text of JSON, in which the texts that it holds are found as they are."""

    __slots__ = ()

    def __contains__(self, text: object) -> bool:
        if not isinstance(text, str):
            raise TypeError(f"{text!r:.40} is not text, so no text holds it")
        return str.__contains__(self, text) or any(text in one for one in _texts(self))


class PrintedJson(bytes):
    """A JSON value as bytes, equal to the `Json` that it was made of."""

    __slots__ = ()

    def __str__(self) -> str:
        return PrintedText(self.decode())

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(self.decode(), spec)

    def __contains__(self, value: object) -> bool:
        if isinstance(value, str):
            return value in PrintedText(self.decode())
        return bytes.__contains__(self, value)  # type: ignore[operator]  # which raises TypeError itself

    def __eq__(self, other: object) -> bool:
        return bytes.__eq__(self, bytes(other) if isinstance(other, Json) else other)

    __hash__ = bytes.__hash__


class PrintedList(Messages):
    """Several JSON values. As a text: a JSON list of them."""

    __slots__ = ()

    def __str__(self) -> str:
        return PrintedText(super().__str__())

    __repr__ = __str__


def printed(value: Json) -> Json:
    """Return a value that prints as its text."""
    return cast(Json, PrintedJson(value))  # it is read as one


class ReadableRequest(ModelRequest):
    """A request as policies read it."""

    @classmethod
    def of(cls, request: ModelRequest) -> "ReadableRequest":
        """Return the view of a request."""
        view = object.__new__(cls)
        # One for each question to a policy: it shares the fields, and prints those that are read.
        view.__dict__ = request.__dict__
        return view

    # In the class, so that they stand before the fields of the request.
    @property
    def plain(self) -> ModelRequest:
        """Return the request as an adapter gets it."""
        request = object.__new__(ModelRequest)
        request.__dict__ = self.__dict__
        return request

    @property
    def system(self) -> Json:  # type: ignore[override]  # a field there, which no policy sets
        """Return the system prompt, which prints."""
        return printed(self.__dict__["system"])

    @property
    def tools(self) -> tuple[Json, ...]:  # type: ignore[override]  # as above
        """Return the tools, which print."""
        return PrintedList(map(printed, self.__dict__["tools"]))

    @property
    def messages(self) -> Messages:
        """Return the conversation, oldest first: JSON objects with `role` and `content`, which print."""
        return self._printed_messages

    @cached_property
    def _printed_messages(self) -> Messages:
        return PrintedList(map(printed, self.plain.messages))

    def message(self, place: int) -> Json:
        """Return one message, which prints. Raises IndexError."""
        return printed(super().message(place))

    def body(self) -> Json:
        """Return the request as one JSON object, which prints."""
        return printed(self.plain.body())

    def __str__(self) -> str:
        return str(self.body())

    __repr__ = __str__


def _texts(json: str) -> Iterator[str]:
    """Yield the texts in a JSON value, also those of JSON that stands in a text."""
    try:
        left = [msgspec.json.decode(json.encode())]  # no subclass of str is taken
    except (msgspec.DecodeError, RecursionError):  # no JSON
        return
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
            if value.lstrip()[:1] in ("{", "["):
                yield from _texts(value)
        elif isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list):
            left += value
