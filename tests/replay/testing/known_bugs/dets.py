"""Races in a disk table with delayed writes: five bugs of Erlang's dets, as QuickCheck and PULSE found them.

The table server collects updates and applies them in one batch when its delay is over. The bugs:
  1  a batch is answered as its first request is: insert_new gets "ok" for an answer instead of yes or no
  2  a batch that starts with a delete cannot be applied if it has an insert_new
  3  opening an open table forgets the delayed inserts, so one that was acknowledged is not there
  4  the same for a delayed delete
  5  the same, when the table was closed several times before
"""

from collections.abc import Container
from typing import Literal, NamedTuple

from callboard.replay.testing.program import Actor, Posts, Program, Send
from tests.replay.testing.known_bugs.case import Actors, Case, Monitors

SOURCE = (
    "https://github.com/parapluu/Concuerror, dets_bugs; Hughes, Bolinder, "
    "'Testing a database for race conditions with QuickCheck', Erlang Workshop 2011"
)
Kind = Literal["insert", "insert_new", "delete", "contents"]


class Table(NamedTuple):
    """disk: the stored items. delayed: updates that wait for the end of the delay, with their senders."""

    disk: frozenset[int] = frozenset()
    delayed: tuple[tuple[str, str], ...] = ()


class Server(NamedTuple):
    """The table server. bug: the one that it has; 0: none."""

    bug: int

    def step(self, table: Table, sender: str, message: str) -> tuple[Table, Posts]:
        match message:
            case "insert" | "insert_new" | "delete":
                table = table._replace(delayed=(*table.delayed, (sender, message)))
                is_acknowledged = self.bug in (3, 4, 5)
                return table, [(sender, ("answer", "ok"))] if is_acknowledged else ()
            case "open" if self.bug in (3, 4, 5):
                return table._replace(delayed=()), ()
            case "close":
                return Table(), [(sender, ("answer", "closed"))]
            case "contents":
                table, posts = self.apply(table)
                return table, [*posts, (sender, ("answer", tuple(table.disk)))]
            case _:
                return self.apply(table)

    def apply(self, table: Table) -> tuple[Table, Posts]:
        disk = set(table.disk)
        posts: list[tuple[str, object]] = []
        kinds = [kind for _, kind in table.delayed]
        assert not (self.bug == 2 and kinds[:1] == ["delete"] and "insert_new" in kinds), (
            "every batch is applied"
        )
        for sender, kind in table.delayed:
            answer: object = "ok"
            if kind == "insert_new":
                answer = 0 not in disk
            if kind == "delete":
                disk.discard(0)
            else:
                disk.add(0)
            if self.bug == 1 and kinds[0] == "insert":
                answer = "ok"
            if self.bug not in (3, 4, 5):
                posts.append((sender, ("answer", answer)))
        return Table(frozenset(disk)), posts


def asks(*kinds: str, expects: Container[object] | None = None) -> Actor[int, object]:
    """Make a client that sends its requests one after the other. expects: the last answer is one of these."""

    def step(asked: int, sender: str, message: object) -> tuple[int, Posts]:
        if asked and asked == len(kinds):
            assert isinstance(message, tuple)
            assert expects is None or message[1] in expects, f"the answer is one of {expects}"
            return asked, ()
        return asked + 1, [("table", kinds[asked])]

    return Actor(0, step)


BOOLEAN = (True, False)
CLIENTS: dict[int, Actors] = {
    1: {"a": asks("insert"), "b": asks("insert_new", expects=BOOLEAN)},
    2: {"a": asks("delete"), "b": asks("insert_new", expects=BOOLEAN)},
    3: {"a": asks("open"), "b": asks("insert", "contents", expects=((0,),))},
    4: {"a": asks("open"), "b": asks("delete", "contents", expects=((),))},
    5: {"a": asks("open"), "b": asks("insert", "contents", expects=((0,),))},
}
"""What runs beside each other, by the number of the bug, with the right answers to the last requests."""


def dets(number: int, is_fixed: bool) -> tuple[Program, Monitors]:
    """Make the program of one bug and its monitors."""
    clients = CLIENTS[number]
    table = Table(frozenset({0})) if number == 4 else Table()
    server = Server(0 if is_fixed else number)

    def delay_over(table: Table) -> tuple[str, ...]:
        return ("delay over",) if table.delayed else ()

    actors: Actors = {"table": Actor(table, server.step, wakes=delay_over)}
    if number != 5:
        return Program({**actors, **clients}, [Send("main", name, "go") for name in clients]), ()
    actors["before"] = Actor(0, close_twelve_times)
    return Program({**actors, **clients}, [Send("main", "before", "go")]), ()


def close_twelve_times(closed: int, sender: str, message: object) -> tuple[int, Posts]:
    """Close the table twelve times before the clients of bug 5 start, waiting for each answer."""
    if closed == 12:
        return closed, [(name, "go") for name in CLIENTS[5]]
    return closed + 1, [("table", "close")]


def dets_case(number: int, smallest: int) -> Case:
    return Case(f"dets_{number}", SOURCE, lambda is_fixed: dets(number, is_fixed), smallest)


CASES = [dets_case(1, 6), dets_case(2, 5), dets_case(3, 7), dets_case(4, 7), dets_case(5, 32)]
