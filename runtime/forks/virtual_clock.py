"""The clock of a fork: it stands, is moved forward by recorded answers, and runs while real work goes on."""

from callboard.runtime.clock import monotonic_ms


class VirtualClock:
    """A clock that begins at a given time. It never goes back.

    start_ms: in milliseconds since 1970 UTC.
    """

    def __init__(self, start_ms: int) -> None:
        self._ms = start_ms
        self._since: float | None = None

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970 UTC."""
        return self._ms if self._since is None else self._ms + int(monotonic_ms() - self._since)

    def move_to(self, at_ms: int) -> None:
        """Move forward to a time, unless it is past."""
        now = self.now_ms()
        self._ms = max(now, at_ms)
        if self._since is not None:
            self._since = monotonic_ms()

    def run(self, is_running: bool) -> None:
        """Let the clock run in real time, or stand."""
        if is_running == (self._since is not None):
            return
        self._ms = self.now_ms()
        self._since = monotonic_ms() if is_running else None
