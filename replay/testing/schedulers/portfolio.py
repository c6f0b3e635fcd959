"""The schedulers by name, and the one that tries every run.

Every run there is, or one of each partial order: depth first, and never two that differ in nothing.

Rules
  - With reduction, a run is made, its races are looked for, and for each race one run is planned in which it
    goes the other way (source sets); moves whose every order was tried sleep until something in conflict with
    them happens (sleep sets). Source: Abdulla, Aronsson, Jonsson, Sagonas, "Optimal dynamic partial order
    reduction", POPL 2014; that two deliveries conflict if they have one receiver: TransDPOR (Tasharofi et
    al., 2012). It is only as right as the world is about what its moves touch.
  - A move that another move makes impossible (a message is lost or delivered) is in no run beside it, so no
    race shows it: it is planned where it vanished.
  - `preemptions` bounds how often an actor that could go on is left for another. Two or three find most
    bugs (Musuvathi, Qadeer, PLDI 2007).

Schedulers by name, and all of them in turn.

No scheduler finds everything: of 49 buggy programs random walks missed what priorities found and the other
way round (Thomson, Donaldson, Betts, TOPC 2016). So the default takes turns, one run each.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Final

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.happens_before import Order
from callboard.replay.testing.run import Choose, Scheduler
from callboard.replay.testing.schedulers.sampling import DelayBounded, Pct, Pos, RandomWalk
from callboard.replay.testing.world import Move, Touches, World, by_strand


class _Asleep(msgspec.Struct):
    """A move that need not be made as long as nothing in conflict with it happens."""

    actor: str
    touched: frozenset[str]

    def conflicts(self, other: "_Asleep") -> bool:
        return self.actor == other.actor or not self.touched.isdisjoint(other.touched)


class _Node(msgspec.Struct):
    """A state on the current path."""

    offered: dict[str, Move]
    todo: list[str]  # strands to try, in order
    tried: list[str]
    asleep: dict[str, _Asleep]
    made: _Asleep | None = None  # what the last of `tried` touched
    after: str = ""  # the actor that moved before
    preemptions: int = 0  # on the way here

    @property
    def current(self) -> Move:
        return self.offered[self.tried[-1]]

    def sleeping(self) -> dict[str, _Asleep]:
        """Return the moves that sleep on after the current one."""
        made = self.made
        return {strand: one for strand, one in self.asleep.items() if made and not one.conflicts(made)}

    def plan(self, strand: str) -> None:
        if strand not in self.todo and strand not in self.tried:
            self.todo.append(strand)

    def plan_vanished(self, moves: dict[str, Move]) -> None:
        """Plan what the current move made impossible. moves: those that are offered after it."""
        for strand, move in self.offered.items():
            if strand != self.tried[-1] and moves.get(strand) != move:
                self.plan(strand)

    def next(self) -> bool:
        """Try the next planned move that does not sleep. Return False if no move is left."""
        while self.todo:
            strand = self.todo.pop(0)
            if strand not in self.asleep:
                self.tried.append(strand)
                return True
        return False


class Exhaustive(Scheduler):
    """All runs, one after the other; with reduction one of each partial order.

    preemptions: at most so many, and no reduction. is_exhausted: every run was made.
    """

    name = "exhaustive"

    def __init__(self, *, reduction: bool = True, preemptions: int | None = None) -> None:
        # Reduction under a bound loses orders: the one run it keeps of a partial order may exceed the bound.
        self._reduces = reduction and preemptions is None
        self._preemptions = preemptions
        self._nodes: list[_Node] = []
        self._is_first = True
        self._depth = 0
        self._new_from = 0
        self._touched: Callable[[], Collection[str]] = tuple
        self.is_exhausted = False

    def begin(self, world: World) -> bool:
        """Go back to the last node with something to do."""
        if self._reduces:  # a trace is slow
            self._touched = world.touched if isinstance(world, Touches) else lambda: world.trace()[-1].touched
        self.is_exhausted = not self._is_first and not self._next()
        self._is_first = False
        self._depth = 0
        self._new_from = max(len(self._nodes) - 1, 0)
        return not self.is_exhausted

    def _next(self) -> bool:
        """Set the path to the next run; return False if every run was made."""
        while self._nodes:
            node = self._nodes[-1]
            if self._reduces and node.made is not None:
                node.asleep[node.tried[-1]] = node.made
            if node.next():
                return True
            self._nodes.pop()
        return False

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose the move of the path, and beyond its end the first that does not sleep."""
        self._note_last()
        if self._depth == len(self._nodes):
            node = self._new_node(by_strand(offered))
            if not node.tried:
                return None
            self._nodes.append(node)
        strand = self._nodes[self._depth].tried[-1]
        self._depth += 1
        for move in offered:
            if move.strand == strand:
                return move
        raise MisuseError(
            f"the world is not deterministic: {strand} was offered after the same {self._depth - 1} moves "
            "before, and is not now; a decider or port uses randomness, a clock, id() or set order"
        )

    def _note_last(self) -> None:
        """Keep what the last move touched, if there was one."""
        if not self._depth:
            return
        node = self._nodes[self._depth - 1]
        node.made = _Asleep(node.current.actor, frozenset(self._touched()))

    def _new_node(self, moves: dict[str, Move]) -> _Node:
        parent = self._nodes[-1] if self._nodes else None
        if not self._reduces:
            return self._full_node(moves, parent)
        asleep: dict[str, _Asleep] = {}
        if parent is not None:
            asleep = parent.sleeping()
            parent.plan_vanished(moves)
        awake = [strand for strand in moves if strand not in asleep]
        return _Node(moves, [], awake[:1], asleep)

    def _full_node(self, moves: dict[str, Move], parent: _Node | None) -> _Node:
        strands = list(moves)
        if parent is None:
            return _Node(moves, strands[1:], strands[:1], {})
        actor = parent.current.actor
        could_go_on = any(move.actor == parent.after for move in parent.offered.values())
        used = parent.preemptions + (could_go_on and actor != parent.after)
        if self._preemptions is not None and used >= self._preemptions:
            strands = [strand for strand in strands if moves[strand].actor == actor] or strands
        return _Node(moves, strands[1:], strands[:1], {}, None, actor, used)

    def finish(self, world: World) -> None:
        """Plan for each race of the run one in which it goes the other way."""
        if not self._reduces or not self._depth:
            return
        self._note_last()
        steps = world.trace()
        has_gone_on = len(steps) > self._depth
        self._nodes[-1].plan_vanished(by_strand(() if has_gone_on else world.moves()))
        order = Order(steps[: self._depth])
        for i, j in order.races(self._new_from):
            self._plan(order, i, j)

    def _plan(self, order: Order, i: int, j: int) -> None:
        node = self._nodes[i]
        strands = [order.steps[k].strand for k in order.initials(order.without(i, j))]
        if {*node.todo, *node.tried, *node.asleep}.isdisjoint(strands):
            possible = [strand for strand in strands if strand in node.offered]
            for strand in possible[:1] or list(node.offered):
                node.plan(strand)


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
        f"there is no scheduler {name!r}; use one of {', '.join(NAMES)}, pct:2, delays:3, exhaustive:2"
    )
