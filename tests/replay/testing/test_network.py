from typing import Any

from callboard.replay.testing.program import Actor, Posts, Send
from tests.replay.testing.network import Network, NetworkWorld
from tests.replay.testing.programs import collect

EMPTY: tuple[str, ...] = ()


def network(*messages: str, is_lossy: bool = False, is_duplicating: bool = False) -> NetworkWorld:
    starts = [Send("s", "c", message) for message in messages]
    return Network(
        {"c": Actor(EMPTY, collect)}, starts, is_lossy=is_lossy, is_duplicating=is_duplicating
    ).world()


def take(world: NetworkWorld, strand: str) -> None:
    (move,) = [move for move in world.moves() if move.strand == strand]
    world.make(move)


def strands(world: NetworkWorld) -> list[str]:
    return [move.strand for move in world.moves()]


def test_messages_of_one_sender_overtake_each_other() -> None:
    world = network("1", "2")
    take(world, "s>c 2")
    take(world, "s>c 1")
    assert world.states["c"] == ("2", "1")
    assert strands(world) == []


def test_equal_messages_are_as_many_as_were_posted() -> None:
    world = network("1", "1")
    assert strands(world) == ["s>c 1", "s>c 1 (2)"]
    take(world, "s>c 1")
    assert strands(world) == ["s>c 1 (2)"]


def test_the_name_of_a_message_does_not_depend_on_what_others_have_done_with_the_like() -> None:
    def twice(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state, [("c", "1")]

    actors: dict[str, Actor[Any, str]] = {"a": Actor(0, twice), "c": Actor(EMPTY, collect)}
    for order in (
        ("s>a go", "s>a go (2)", "a>c 1", "a>c 1 (2)"),
        ("s>a go", "a>c 1", "s>a go (2)", "a>c 1 (2)"),
    ):
        world = Network(actors, [Send("s", "a", "go"), Send("s", "a", "go")]).world()
        for strand in order:
            take(world, strand)
        assert strands(world) == []


def test_a_lossy_network_may_lose_a_message_under_way_which_is_a_fault() -> None:
    world = network("1", is_lossy=True)
    assert [(move.strand, move.kind) for move in world.moves()] == [
        ("s>c 1", "deliver"),
        ("lose s>c 1", "fault"),
    ]
    take(world, "lose s>c 1")
    assert (world.states["c"], strands(world)) == ((), [])


def test_a_duplicating_network_delivers_again_and_keeps_equal_messages_once() -> None:
    world = network("1", "1", is_duplicating=True)
    assert strands(world) == ["s>c 1"]
    take(world, "s>c 1")
    take(world, "s>c 1")
    assert world.states["c"] == ("1", "1")


def test_the_digest_is_of_states_and_messages_under_way_in_any_order() -> None:
    one, other = network("1", "2"), network("2", "1")
    assert one.digest() == other.digest()
    take(one, "s>c 1")
    assert one.digest() != other.digest()


def test_an_actor_that_wakes_is_caused_by_what_put_it_into_that_state() -> None:
    actor = Actor(
        EMPTY,
        collect,
        wakes=lambda state: ("late",) if state == ("1",) else (),
        faults=lambda state: ("die",),
    )
    world = Network({"c": actor}, [Send("s", "c", "1")]).world()
    assert strands(world) == ["s>c 1", "c wakes die"]
    take(world, "s>c 1")
    take(world, "c wakes late")
    assert [(step.strand, step.cause) for step in world.trace()] == [("s>c 1", 0), ("c wakes late", 1)]
    assert world.states["c"] == ("1", "late")
