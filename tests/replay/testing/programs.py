"""Small programs to explore, and a strategy for random ones."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hypothesis import strategies as st

from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.run import Scheduler, perform
from callboard.replay.testing.statistics import order_hash
from callboard.replay.testing.world import Move, Step, World
from tests.replay.testing.network import Network, NetworkWorld

NAMES = ("a", "b", "c")


def collect(state: tuple[str, ...], sender: str, message: str) -> tuple[tuple[str, ...], Posts]:
    """Keep the messages in the order of their delivery."""
    return (*state, message), ()


def collector(*messages: str, inboxes: str = "channel") -> Program:
    """Make one actor that gets each of these messages from its own sender: n! runs, n! ends."""
    empty: tuple[str, ...] = ()
    starts = [Send(f"s{number}", "c", message) for number, message in enumerate(messages)]
    return Program({"c": Actor(empty, collect)}, starts, inbox="actor" if inboxes == "actor" else "channel")


def apart(*names: str, messages: int = 2) -> Program:
    """Make actors that share no messages: many runs, one partial order."""
    empty: tuple[str, ...] = ()
    starts = [Send("s", name, f"m{number}") for name in names for number in range(messages)]
    return Program({name: Actor(empty, collect) for name in names}, starts)


class Ends(NamedTuple):
    """What a scheduler saw: runs that were not cut, their ends and partial orders, and runs that were."""

    runs: int
    cut: int
    ends: set[bytes]
    orders: list[bytes]


def all_runs(make_world: Callable[[], World], scheduler: Scheduler, runs_max: int = 20_000) -> Ends:
    """Let a scheduler make all its runs. Raises OverflowError if there are more than `runs_max`."""
    found = Ends(0, 0, set(), [])
    runs = cut = 0
    while True:
        world = make_world()
        if not scheduler.begin(world):
            return found._replace(runs=runs, cut=cut)
        run = perform(world, (), scheduler.choose, scheduler.choose)
        scheduler.finish(world)
        if run.is_cut:
            cut += 1
        else:
            runs += 1
            found.ends.add(world.digest())
            found.orders.append(order_hash(run.made))
        if runs + cut > runs_max:
            raise OverflowError(runs)


Table = dict[tuple[str, int, int], tuple[int, list[str]]]
"""(actor, state, message) -> the next state, and the recipients of the message less one."""


def table_actor(name: str, table: Table, wakes: bool) -> Actor[int, int]:
    """Make an actor that follows a table. Every message counts down, so every run ends."""

    def step(state: int, sender: str, message: int) -> tuple[int, Posts]:
        if message < 0:
            return 10 + state % 3, ()
        after, recipients = table.get((name, state % 3, message), (state, []))
        return state // 10 * 10 + after, [(one, message - 1) for one in recipients] if message else ()

    def wake(state: int) -> Iterable[int]:
        return (-1 - state % 3,) if state < 10 and state % 3 else ()

    return Actor(0, step, wake if wakes else None)


@dataclass(frozen=True)
class RandomProgram:
    """A program made of a table, printed as such where it breaks a test. kind: of its inboxes or network."""

    kind: str
    table: Table
    wakes: bool
    starts: list[Send]

    @property
    def actors(self) -> dict[str, Actor[int, int]]:
        names = dict.fromkeys(name for name, _, _ in self.table)
        return {name: table_actor(name, self.table, self.wakes) for name in names}

    def __call__(self) -> ProgramWorld | NetworkWorld:
        if self.kind in ("channel", "actor"):
            inbox: Literal["channel", "actor"] = "actor" if self.kind == "actor" else "channel"
            return Program(self.actors, self.starts, inbox=inbox).world()
        return Network(self.actors, self.starts, is_lossy=self.kind == "lossy").world()


@st.composite
def worlds(draw: st.DrawFn, kinds: Sequence[str] = ("channel", "actor", "network", "lossy")) -> RandomProgram:
    """Draw up to three actors that post by their states, and a few messages to start with."""
    names = NAMES[: draw(st.integers(2, 3))]
    keys = [(name, state, message) for name in names for state in range(3) for message in range(3)]
    values = st.tuples(st.integers(0, 2), st.lists(st.sampled_from(names), max_size=2))
    table = {key: draw(values) for key in keys}
    starts = st.builds(Send, st.sampled_from(("x", "y")), st.sampled_from(names), st.integers(0, 2))
    return RandomProgram(
        draw(st.sampled_from(kinds)),
        table,
        draw(st.booleans()),
        draw(st.lists(starts, min_size=1, max_size=4)),
    )


class Silent:
    """A world that does not say what its moves touch."""

    def moves(self) -> list[Move]:
        return []

    def make(self, move: Move) -> None:
        raise AssertionError

    def digest(self) -> bytes:
        return b""

    def trace(self) -> list[Step]:
        return []
