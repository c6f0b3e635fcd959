"""JSON of a server: read as it was meant, and shown in an error.

One request on its way: whether it may have left this process, and whether its answer came.

The transports set the marks. The task of a call carries it in a context variable, which the SDK hands on to
the task that sends.
"""

import codecs
import json
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple

from callboard.runtime.sanitize import clean_text

_SHOWN_CHARS: Final = 300
_PIECE_CHARS: Final = 2**12


def parsed(data: bytes) -> object:
    """Read JSON as servers write it: with a mark of byte order, control characters and half characters.

    Raises ValueError.
    """
    text = data.removeprefix(codecs.BOM_UTF8).decode(errors="replace")
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def shown(value: object, chars: int = _SHOWN_CHARS) -> str:
    """Return the beginning of a value, as JSON, for an error.

    >>> shown({"rows": [1, 2]}), shown([1, 2, 3], 4)
    ('{"rows": [1, 2]}', '[1, ...')
    """
    found: list[str] = []
    size = 0
    for piece in _pieces(value):  # not the whole, of which there may be 32 MB
        found.append(piece)
        size += len(piece)
        if size > chars:
            return clean_text("".join(found))[:chars] + "..."
    return clean_text("".join(found))


def _pieces(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return [json.dumps(value[:_PIECE_CHARS], ensure_ascii=False)]
    return _safe(json.JSONEncoder(ensure_ascii=False).iterencode(value))


def _safe(pieces: Iterator[str]) -> Iterator[str]:
    try:
        yield from pieces
    except RecursionError:
        yield "(nested too deeply)"


class Answer(NamedTuple):
    """An answer that was read from a server. kind: `unreadable` has a value that says why."""

    kind: Literal["result", "error", "unreadable"]
    value: object


class Sending:
    """The state of one request.

    has_left: its first byte may have left. failure: of the connection, in words. status: of the HTTP answer.
    answer: the server's own answer to a call; None while none has come. The SDK makes up errors for requests
    that get no answer, with codes that servers use too, so only this says whether one came. doubt: what to
    say of an error that may have been the answer.
    """

    __slots__ = ("answer", "doubt", "failure", "has_left", "status")

    def __init__(self) -> None:
        self.has_left = False
        self.failure = ""
        self.doubt = ""
        self.status = 0
        self.answer: Answer | None = None


CURRENT: Final[ContextVar[Sending | None]] = ContextVar("callboard_mcp_sending", default=None)
