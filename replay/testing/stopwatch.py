"""The duration of a campaign: the only clock in this folder, which no world sees."""

from time import monotonic


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._start = monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return monotonic() - self._start
