"""The level at which the replies in an agent's requests are repaired for the service that made them.

    level 0    a reply is repaired by the known input rules of its service (`repairs.py`)
    level 1    every reply goes as if another model had made it (`translation.py`): without reasoning,
               signatures, item ids and calls of the service's own tools, under ids of nine characters
    level 2    so, and with calls and results as words (`spoken_calls.py`)

An agent begins at level 0 with version 1. A service that refuses a request raises the level for the rest of
the agent's life. Each `TurnRequested` from there on states level and version.
"""

from typing import Final

import msgspec

from callboard.actors.protocol.immutable import Json, Value

LEVEL_MAX: Final = 2
VERSION: Final = 1
"""Of the repairs. Other repairs get another number, and only agents that are raised later take it."""


class Repair(Value, frozen=True):
    """The repairs of an agent's requests. level: from 0 to LEVEL_MAX. version: of the repairs."""

    # Without defaults: the log states both.
    level: int
    version: int

    @property
    def next(self) -> "Repair | None":
        """Return the next level, in the version of now; None after the last."""
        return Repair(self.level + 1, VERSION) if self.level < LEVEL_MAX else None

    @property
    def mark(self) -> Json:
        """Return the part of a request's digest that stands for a raised level."""
        return Json(msgspec.json.encode(self))


START: Final = Repair(0, 1)
"""The repairs with which an agent begins."""
