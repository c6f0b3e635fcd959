"""The timers that the agents of today set otherwise: they fire by the recorded times of the other events."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CancelTimer, ExtendTimer, SetTimer


class DueTimers:
    """Timers without a recorded firing that fits, by number: when each is due, and the event that set it."""

    def __init__(self) -> None:
        self._due: dict[int, tuple[int, Event]] = {}

    def set(self, event: Event) -> None:
        """Take a timer in that was set otherwise, or not at all, when the session was recorded."""
        assert isinstance(event.body, SetTimer)
        self._due[event.body.timer] = due_at(event), event

    def note(self, event: Event) -> None:
        """Take an order for a timer in, which may be one of these."""
        body = event.body
        if isinstance(body, CancelTimer):
            self._due.pop(body.timer, None)
        elif isinstance(body, ExtendTimer) and body.timer in self._due:
            due, setting = self._due[body.timer]
            self._due[body.timer] = due + body.by_ms, setting

    def holds(self, timer: int) -> bool:
        """Return True if a timer fires by its own time, and not when it was recorded."""
        return timer in self._due

    def take_due(self, at: int) -> Event | None:
        """Remove the first timer that is due before a time, and return the event that set it."""
        due = [(when, timer) for timer, (when, _) in self._due.items() if when < at]
        return self._due.pop(min(due)[1])[1] if due else None


def due_at(event: Event) -> int:
    """Return when a timer fires, in milliseconds since 1970 UTC. event: its `SetTimer`."""
    body = event.body
    assert isinstance(body, SetTimer)
    return event.at + body.after_ms if body.until is None else max(event.at, body.until)
