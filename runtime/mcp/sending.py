"""One request on its way: whether it may have left this process.

The transports set the mark. The task of a call carries it in a context variable, which the SDK hands on to
the task that sends.
"""

from contextvars import ContextVar
from typing import Final


class Sending:
    """The state of one request.

    has_left: its first byte may have left. failure: of the connection, in words. status: of the HTTP answer.
    """

    __slots__ = ("failure", "has_left", "status")

    def __init__(self) -> None:
        self.has_left = False
        self.failure = ""
        self.status = 0


CURRENT: Final[ContextVar[Sending | None]] = ContextVar("callboard_mcp_sending", default=None)
