"""A known bug as a program, with its rule, the fixed variant, and the size of the smallest trace."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from callboard.replay.testing.program import Actor, Program, ProgramWorld
from callboard.replay.testing.world import Monitor

Monitors: TypeAlias = Sequence[Monitor[ProgramWorld]]
Actors: TypeAlias = dict[str, Actor[Any, Any]]


class Case(NamedTuple):
    """make(is_fixed): the program and its rules. smallest: steps of the smallest trace, worked out by hand.

    source: the origin of the bug; each is rewritten for actors. steps: N, if it differs from the default.
    """

    name: str
    source: str
    make: Callable[[bool], tuple[Program, Monitors]]
    smallest: int
    steps: int = 200
