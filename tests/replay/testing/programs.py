"""Small programs to explore. Other processes import this module: it must import quickly."""

from collections.abc import Callable
from typing import NamedTuple

from callboard.replay.testing.program import Actor, Posts, Program, Send
from callboard.replay.testing.run import Scheduler, perform
from callboard.replay.testing.statistics import order_hash
from callboard.replay.testing.world import Move, Step, World


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
