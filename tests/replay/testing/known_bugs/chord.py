"""Lookups that are never answered in a ring that changes while they are under way.

loop  a node joins and tells the manager before its successor knows of it; the one stabilisation that follows
      then changes nothing, and a lookup for a key that was handed over runs around the ring forever
lost  a node that leaves drops the lookups that its predecessor still sends to it
"""

from typing import NamedTuple

from callboard.replay.testing.monitors import eventually
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from tests.replay.testing.known_bugs.case import Actors, Case, Monitors

SOURCE = "https://github.com/microsoft/coyote, ChordTests"


class Node(NamedTuple):
    successor: str
    predecessor: str = ""
    keys: frozenset[int] = frozenset()
    is_gone: bool = False


def node_step(
    node: Node, sender: str, message: object, *, acks_early: bool, forwards: bool
) -> tuple[Node, Posts]:
    match message:
        case "join":  # by the manager; the successor is known
            early = [("manager", "joined")] if acks_early else []
            return node, [(node.successor, "I precede you"), *early]
        case "I precede you":
            handed = frozenset(key for key in node.keys if key < 3)
            posts: list[tuple[str, object]] = [(sender, ("keys", tuple(sorted(handed))))]
            return node._replace(predecessor=sender, keys=node.keys - handed), posts
        case ("keys", tuple(keys)):
            late = [("manager", "joined")] if not acks_early else []
            return node._replace(keys=frozenset(keys)), late
        case "stabilise":
            return node, [(node.successor, "who precedes you")]
        case "who precedes you":
            return node, [(sender, ("precedes me", node.predecessor))]
        case ("precedes me", str(other)):
            return node._replace(successor=other or node.successor), ()
        case "leave":
            return node._replace(is_gone=True), [("n0", ("precedes me", node.successor))]
        case ("lookup", int(key)):
            if node.is_gone and not forwards:
                return node, ()
            if key in node.keys and not node.is_gone:
                return node, [("client", "found")]
            return node, [(node.successor, message)]
        case _:
            return node, ()


def client_step(state: str, sender: str, message: str) -> tuple[str, Posts]:
    if message == "found":
        return "answered", ()
    return "asked", [("n0", ("lookup", 1))]


def manager_step(state: int, sender: str, message: str) -> tuple[int, Posts]:
    return state, [("n0", "stabilise")]


def is_answered(world: ProgramWorld) -> bool:
    return bool(world.states["client"] != "asked")


RULE = eventually("A lookup is answered", is_answered)


def ring(nodes: dict[str, Node], *, acks_early: bool, forwards: bool) -> Actors:
    def step(node: Node, sender: str, message: object) -> tuple[Node, Posts]:
        return node_step(node, sender, message, acks_early=acks_early, forwards=forwards)

    return {name: Actor(node, step, role="node") for name, node in nodes.items()}


def loop(is_fixed: bool) -> tuple[Program, Monitors]:
    nodes = {"n0": Node("n3"), "n2": Node("n3"), "n3": Node("n0", "n0", frozenset({1, 2, 3}))}
    actors: Actors = {
        "manager": Actor(0, manager_step),
        "client": Actor("new", client_step),
        **ring(nodes, acks_early=not is_fixed, forwards=True),
    }
    return Program(actors, [Send("manager", "n2", "join"), Send("main", "client", "go")]), [RULE]


def lost(is_fixed: bool) -> tuple[Program, Monitors]:
    nodes = {"n0": Node("n2"), "n2": Node("n3"), "n3": Node("n0", "n2", frozenset({1}))}
    actors: Actors = {
        "client": Actor("new", client_step),
        **ring(nodes, acks_early=False, forwards=is_fixed),
    }
    return Program(actors, [Send("main", "n2", "leave"), Send("main", "client", "go")]), [RULE]


LOOP_STEPS = 20
"""N of the runs of `loop`: its smallest trace is four steps, and 5 N + 1 in which the lookup runs around."""

CASES = [
    Case("chord_loop", SOURCE, loop, 5 + 5 * LOOP_STEPS, LOOP_STEPS),
    Case("chord_lost", SOURCE, lost, 5),
]
