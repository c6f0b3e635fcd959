import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.canonical import tag
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.world import Covers, Move, Touches
from tests.effort import effort
from tests.replay.testing.programs import collect, collector
from tests.replay.testing.random_programs import RandomProgram, worlds


class Hello(msgspec.Struct, frozen=True):
    name: str


def forward(*recipients: str) -> Actor[int, str]:
    return Actor(0, lambda state, sender, message: (state + 1, [(one, message) for one in recipients]))


def take(world: ProgramWorld, strand: str) -> None:
    (move,) = [move for move in world.moves() if move.strand == strand]
    world.make(move)


def strands(world: ProgramWorld) -> set[str]:
    return {move.strand for move in world.moves()}


def test_channels_are_chains_and_keep_their_order() -> None:
    empty: tuple[str, ...] = ()
    program = Program(
        {"c": Actor(empty, collect)}, [Send("a", "c", "1"), Send("b", "c", "2"), Send("a", "c", "3")]
    )
    world = program.world()
    assert strands(world) == {"a>c", "b>c"}
    for strand in ("a>c", "a>c", "b>c"):
        take(world, strand)
    assert world.states == {"c": ("1", "3", "2")}
    assert world.moves() == []


def test_one_inbox_is_one_chain_in_the_order_of_posting() -> None:
    world = collector("1", "2", inboxes="actor").world()
    assert strands(world) == {"inbox c"}
    take(world, "inbox c")
    take(world, "inbox c")
    assert world.states == {"c": ("1", "2")}


def test_a_decisions_posts_are_there_at_once() -> None:
    world = Program(
        {"a": forward("b", "c"), "b": forward(), "c": forward("b")}, [Send("s", "a", "m")]
    ).world()
    take(world, "s>a")
    assert strands(world) == {"a>b", "a>c"}
    take(world, "a>c")
    assert strands(world) == {"a>b", "c>b"}


def test_messages_are_called_by_their_class_text_or_first_word() -> None:
    starts = [Send(f"s{n}", "a", message) for n, message in enumerate(["go", Hello("x"), ("put", 3), 7, ()])]
    labels = {move.label.split()[2] for move in Program({"a": forward()}, starts).world().moves()}
    assert labels == {"go", "Hello", "put", "int", "tuple"}
    assert [tag(one) for one in ("go", Hello("x"), ("put", 3), 7)] == ["go", "Hello", "put", "int"]


def test_the_label_is_that_of_the_head() -> None:
    world = Program({"a": forward()}, [Send("s", "a", "1"), Send("s", "a", "2")]).world()
    assert [move.label for move in world.moves()] == ["a handles 1 from s"]
    take(world, "s>a")
    assert [move.label for move in world.moves()] == ["a handles 2 from s"]


def test_what_clients_send_is_a_clients_move() -> None:
    program = Program({"a": forward()}, [Send("user", "a", "m"), Send("s", "a", "m")], clients=["user"])
    assert {move.strand: move.kind for move in program.world().moves()} == {
        "user>a": "client",
        "s>a": "deliver",
    }


def test_an_actor_wakes_and_fails_only_in_states_that_say_so() -> None:
    def step(state: str, sender: str, message: str) -> tuple[str, Posts]:
        return message, ()

    sleeper = Actor(
        "new",
        step,
        wakes=lambda state: ("timeout",) if state == "new" else (),
        faults=lambda state: ("crash",) if state != "crash" else (),
    )
    world = Program({"a": sleeper}).world()
    kinds = {move.strand: move.kind for move in world.moves()}
    assert kinds == {"a wakes timeout": "port", "a wakes crash": "fault"}
    take(world, "a wakes timeout")
    assert strands(world) == {"a wakes crash"}
    take(world, "a wakes crash")
    assert (world.states["a"], world.moves()) == ("crash", [])


def test_the_trace_says_who_posted_what() -> None:
    world = Program({"a": forward("b"), "b": forward()}, [Send("s", "a", "m"), Send("s", "b", "m")]).world()
    for strand in ("s>b", "s>a", "a>b"):
        take(world, strand)
    assert [(step.seq, step.sender, step.recipient, step.cause) for step in world.trace()] == [
        (1, "s", "b", 0),
        (2, "s", "a", 0),
        (3, "a", "b", 2),
    ]


def test_the_cause_of_waking_is_the_step_since_which_the_actor_may_wake() -> None:
    def wakes(state: int) -> tuple[str, ...]:
        return ("early",) if state == 0 else ("late",) if state == 1 else ()

    sleeper: Actor[int, str] = Actor(0, lambda state, sender, message: (state + 1, ()), wakes)
    world = Program({"a": sleeper, "b": forward()}, [Send("s", "b", "1"), Send("s", "b", "2")]).world()
    for strand in ("s>b", "a wakes early", "s>b", "a wakes late"):
        take(world, strand)
    assert [step.cause for step in world.trace()] == [0, 0, 0, 2]


def test_an_inbox_that_was_added_to_was_touched() -> None:
    actors = {"a": forward("c"), "b": forward(), "c": forward()}
    world = Program(actors, [Send("s", "a", "m"), Send("s", "b", "m")], inbox="actor").world()
    take(world, "inbox a")
    assert set(world.touched()) == {"inbox c"}
    take(world, "inbox b")
    assert set(world.touched()) == set()
    assert [step.touched for step in world.trace()] == [("inbox c",), ()]
    assert not Program(actors, [Send("s", "a", "m")]).world().touched()


def test_the_trace_ends_with_the_step_that_raised() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        raise ValueError("no")

    world = Program({"a": Actor(0, step)}, [Send("s", "a", "m")]).world()
    with pytest.raises(ValueError, match="no"):
        take(world, "s>a")
    assert [one.recipient for one in world.trace()] == ["a"]


def test_a_post_to_an_unknown_actor_is_misuse() -> None:
    with pytest.raises(MisuseError, match="s posts to 'x', there is a"):
        Program({"a": forward()}, [Send("s", "x", "m")])


def test_coverage_is_role_state_and_message() -> None:
    worker: Actor[str, str] = Actor("new", lambda state, sender, message: ("old", ()), role="worker")
    actors = {"a": worker}
    world = Program(actors, [Send("s", "a", "m"), Send("s", "a", "n")]).world()
    take(world, "s>a")
    take(world, "s>a")
    assert set(world.coverage()) == {("worker", "new", "m"), ("worker", "old", "n")}


def test_a_world_can_be_covered_and_asked_for_touched_state() -> None:
    assert isinstance(collector("1").world(), Covers)
    assert isinstance(collector("1").world(), Touches)


@pytest.mark.slow
@settings(max_examples=effort(40, 500), deadline=None)
@given(worlds(), st.lists(st.integers(0, 99), max_size=40))
def test_equal_moves_lead_to_equal_states(make: RandomProgram, picks: list[int]) -> None:
    one, other = make(), make()
    for pick in picks:
        offered = list(one.moves())
        assert offered == list(other.moves())
        if not offered:
            break
        move = offered[pick % len(offered)]
        one.make(move)
        other.make(move)
        assert one.digest() == other.digest()


@pytest.mark.slow
@settings(max_examples=effort(40, 500), deadline=None)
@given(worlds(["channel"]), st.lists(st.integers(0, 99), max_size=40))
def test_the_lean_world_offers_what_a_plain_one_would(program: RandomProgram, picks: list[int]) -> None:
    actors, starts, world = program.actors, program.starts, program()
    assert isinstance(world, ProgramWorld)
    queues: dict[str, list[Send]] = {}
    for send in starts:
        queues.setdefault(f"{send.sender}>{send.recipient}", []).append(send)
    states = {name: actor.initial for name, actor in actors.items()}
    for pick in picks:
        plain = {strand for strand, queue in queues.items() if queue}
        plain |= {
            f"{name} wakes {message}"
            for name, actor in actors.items()
            for message in (actor.wakes(states[name]) if actor.wakes else ())
        }
        offered: list[Move] = list(world.moves())
        assert {move.strand for move in offered} == plain
        assert len(offered) == len(plain)
        if not offered:
            break
        move = offered[pick % len(offered)]
        name = move.actor
        if move.strand in queues:
            send = queues[move.strand].pop(0)
        else:
            send = Send(name, name, int(move.strand.split()[-1]))
        assert isinstance(send.message, int)
        states[name], posts = actors[name].step(states[name], send.sender, send.message)
        for recipient, message in posts:
            queues.setdefault(f"{name}>{recipient}", []).append(Send(name, recipient, message))
        world.make(move)
        assert world.states == states
