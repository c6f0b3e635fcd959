"""A span: one operation of a session that has ended, with its first and its last event."""

from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.endings import Status
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.log.telemetry.names import Operation

LinkKind: TypeAlias = Literal["resume", "fork", "background"]
SpanStatus: TypeAlias = Status | Literal["unfinished"]
NO_MODEL: Final = ModelSpec("")


class Link(NamedTuple):
    """A span that another one follows from. session: of that span, empty for the same session."""

    kind: LinkKind
    trace: int
    seq: int
    session: str = ""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that has ended.

    trace: the seq of its `Ask`. parent: the seq of the span above it, 0 for none.
    begun, ended: its first and its last event. `ended` stays empty if the end of an ask cut it off, or if it
    has no end in the log.
    end_ms: in milliseconds since 1970 UTC. name: of the host, agent, model or tool.
    agent, profile: the address and the name of its agent. about: the description of an agent or a tool.
    ending: the kind of end of an ask or agent, empty for others. error: the type of its failure, empty for
    none.
    asked: the request of a `chat`. model: that it asks. charge: for it. wait_ms: from the request to the
    grant, without the back-off. links: to spans that it follows from. tags: of the session.
    """

    operation: Operation
    trace: int
    parent: int
    begun: Event
    ended: Event | None
    end_ms: int
    name: str
    agent: str = ""
    profile: str = ""
    about: str = ""
    ending: str = ""
    status: SpanStatus = "ok"
    error: str = ""
    asked: TurnRequested | None = None
    model: ModelSpec = NO_MODEL
    charge: Usage = ZERO
    wait_ms: int = 0
    links: tuple[Link, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def seq(self) -> int:
        """Return the seq of its first event."""
        return self.begun.seq

    @property
    def duration_ms(self) -> int:
        """Return its length in milliseconds."""
        return max(0, self.end_ms - self.begun.at)
