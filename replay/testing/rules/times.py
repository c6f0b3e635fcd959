"""Time: timers fire when they are due, and a resume that gives more time gives it to the deadlines."""

from collections.abc import Sequence

from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CancelTimer, ExtendTimer, SetTimer, TimerFired
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.stops import purpose_of


class InTime(Invariant):
    """The moments of timers."""

    name = "in-time"
    rule = "No timer fires early, and a resume with more time extends the deadlines and nothing else."
    _due: dict[int, int] = {}
    _deadlines: set[int] = set()

    def on_SetTimer(self, event: Event, body: SetTimer) -> None:
        """Record when a timer is due."""
        self._due[body.timer] = event.at + body.after_ms

    def on_ExtendTimer(self, event: Event, body: ExtendTimer) -> None:
        """Record that a timer is due later."""
        self._due[body.timer] = self._due.get(body.timer, 0) + body.by_ms

    def on_TimerFired(self, event: Event, body: TimerFired) -> None:
        """Compare the time with that at which the timer is due."""
        due = self._due.pop(body.timer, 0)
        if event.at < due:
            self.broken(event.seq, f"timer {body.timer} fires {due - event.at} ms before its time")

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Update the running deadlines by one decision."""
        if isinstance(body, TimerFired):
            self._deadlines.discard(body.timer)
        for index, output in enumerate(outputs):
            if isinstance(output.body, SetTimer):
                self._note(event, output.body, outputs[index + 1 :], index == 0)
            elif isinstance(output.body, CancelTimer):
                self._deadlines.discard(output.body.timer)

    def _note(self, event: Event, timer: SetTimer, later: Sequence[Event], is_first: bool) -> None:
        if purpose_of(event, timer, later, is_first)[0] == "deadline":
            self._deadlines.add(timer.timer)

    def handled_Resumed(self, event: Event, body: Resumed, outputs: Sequence[Event]) -> None:
        """Compare the timers that a resume extends with the running deadlines."""
        extended = {order.timer: order.by_ms for _, order in of_kind(outputs, ExtendTimer)}
        more = body.extend_ms
        expected = dict.fromkeys(self._deadlines, more) if more else {}
        if extended != expected:
            self.broken(event.seq, f"it extends by {more} ms, and timers {extended} instead of {expected}")
