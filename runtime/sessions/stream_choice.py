"""The items of a session that one reader of its stream gets.

    of=None        all events, and live items of the host: sub-agents are silent
    of="host.2"    the events and live items of this agent alone
    of="*"         all events, and live items of all agents

Live items are text, resets and progress.
"""

from typing import Final, NamedTuple

from callboard.actors.protocol.addresses import HOST, names_agent
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallModel
from callboard.runtime.sessions.stream_items import (
    AnyStreamItem,
    StreamEvent,
    TextDelta,
    TextReset,
    ToolProgress,
)

ALL: Final = "*"


class StreamChoice(NamedTuple):
    """The choice of one reader. of: an address, `*`, or None."""

    of: str | None = None

    def shows(self, item: AnyStreamItem) -> bool:
        """Return True if the reader gets this item."""
        match item:
            case StreamEvent(event=event):
                return self.of in (None, ALL) or _is_about(event, self.of)
            case TextDelta(address=address) | TextReset(address=address) | ToolProgress(address=address):
                return self.shows_live(address)
            case _:
                return True

    def shows_live(self, address: str) -> bool:
        """Return True if the reader gets the text and the progress of this agent."""
        return self.of == ALL or address == (self.of or HOST)


def choice_of(of: str | None) -> StreamChoice:
    """Return the choice of a caller. Raises MisuseError for a text that is not an address."""
    if of is not None and of != ALL and not (isinstance(of, str) and names_agent(of)):
        raise MisuseError(f"of={of!r:.80}: the address of an agent, such as 'host.2', or '*' for all agents")
    return StreamChoice(of)


def _is_about(event: Event, address: str | None) -> bool:
    """Return True for an event that an agent posted or was sent, or that grants it a model call."""
    body = event.body
    return address in (event.sender, event.recipient) or (
        isinstance(body, CallModel) and body.agent == address
    )
