"""One request on its way: whether it may have left this process, and whether its answer came.

The transports set the marks. The task of a call carries it in a context variable, which the SDK hands on to
the task that sends.
"""

from contextvars import ContextVar
from typing import Final, Literal, NamedTuple


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
