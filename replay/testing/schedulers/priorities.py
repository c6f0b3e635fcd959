"""Random priorities of strands, as POS and PCT have them."""

from collections.abc import Callable, Sequence

from callboard.replay.testing.world import Move


def first_of(offered: Sequence[Move], priorities: dict[str, float], draw: Callable[[], float]) -> Move:
    """Return the move whose strand has the highest priority; a new strand draws one, which is kept."""
    best, highest = offered[0], -float("inf")
    for move in offered:
        priority = priorities.get(move.strand)
        if priority is None:
            priority = priorities[move.strand] = draw()
        if priority > highest:
            best, highest = move, priority
    return best
