"""How long a campaign takes: the only clock in here, and no world sees it."""

from time import monotonic


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._start = monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return monotonic() - self._start
