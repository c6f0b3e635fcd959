"""The check of an act by what the person saw: an ask that began behind it is another one."""

from typing import Final

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.log.protocol import EventLog, event_of

_BEHIND_MAX: Final = 10_000
"""Events that a page may lack: one that is further behind shows another session than the one that runs."""


async def refuse_unseen(log: EventLog, session_id: str, seen: int) -> None:
    """Refuse an act on an ask that began after a page's last event. seen: its seq; 0 for no page.

    Raises MisuseError.
    """
    if seen <= 0:
        return
    rows = await log.read(session_id, seen + 1, _BEHIND_MAX)
    if len(rows) == _BEHIND_MAX:
        raise MisuseError(f"your page lacks {_BEHIND_MAX:,} events or more; let it catch up, then try again")
    for row in rows:
        if isinstance(event_of(session_id, row).body, Ask):
            raise MisuseError(
                f"another prompt began at event {row.seq}, which your page did not show yet; look at it first"
            )
