"""Count the states that a world can come to: what exhaustive checkers report, to be compared with them.

Rules
  - Two worlds are one state if their digests are equal. Every state is left by every move it offers, once.
  - `within` draws a boundary: a state beyond it is not counted and not left, so that protocols that never
    end can be counted.
  - It needs worlds that can be copied, and holds one for each state of the front: this is for small models.
    Campaigns do not need it, so it is not part of the kit.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol, Self, TypeVar, runtime_checkable

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.world import MakeWorld, World

STATES_MAX = 1_000_000


@runtime_checkable
class Forks(World, Protocol):
    """A world that can be copied in the middle of a run."""

    def fork(self) -> Self: ...


F = TypeVar("F", bound=Forks)


class Reached(msgspec.Struct, frozen=True):
    """states: how many there are. ends: how many of them offer nothing. moves: from one to another."""

    states: int
    ends: int
    moves: int


def reach(
    make_world: MakeWorld[F], within: Callable[[F], bool] = lambda world: True, states_max: int = STATES_MAX
) -> Reached:
    """Visit every state, breadth first. Raises MisuseError for worlds that cannot be copied, or too many."""
    start = make_world()
    if not isinstance(start, Forks):
        raise MisuseError(f"{type(start).__name__} cannot be copied; give it a method fork()")
    seen, front = {start.digest()}, deque([start])
    ends = made = 0
    while front:
        world = front.popleft()
        moves = list(world.moves())
        ends += not moves
        for move in moves:
            made += 1
            after = world.fork()
            after.make(move)
            digest = after.digest()
            if digest not in seen and within(after):
                seen.add(digest)
                front.append(after)
        if len(seen) > states_max:
            raise MisuseError(f"there are more than {states_max} states; make the model smaller")
    return Reached(len(seen), ends, made)
