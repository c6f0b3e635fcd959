"""Chain replication: after the middle server crashed, a new update overtakes one that is sent again."""

from typing import NamedTuple

from callboard.replay.testing.monitors import always
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from tests.replay.testing.known_bugs.case import Actors, Case, Monitors


class Server(NamedTuple):
    """history: the numbers of the updates, as they came. sent: those that were given to the successor."""

    successor: str = ""
    predecessor: str = ""
    history: tuple[int, ...] = ()
    is_down: bool = False


def server_step(server: Server, sender: str, message: object) -> tuple[Server, Posts]:
    if server.is_down:
        return server, ()
    match message:
        case "crash":
            return server._replace(is_down=True), [("master", "middle is down")]
        case "update":
            number = len(server.history) + 1
            return forwarded(server, number)
        case ("forward", int(number)) if sender == server.predecessor and number not in server.history:
            return forwarded(server, number)
        case ("your predecessor", str(name)):
            return server._replace(predecessor=name), [("master", ("last", max(server.history, default=0)))]
        case ("your successor", str(name)):
            return server._replace(successor=name), ()
        case ("go on with", str(name), int(last)):
            again = [(name, ("forward", number)) for number in server.history if number > last]
            return server._replace(successor=name), again
        case _:
            return server, ()


def forwarded(server: Server, number: int) -> tuple[Server, Posts]:
    posts = [(server.successor, ("forward", number))] if server.successor else ()
    return server._replace(history=(*server.history, number)), posts


def chain(is_fixed: bool) -> tuple[Program, Monitors]:
    def master(state: int, sender: str, message: object) -> tuple[int, Posts]:
        match message:
            case ("last", int(last)):
                return state, [("head", ("go on with", "tail", last))]
            case _:
                pass
        hasty: list[tuple[str, object]] = [] if is_fixed else [("head", ("your successor", "tail"))]
        return state, [*hasty, ("tail", ("your predecessor", "head"))]

    def is_sorted(world: ProgramWorld) -> bool:
        return all(
            list(one.history) == sorted(one.history)
            for one in world.states.values()
            if isinstance(one, Server)
        )

    def crashes(server: Server) -> tuple[str, ...]:
        return () if server.is_down else ("crash",)

    actors: Actors = {
        "head": Actor(Server("middle"), server_step),
        "middle": Actor(Server("tail", "head"), server_step, faults=crashes),
        "tail": Actor(Server("", "middle"), server_step),
        "master": Actor(0, master),
    }
    starts = [
        Send("client1", "head", "update"),
        Send("client1", "head", "update"),
        Send("client2", "head", "update"),
    ]
    program = Program(actors, starts, clients=["client1", "client2"])
    return program, [always("The history of every server is sorted", is_sorted)]


CASES = [
    Case(
        "chain_replication",
        "https://github.com/microsoft/coyote, ChainReplicationTests: 'Sequence is not sorted'",
        chain,
        10,
    )
]
