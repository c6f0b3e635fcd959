"""The places of calls and the names of agents by which two sessions are compared: of a fork and its origin.

A model's call stands at its turn and its place in the reply. A program decides turn by turn with the answers
that came, so the same ask may stand in another turn: its id is its place. An agent that a program delegated
to is known by that id as well, since another ask before it shifts all later ordinals.

    host.2            the second sub-agent of a host with a model
    host/p3a..._1.0   the first agent of that ask of a host that is a program
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from callboard.actors.protocol.addresses import child_of

Place: TypeAlias = tuple[str, int, int] | tuple[str, str]
"""The name of an agent, with a turn and a call, or with the id of a program's ask."""


class CallPlaces:
    """The agents and calls of one session. Takes their beginnings, replies and delegations in order."""

    def __init__(self) -> None:
        self._programs: set[str] = set()
        self._names: dict[str, str] = {}
        self._asks: dict[tuple[str, int], Sequence[str]] = {}
        self._ordinals: defaultdict[str, int] = defaultdict(int)
        self._copies: dict[tuple[str, int, int], int] = {}

    def begin(self, address: str, *, is_program: bool) -> None:
        """Take the beginning of an agent."""
        (self._programs.add if is_program else self._programs.discard)(address)

    def is_program(self, address: str) -> bool:
        """Return True if the agent at this address is a program."""
        return address in self._programs

    def reply(self, address: str, turn: int, ids: Sequence[str]) -> None:
        """Take the ids of the asks of a program's reply, in order."""
        self._asks[address, turn] = ids

    def delegate(self, address: str, turn: int, call: int, copies: int) -> None:
        """Take a delegation, which takes an ordinal for each copy."""
        self._copies[address, turn, call] = copies
        place = self.place(address, turn, call)
        for copy in range(copies):
            self._ordinals[address] += 1
            child = child_of(address, self._ordinals[address])
            if len(place) == 2:  # of a program
                self._names[child] = f"{place[0]}/{place[1]}.{copy}"
            else:
                self._names[child] = child_of(place[0], self._ordinals[address])

    def refuse(self, address: str, turn: int, call: int) -> None:
        """Take the end of a delegation without an address: its agent had ended, so it took no ordinal."""
        self._ordinals[address] -= self._copies.pop((address, turn, call), 0)

    def name(self, address: str) -> str:
        """Return the name of an agent."""
        return self._names.get(address, address)

    def place(self, address: str, turn: int, call: int) -> Place:
        """Return the place of a call."""
        asks = self._asks.get((address, turn), ()) if address in self._programs else ()
        return (self.name(address), asks[call]) if call < len(asks) else (self.name(address), turn, call)
