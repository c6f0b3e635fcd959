"""Races on shared variables, as messages to the actor that holds them: SCTBench's smaller programs."""

from callboard.replay.testing.monitors import always, at_rest
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from tests.replay.testing.known_bugs.case import Actors, Case, Monitors

SCTBENCH = "https://github.com/mc-imperial/sctbench (Thomson, Donaldson, Betts, TOPC 2016)"
Pair = tuple[int, int]


def says(*messages: object) -> Actor[int, object]:
    """Make an actor that sends these to the memory for each message it gets."""
    return Actor(0, lambda state, sender, message: (state, [("memory", one) for one in messages]))


def reorder(setters: int, is_fixed: bool) -> tuple[Program, Monitors]:
    """Make setters that write a, then b, and a checker that must see both or neither."""

    def memory(state: Pair, sender: str, message: str) -> tuple[Pair, Posts]:
        a, b = state
        if message == "check":
            assert (a, b) in ((0, 0), (1, -1)), "the checker sees both writes or none"
            return state, ()
        return (1 if "a" in message else a, -1 if "b" in message else b), ()

    writes = ("set ab",) if is_fixed else ("set a", "set b")
    names = [f"setter{number}" for number in range(setters)]
    actors: Actors = {"memory": Actor((0, 0), memory), **{name: says(*writes) for name in names}}
    actors["checker"] = says("check")
    return Program(actors, [Send("main", name, "go") for name in [*names, "checker"]]), ()


def reorder_case(setters: int) -> Case:
    return Case(f"reorder_{setters}", SCTBENCH, lambda is_fixed: reorder(setters, is_fixed), 4)


def twostage(is_fixed: bool, pairs: int) -> tuple[Program, Monitors]:
    """Make a writer that sets data2 from data1 in a second step, and a reader with two steps too."""

    def memory(state: Pair, sender: str, message: str) -> tuple[Pair, Posts]:
        one, two = state
        match message:
            case "set1":
                return (1, two), [(sender, "set")]
            case "set2":
                return (one, one + 1), ()
            case "set both":
                return (1, 2), ()
            case "get1":
                return state, [(sender, ("first", one))]
            case _:
                return state, [(sender, ("second", two))]

    def writer(state: int, sender: str, message: str) -> tuple[int, Posts]:
        if message == "set":
            return state, [("memory", "set2")]
        return state, [("memory", "set both" if is_fixed else "set1")]

    def reader(state: int, sender: str, message: object) -> tuple[int, Posts]:
        match message:
            case ("first", int(value)):
                return value, [("memory", "get2")] if value else ()
            case ("second", int(value)):
                assert value == state + 1, "the second stage follows the first"
                return state, ()
            case _:
                return state, [("memory", "get1")]

    writers = [f"writer{number}" for number in range(pairs)]
    readers = [f"reader{number}" for number in range(pairs)]
    actors: Actors = {"memory": Actor((0, 0), memory)}
    actors |= {name: Actor(0, writer) for name in writers}
    actors |= {name: Actor(0, reader) for name in readers}
    return Program(actors, [Send("main", name, "go") for name in writers + readers]), ()


def token_ring(is_fixed: bool) -> tuple[Program, Monitors]:
    """Set x1 = x3 + 1, x2 = x1, x3 = x2, each in its own thread; a fourth finds them equal at the end."""
    Ring = tuple[int, int, int, frozenset[str]]

    def memory(state: Ring, sender: str, message: str) -> tuple[Ring, Posts]:
        x1, x2, x3, done = state
        following: Posts = [(f"t{int(sender[1:]) + 1}", "go")] if is_fixed and sender != "t4" else ()
        match sender:
            case "t1":
                x1 = (x3 + 1) % 4
            case "t2":
                x2 = x1
            case "t3":
                x3 = x2
            case "t4":
                assert len(done) < 3 or x1 == x2 == x3, "all three are equal when all are done"
            case _:
                pass
        return (x1, x2, x3, done | {sender}), following

    threads = ("t1", "t2", "t3", "t4")
    actors: Actors = {"memory": Actor((1, 2, 1, frozenset()), memory)}
    actors |= {name: says("turn") for name in threads}
    return Program(actors, [Send("main", name, "go") for name in threads[: 1 if is_fixed else 4]]), ()


def account(is_fixed: bool) -> tuple[Program, Monitors]:
    """Make two clients that add to a balance by a read and a write; one update is lost."""

    def memory(balance: int, sender: str, message: object) -> tuple[int, Posts]:
        match message:
            case ("add", int(amount)):
                return balance + amount, ()
            case ("put", int(amount)):
                return amount, ()
            case _:
                return balance, [(sender, ("is", balance))]

    def client(amount: int, sender: str, message: object) -> tuple[int, Posts]:
        match message:
            case ("is", int(balance)):
                return amount, [("memory", ("put", balance + amount))]
            case _:
                return amount, [("memory", ("add", amount) if is_fixed else "get")]

    def is_right(world: ProgramWorld) -> bool:
        return bool(world.states["memory"] == 7)

    actors = {"memory": Actor(1, memory), "two": Actor(2, client), "four": Actor(4, client)}
    program = Program(actors, [Send("main", "two", "go"), Send("main", "four", "go")])
    return program, [at_rest("No deposit is lost", is_right)]


def needle(is_fixed: bool, steps: int = 20) -> tuple[Program, Monitors]:
    """Make a child that does all its steps before a cancel that was under way from the start."""
    Child = tuple[str, int]

    def child(state: Child, sender: str, message: object) -> tuple[Child, Posts]:
        phase, done = state
        if message == "cancel":
            return ("cancelled", done), ()
        if phase == "cancelled" or is_fixed:
            return state, ()
        return (phase, done + 1), [("worker", "done")] if done + 1 < steps else ()

    def worker(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state, [("child", "step")]

    def is_open(world: ProgramWorld) -> bool:
        return bool(world.states["child"][1] < steps)

    actors: Actors = {
        "child": Actor(("running", 0), child),
        "worker": Actor(0, worker),
    }
    starts = [Send("boss", "child", "cancel"), Send("main", "worker", "go")]
    return Program(actors, starts), [always("A cancelled child does not finish", is_open)]


CASES = [
    *(reorder_case(setters) for setters in (3, 4, 5, 10, 20)),
    Case("twostage", SCTBENCH, lambda is_fixed: twostage(is_fixed, 1), 7),
    Case("twostage_crowd", SCTBENCH, lambda is_fixed: twostage(is_fixed, 10), 7),
    Case("token_ring", SCTBENCH, token_ring, 8),
    Case("account", SCTBENCH, account, 8),
    Case("needle", "a cancel that loses a race of twenty steps", needle, 40),
]
