"""Random priorities of chains, as POS and PCT have them."""

from collections.abc import Callable, Sequence

from callboard.replay.testing.world import Move


def first_of(offered: Sequence[Move], priorities: dict[str, float], draw: Callable[[], float]) -> Move:
    """The move whose chain has the highest priority; a chain that has none draws one, which is kept."""
    best, highest = offered[0], -float("inf")
    for move in offered:
        priority = priorities.get(move.chain)
        if priority is None:
            priority = priorities[move.chain] = draw()
        if priority > highest:
            best, highest = move, priority
    return best
