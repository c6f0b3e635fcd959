"""The interface of an explored world: it offers moves, makes the chosen one, and reports what happened.

Rules
  - A world has no clock and no chance of its own: the same moves from the same start lead to the same states.
  - A strand is totally ordered: at any moment it offers at most one move. Two answers of one port request
    that exclude each other (it answers, it fails) are two strands. So a schedule is a list of strand names.
  - Names are the same in every schedule: strands, actors and labels are built from what an actor did (the
    third turn of host.1), never from what all actors did together (event 17).
  - Two moves conflict (their order may matter) if they have the same actor, or if their steps touch the same
    thing. All other moves commute.
  - A fault is never owed: a world is at rest when it offers nothing but faults.
"""

import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePath
from typing import Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

MoveKind: TypeAlias = Literal["deliver", "port", "client", "fault"]


class Move(msgspec.Struct, frozen=True, gc=False):
    """One thing that can happen next."""

    strand: str  # an actor's inbox ("inbox host.1"), one port request ("model host.1/3"), a client, a fault
    actor: str  # whose state it changes
    label: str  # for people, charts and the counting of orders ("host.1 handles ModelReplied 3")
    kind: MoveKind = "deliver"


def by_strand(moves: Sequence[Move]) -> dict[str, Move]:
    """Return these moves, each by its strand."""
    return {move.strand: move for move in moves}


class Step(msgspec.Struct, frozen=True, gc=False):
    """A move that was made. sender, recipient: of the message that it delivered."""

    seq: int  # its place in the run, from 1
    strand: str
    kind: MoveKind
    sender: str
    recipient: str
    label: str
    cause: int = 0  # the step that posted the message; 0 if it was there from the start
    touched: tuple[str, ...] = ()  # the other things that its order decides: a shared inbox or budget
    actor: str = ""  # of the move, if it is not the recipient
    about: str = ""  # for charts instead of the label: the message, in words


class World(Protocol):
    """A run in progress."""

    def moves(self) -> Sequence[Move]:
        """Return the moves that can happen next, in an order that depends on the past only; empty: at rest.
        It is called before every step, so a world keeps the list up to date and hands it out. Callers change
        nothing in it, and read it only until the next move.
        """

    def make(self, move: Move) -> None:
        """Let one of `moves()` happen."""

    def digest(self) -> bytes:
        """Return a digest of all actors' states and all pending work: equal states, equal digests."""

    def trace(self) -> Sequence[Step]:
        """Return one step for each move made, in order. Called rarely; may be computed then."""


@runtime_checkable
class Heals(Protocol):
    """A world that wants to know when its faults are over: from then on no move of that kind is chosen."""

    def heal(self) -> None:
        """Stop all faults. Called once in a run, or never."""


@runtime_checkable
class Skips(Protocol):
    """A world that can lose a message, which no run does: to find the steps that a rule does not need."""

    def skip(self, move: Move) -> None:
        """Take the message of a delivery from its inbox, and let no one handle it."""


@runtime_checkable
class Covers(Protocol):
    """A world that knows which situations it was in."""

    def coverage(self) -> Collection[tuple[str, str, str]]:
        """Return (role of the actor, tag of its state, tag of the message) for every handled message."""


def conditions_of(world: object) -> str:
    """Return the choices for a whole run, such as its fault mix, in one line; empty without any."""
    said: str = getattr(world, "conditions", str)()
    return said


@runtime_checkable
class Touches(Protocol):
    """A world that knows what a move touched; partial-order reduction asks for it."""

    def touched(self) -> Collection[str]:
        """Return what the order of the last move decides apart from its actor's state: see `Step.touched`."""


@runtime_checkable
class Captions(Protocol):
    """A world that has more to say about its moves than their labels, which are equal in every run."""

    def captions(self) -> Sequence[str]:
        """Return the caption of each move made; empty where the label says as much."""


def steps_of(world: World) -> tuple[Step, ...]:
    """Return the trace as people read it: with captions, which would slow down the search for small runs."""
    steps = tuple(world.trace())
    if not isinstance(world, Captions):
        return steps
    told = zip(steps, world.captions(), strict=True)
    return tuple(msgspec.structs.replace(step, about=about) for step, about in told)


def is_count(value: object, least: int = 0) -> bool:
    """Return whether a value is a whole number, `least` or more, and no bool."""
    return type(value) is int and value >= least


W_contra = TypeVar("W_contra", bound=World, contravariant=True)
W = TypeVar("W", bound=World)

MakeWorld: TypeAlias = Callable[[], W]
"""A new world at its start, with an empty trace; called once for each run."""


class Violation(msgspec.Struct, frozen=True):
    """A rule that a run broke. rule: one sentence. at: the seq of the step after which it was broken.

    place: of an exception, file, line and function: `shop.py:14 in clerk`.
    """

    rule: str
    at: int
    place: str = ""


def place_of(error: Exception) -> str:
    """Return the file, line and function that raised; empty if they are not known."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    return f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}"


class Monitor(Protocol[W_contra]):
    """Watches one run at a time. A campaign keeps it for all its runs and begins it again for each."""

    def begin(self, steps: int) -> None:
        """Begin a run with `steps` steps before its faults are over: forget the last one."""

    def after(self, world: W_contra, at: int, fair_steps: int) -> Violation | None:
        """Look at the world after step `at`; 0 is the start. fair_steps: steps since the faults were over."""

    def at_rest(self, world: W_contra, at: int) -> Violation | None:
        """Look at the world when nothing more is going to happen in it."""


_IDLE: Final[set[Callable[..., object]]] = set()

After = TypeVar("After", bound=Callable[..., object])


def idle(after: After) -> After:
    """Mark the `after` of monitors that look at worlds at rest only: no run calls it."""
    _IDLE.add(after)
    return after


def watches(monitor: object) -> bool:
    """Return whether a monitor looks at steps."""
    return getattr(type(monitor), "after", None) not in _IDLE


@runtime_checkable
class JudgesUnfinished(Protocol[W_contra]):
    """A monitor that can judge a run that ends before it is at rest, by a bound or with its schedule."""

    def unfinished(self, world: W_contra, at: int) -> Violation | None:
        """Look at the world as far as it came, to step `at`: a missing message might still have come."""


Scenario: TypeAlias = Callable[[], tuple[MakeWorld[W], Sequence[Monitor[W]]]]
"""The subject to explore: a maker of worlds, and the rules. Other processes find it by its name."""


def run_to_rest(world: World, choose: Callable[[int], int], steps: int) -> None:
    """Make moves until none is left. choose: gets their number and returns the index of one.

    Raises AssertionError if the world still moves after these steps.
    """
    for _ in range(steps):
        moves = world.moves()
        if not moves:
            return
        world.make(moves[choose(len(moves))])
    raise AssertionError(f"the world does not come to rest within {steps:,} steps")
