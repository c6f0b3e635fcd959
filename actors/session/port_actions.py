"""The decisions of the port gate: actions that a driver performs at the ports and the clock."""

from typing import NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.usage import Usage


class Start(msgspec.Struct, frozen=True, gc=False):
    """The permission for a port to act on a request.

    waits: True if the log must be durable up to the request, and up to the announcement, first.
    announcement: a post in the port's name that comes before the port acts.
    """

    request: Event
    waits: bool = False
    announcement: Post | None = None


class Refuse(NamedTuple):
    """The answer, in the port's name, to a request that no port acts on."""

    request: Event
    answer: Post


class Abort(NamedTuple):
    """The work for this request is no longer wanted."""

    request: Event


class Arm(NamedTuple):
    """A timer to set: it fires `after_ms` after `at`. request: the seq of its `SetTimer`."""

    timer: int
    at: int
    after_ms: int
    request: int


class Disarm(NamedTuple):
    """A timer to forget."""

    timer: int


class GiveBack(NamedTuple):
    """An agent needs its place no more. usage: of its call; None if that is not known."""

    agent: str
    usage: Usage | None


Action: TypeAlias = Start | Refuse | Abort | Arm | Disarm | GiveBack
