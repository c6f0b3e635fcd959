"""The counts of states that another checker publishes: https://github.com/stateright/stateright."""

from copy import deepcopy
from typing import Self

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.program import Actor, Posts, ProgramWorld, Send
from tests.effort import long_search
from tests.replay.testing.network import Network, NetworkWorld
from tests.replay.testing.programs import Silent, collector
from tests.replay.testing.state_space import Reached, reach


def pinger(count: int, sender: str, message: tuple[str, int]) -> tuple[int, Posts]:
    if message == ("pong", count):
        return count + 1, [("ponger", ("ping", count + 1))]
    return count, ()


def ponger(count: int, sender: str, message: tuple[str, int]) -> tuple[int, Posts]:
    if message == ("ping", count):
        return count + 1, [("pinger", ("pong", count))]
    return count, ()


def ping_pong(*, is_lossy: bool, is_duplicating: bool) -> Network:
    actors = {"pinger": Actor(0, pinger), "ponger": Actor(0, ponger)}
    starts = [Send("pinger", "ponger", ("ping", 0))]
    return Network(actors, starts, is_lossy=is_lossy, is_duplicating=is_duplicating)


def counted(network: Network, most: int) -> int:
    def within(world: NetworkWorld) -> bool:
        return bool(max(world.states.values()) <= most)

    return reach(network.world, within).states


@pytest.mark.slow
def test_ping_pong_to_five_with_loss_and_duplicates_has_4094_states() -> None:
    assert counted(ping_pong(is_lossy=True, is_duplicating=True), 5) == 4_094


def test_ping_pong_to_five_with_perfect_delivery_has_11_states() -> None:
    assert counted(ping_pong(is_lossy=False, is_duplicating=False), 5) == 11


def test_ping_pong_to_one_with_loss_and_duplicates_has_14_states() -> None:
    assert counted(ping_pong(is_lossy=True, is_duplicating=True), 1) == 14


def two_phase_commit(managers: int) -> Network:
    """Make the model of Gray and Lamport: messages stay in the network; every participant may decide alone.

    The published count is of a model without actors. It is the same here: each of its actions is a
    message that an actor sends itself, and its one message to all is one to each, sent at once.
    """
    names = [f"rm{number}" for number in range(managers)]
    Decision = tuple[str, frozenset[str]]

    def manager(state: str, sender: str, message: str) -> tuple[str, Posts]:
        match message:
            case "prepare":
                return "prepared", [("tm", "prepared")]
            case "commit":
                return "committed", ()
            case _:
                return "aborted", ()

    def coordinator(state: Decision, sender: str, message: str) -> tuple[Decision, Posts]:
        phase, prepared = state
        if phase != "init":
            return state, ()
        match message:
            case "prepared":
                return (phase, prepared | {sender}), ()
            case "decide to commit":
                return ("committed", prepared), [(name, "commit") for name in names]
            case _:
                return ("aborted", prepared), [(name, "abort") for name in names]

    def decides(state: Decision) -> tuple[str, ...]:
        phase, prepared = state
        if phase != "init":
            return ()
        return ("decide to abort", *(("decide to commit",) if len(prepared) == managers else ()))

    def may(state: str) -> tuple[str, ...]:
        return ("prepare", "abort") if state == "working" else ()

    init: Decision = ("init", frozenset())
    actors: dict[str, Actor[Decision, str] | Actor[str, str]] = {"tm": Actor(init, coordinator, decides)}
    actors |= {name: Actor("working", manager, may) for name in names}
    return Network(actors, is_duplicating=True)


def test_two_phase_commit_of_three_has_288_states() -> None:
    assert reach(two_phase_commit(3).world).states == 288


@long_search
def test_two_phase_commit_of_five_has_8832_states() -> None:
    assert reach(two_phase_commit(5).world).states == 8_832


class Copied(ProgramWorld):
    """A world of a program that can be copied."""

    def fork(self) -> Self:
        return deepcopy(self, {id(self.program): self.program})


def small() -> Copied:
    return Copied(collector("1", "2", "3"))


def test_states_ends_and_moves_of_a_small_program() -> None:
    # three messages in any order: 1 + 3 + 6 + 6 states, the last six are ends
    assert reach(small) == Reached(states=16, ends=6, moves=15)


def test_too_many_states_and_worlds_without_copies_are_refused() -> None:
    with pytest.raises(MisuseError, match="more than 10 states"):
        reach(small, states_max=10)
    with pytest.raises(MisuseError, match="Silent cannot be copied"):
        reach(Silent)  # type: ignore[type-var]  # the subject of this test
