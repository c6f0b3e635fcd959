"""Random programs to explore, and the strategy that draws them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from tests.replay.testing.network import Network, NetworkWorld

NAMES = ("a", "b", "c")

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
