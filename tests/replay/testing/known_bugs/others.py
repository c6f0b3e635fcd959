"""More bugs of the lists: a repair that never comes, a hasty participant, philosophers, a stale cache."""

from typing import NamedTuple

from callboard.replay.testing.monitors import always, at_rest, eventually
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from tests.replay.testing.known_bugs.case import Actors, Case, Monitors

NODES = ("n1", "n2", "n3", "spare")


class Manager(NamedTuple):
    """alive: nodes that the manager counts on. stored: those it believes to have the data."""

    alive: tuple[str, ...] = NODES[:3]
    stored: frozenset[str] = frozenset()
    has_data: bool = False


def storage(is_fixed: bool) -> tuple[Program, Monitors]:
    """Make a manager that counts the reports of failed nodes as replicas."""

    def manager(state: Manager, sender: str, message: object) -> tuple[Manager, Posts]:
        match message:
            case "write":
                return state._replace(has_data=True), [(name, "store") for name in state.alive]
            case "stored" if sender in state.alive or not is_fixed:
                return state._replace(stored=state.stored | {sender}), ()
            case ("failed", str(name)):
                alive = tuple(one for one in (*state.alive, "spare") if one != name)
                return state._replace(alive=alive, stored=state.stored - {name}), ()
            case "repair":
                return state, [(name, "store") for name in state.alive if name not in state.stored]
            case _:
                return state, ()

    def node(state: str, sender: str, message: str) -> tuple[str, Posts]:
        if message == "die" or state == "dead":
            return "dead", ()
        return "stored", [("manager", "stored")]

    def world_outside(state: str, sender: str, message: str) -> tuple[str, Posts]:
        return "killed", [("n1", "die"), ("manager", ("failed", "n1"))]

    def is_replicated(world: ProgramWorld) -> bool:
        stored = sum(world.states[name] == "stored" for name in NODES)
        return stored >= 3 or not world.states["manager"].has_data

    actors: Actors = {
        "manager": Actor(
            Manager(),
            manager,
            wakes=lambda state: ("repair",) if state.has_data and len(state.stored) < 3 else (),
        ),
        **{name: Actor("empty", node, role="node") for name in NODES},
        "outside": Actor("", world_outside, faults=lambda state: () if state else ("kill",)),
    }
    program = Program(actors, [Send("client", "manager", "write")], clients=["client"])
    return program, [eventually("Three live nodes have the data in the end", is_replicated)]


def commit(is_fixed: bool) -> tuple[Program, Monitors]:
    """Make a two-phase commit in which a participant that voted yes gives up after a long wait."""

    def coordinator(votes: int, sender: str, message: str) -> tuple[int, Posts]:
        if message == "begin":
            return votes, [("p1", "prepare"), ("p2", "prepare")]
        return votes + 1, [("p1", "commit"), ("p2", "commit")] if votes == 1 else ()

    def participant(state: str, sender: str, message: str) -> tuple[str, Posts]:
        match message:
            case "prepare":
                return "prepared", [("coordinator", "yes")]
            case "commit" if state == "prepared":
                return "committed", ()
            case "timeout":
                return "aborted", ()
            case _:
                return state, ()

    def agree(world: ProgramWorld) -> bool:
        return not {"committed", "aborted"} <= {world.states["p1"], world.states["p2"]}

    def timeout(state: str) -> tuple[str, ...]:
        return ("timeout",) if state == "prepared" and not is_fixed else ()

    actors: Actors = {
        "coordinator": Actor(0, coordinator),
        "p1": Actor("working", participant, timeout),
        "p2": Actor("working", participant, timeout),
    }
    program = Program(actors, [Send("client", "coordinator", "begin")], clients=["client"])
    return program, [always("No one commits what another aborts", agree)]


def philosophers(is_fixed: bool, count: int = 4) -> tuple[Program, Monitors]:
    """Make philosophers that take their left fork first; each may get only one. Fixed: one is left-handed."""
    Fork = tuple[str, ...]

    def fork(queue: Fork, sender: str, message: str) -> tuple[Fork, Posts]:
        if message == "take":
            return (*queue, sender), [(sender, "yours")] if not queue else ()
        rest = queue[1:]
        return rest, [(rest[0], "yours")] if rest else ()

    def philosopher(number: int) -> Actor[int, str]:
        forks = [f"f{number}", f"f{(number + 1) % count}"]
        if is_fixed and number == 0:
            forks.reverse()

        def step(held: int, sender: str, message: str) -> tuple[int, Posts]:
            if message == "eat":
                return 0, [(forks[0], "take")]
            if held == 0:
                return 1, [(forks[1], "take")]
            return 2, [(one, "put") for one in forks]

        return Actor(0, step, role="philosopher")

    def all_ate(world: ProgramWorld) -> bool:
        return all(world.states[f"p{number}"] == 2 for number in range(count))

    empty: Fork = ()
    actors: Actors = {
        **{f"f{number}": Actor(empty, fork, role="fork") for number in range(count)},
        **{f"p{number}": philosopher(number) for number in range(count)},
    }
    program = Program(actors, [Send("main", f"p{number}", "eat") for number in range(count)])
    return program, [at_rest("Everyone has eaten in the end", all_ate)]


def cache(is_fixed: bool) -> tuple[Program, Monitors]:
    """Make a reader that caches a value read before a write whose invalidation came first."""
    Cached = tuple[int | None, int]

    def store(value: int, sender: str, message: object) -> tuple[int, Posts]:
        if message == "write":
            return value + 1, [("cache", ("forget", value + 1))]
        return value, [("reader", ("is", value))]

    def reader(state: int, sender: str, message: object) -> tuple[int, Posts]:
        match message:
            case ("is", int(value)):
                return state, [("cache", ("fill", value))]
            case _:
                return state, [("store", "read")]

    def cache(state: Cached, sender: str, message: tuple[str, int]) -> tuple[Cached, Posts]:
        kind, value = message
        _, least = state
        if kind == "forget":
            return (None, value), ()
        return (value if value >= least or not is_fixed else None, least), ()

    def is_fresh(world: ProgramWorld) -> bool:
        return world.states["cache"][0] in (None, world.states["store"])

    actors: Actors = {
        "store": Actor(0, store),
        "reader": Actor(0, reader),
        "cache": Actor((None, 0), cache),
    }
    starts = [Send("client1", "reader", "read"), Send("client2", "store", "write")]
    program = Program(actors, starts, clients=["client1", "client2"])
    return program, [at_rest("The cache has what the store has, or nothing", is_fresh)]


CASES = [
    Case("storage_repair", "https://github.com/microsoft/coyote, ReplicatingStorageTests", storage, 10),
    Case("hasty_participant", "https://github.com/p-org/P, two-phase commit", commit, 7),
    Case("philosophers", "https://github.com/mc-imperial/sctbench, din_phil", philosophers, 16),
    Case("stale_cache", "Akka bug study (OOPSLA 2020): a message order that was not meant", cache, 6),
]
