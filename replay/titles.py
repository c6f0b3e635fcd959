"""The title of a session: the one it was given, else the beginning of its first prompt.

A store writes the title with the first ask. Sessions of earlier versions that were opened without a prompt
have none in their row, so theirs is read from the log where it is shown.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.events import Event
from callboard.replay.reading import kind_of
from callboard.runtime.log.protocol import LogReader, event_of
from callboard.runtime.log.session_rows import SessionRow, title_of

_LOOKED_AT: Final = 64
"""Events among which the first prompt is looked for: before it stand only the opening and changes of it."""


def titled(reader: LogReader, rows: Iterable[SessionRow]) -> Iterator[SessionRow]:
    """Yield the rows of sessions, each with its title. One that cannot be read stays without."""
    for row in rows:
        yield row if row.title or not row.head else replace(row, title=_first_prompt(reader, row.session_id))


def title_in(event: Event) -> str:
    """Return the title that an event gives a session without one; '' for an event that is not a prompt."""
    return title_of(event.body.prompt) if isinstance(event.body, Ask) else ""


def _first_prompt(reader: LogReader, session_id: str) -> str:
    try:
        for stored in reader.events(session_id, 1, _LOOKED_AT):
            if kind_of(stored.body) == Ask.__name__:
                return title_in(event_of(session_id, stored))
    except (CallboardError, ValueError):  # a damaged session is listed, too
        pass
    return ""
