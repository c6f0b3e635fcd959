"""The breaches of a log, kept for the next run that has the same log.

Runs of one scenario often come to the same log by different ways, and since a campaign makes equal events one
object (`memory`), a log is known again by the identity of its events. So the rules read each log
once, and not once a run.

Rules
  - Only for rules that are functions of their arguments here: the log, and the requests that models got.
  - The arguments are kept alive, since objects that are gone give their identity to others.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from callboard.replay.testing.rules.base import Breach

OBJECTS_MAX: Final = 200_000
"""Events and requests of all logs that are kept: 50 bytes each, themselves not counted."""

Found: TypeAlias = list[Breach]


class BreachCache:
    """Breaches that a rule found, by the identity of the objects that it was given."""

    def __init__(self, most: int = OBJECTS_MAX) -> None:
        self._most = most
        self._kept = 0
        self._known: dict[tuple[int, ...], tuple[tuple[object, ...], Found]] = {}

    def of(self, given: Iterable[object], find: Callable[[], Found]) -> Found:
        """Return the breaches in these objects, in this order; call `find` if they are not known."""
        objects = tuple(given)
        key = tuple(map(id, objects))
        known = self._known.get(key)
        if known is not None:
            return known[1]
        found = find()
        if self._kept + len(objects) > self._most:
            self._known.clear()
            self._kept = 0
        self._kept += len(objects)
        self._known[key] = (objects, found)
        return found
