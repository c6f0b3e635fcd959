"""The faults of a history, and the repairs that make up for them."""

from typing import Final

import msgspec

from callboard.actors.protocol.errors import InvalidHistory

_FAULT_CHARS_MAX: Final = 300


class Repair(msgspec.Struct, frozen=True):
    """A repair of a history. index: of the message, from 0. fault: of it. done: the change made for it.

    >>> print(Repair(3, "is empty", "it is left out"))
    messages[3] is empty: it is left out
    """

    index: int
    fault: str
    done: str

    def __str__(self) -> str:
        return f"messages[{self.index}] {self.fault}: {self.done}"


class Repairs:
    """The repairs of one history, in the order in which they were made."""

    def __init__(self) -> None:
        self._made: list[Repair] = []

    def add(self, index: int, fault: str, done: str) -> None:
        """Add a repair."""
        self._made.append(Repair(index, fault[:_FAULT_CHARS_MAX], done))

    @property
    def made(self) -> tuple[Repair, ...]:
        """Return the repairs in the order of the messages."""
        return tuple(sorted(self._made, key=lambda one: one.index))

    def refuse(self) -> None:
        """Raise InvalidHistory for the first fault, if there is one."""
        for first in self.made[:1]:
            left = len(self._made) - 1
            raise InvalidHistory(first.index, first.fault, left)
