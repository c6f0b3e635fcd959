"""Schedulers by name, and all of them in turn.

No scheduler finds everything: of 49 buggy programs random walks missed what priorities found and the other
way round (Thomson, Donaldson, Betts, TOPC 2016). So the default takes turns, one run each.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.run import Choose, Scheduler
from callboard.replay.testing.schedulers.exhaustive import Exhaustive
from callboard.replay.testing.schedulers.sampling import DelayBounded, Pct, Pos, RandomWalk
from callboard.replay.testing.world import World

PARTS = ("random", "pos", "pct", "delays")


class Portfolio:
    """Runs `parts` in turn. is_exhausted: one of them has made every run."""

    def __init__(self, parts: Sequence[Scheduler]) -> None:
        self._parts = parts
        self._next = 0
        self._part = parts[0]
        self.choose: Choose = parts[0].choose
        self.is_exhausted = False

    @property
    def name(self) -> str:
        """Return the name of the part that makes the current run."""
        return self._part.name

    def begin(self, world: World) -> bool:
        """Hand the run to the next part. Return False if one part has nothing left: then nothing is left."""
        self._part = self._parts[self._next]
        self._next = (self._next + 1) % len(self._parts)
        self.choose = self._part.choose
        self.is_exhausted = not self._part.begin(world)
        return not self.is_exhausted

    def finish(self, world: World) -> None:
        """Tell the part."""
        self._part.finish(world)


_MAKERS: Final[Mapping[str, Callable[[Random], Scheduler]]] = {
    "random": RandomWalk,
    "pos": Pos,
    "pct": Pct,
    "delays": DelayBounded,
    "exhaustive": lambda rng: Exhaustive(),
    "every": lambda rng: Exhaustive(reduction=False),
}

_NUMBERED: Final[Mapping[str, Callable[[Random, int], Scheduler]]] = {
    "pct": lambda rng, depth: Pct(rng, (depth,)),
    "delays": DelayBounded,
    "exhaustive": lambda rng, preemptions: Exhaustive(preemptions=preemptions),
}
"""Schedulers that take a number after a colon."""

NAMES = ("portfolio", *_MAKERS)


def scheduler_named(name: str, seed: int | str = 0) -> Scheduler:
    """Make a scheduler: portfolio, random, pos, pct, delays, exhaustive, every; or pct:2, delays:3.
    pct:D has that depth alone, delays:K so many delays, exhaustive:P at most P preemptions and no reduction.
    Raises MisuseError for an unknown name.
    """
    kind, _, number = name.partition(":")
    rng = Random(f"{seed}/{kind}")  # seeds of their own: another part changes nothing for these
    if kind == "portfolio" and not number:
        return Portfolio([scheduler_named(part, seed) for part in PARTS])
    if kind in _MAKERS and not number:
        return _MAKERS[kind](rng)
    # The depths of PCT start at 1.
    if kind in _NUMBERED and number.isdecimal() and (kind, int(number)) != ("pct", 0):
        return _NUMBERED[kind](rng, int(number))
    raise MisuseError(
        f"there is no scheduler {name!r}; take one of {', '.join(NAMES)}, pct:2, delays:3, exhaustive:2"
    )
