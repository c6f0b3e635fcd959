"""An event is a posted message with its envelope; a post is a message before it gets one."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, final

import msgspec

from callboard.actors.protocol.client_messages import Forked, Resumed, SessionClosed, resumed_in
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.plain_values import PlainValues


@final
class Post(msgspec.Struct, frozen=True, gc=False):
    """A message to post, and its recipient."""

    recipient: str
    body: AnyMessage


@final
class Event(PlainValues, frozen=True, gc=False):
    """A posted message.

    seq: its place in its session, from 1, without gaps. at: when it was posted, in milliseconds since
    1970 UTC; deciders never see it. cause: the seq of the event whose handling posted it, 0 for none.
    """

    also: ClassVar[tuple[str, ...]] = ("kind",)

    seq: int
    at: int
    sender: str
    recipient: str
    cause: int
    body: AnyMessage

    @property
    def kind(self) -> str:
        """The kind of message, as in the log."""
        return type(self.body).__name__


S = TypeVar("S")
R = TypeVar("R")

Takers: TypeAlias = Mapping[type, Callable[[S, Event, Any], R]]
"""The functions of a fold, by the kind of message. Each takes an event, and its message of that kind."""

CLOSING_KINDS: Final = frozenset({SessionClosed, Resumed, Forked})
"""The kinds of messages after which `is_closed_after` may differ from before."""


def is_closed_after(body: AnyMessage, *, was_closed: bool) -> bool:
    """Return whether a session is closed after this message. was_closed: before it."""
    # A session ends with its `SessionClosed` even if events follow: late answers of ports are logged.
    if isinstance(body, SessionClosed):
        return True
    resumed = resumed_in(body) if was_closed else None
    return was_closed and not (resumed is not None and resumed.reopens)
