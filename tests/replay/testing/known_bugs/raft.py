"""Two leaders in one term: a candidate asks again and counts the second vote of the same server."""

from typing import NamedTuple

from callboard.replay.testing.monitors import always
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld
from tests.replay.testing.known_bugs.case import Case, Monitors

SERVERS = ("a", "b", "c", "d", "e")


class Server(NamedTuple):
    term: int = 0
    role: str = "follower"
    voted_for: str = ""
    votes: tuple[str, ...] = ()
    may_ask_again: bool = True


def steps_of(name: str, is_fixed: bool) -> Actor[Server, object]:
    others = [one for one in SERVERS if one != name]

    def step(server: Server, sender: str, message: object) -> tuple[Server, Posts]:
        match message:
            case "election timeout":
                term = server.term + 1
                return Server(term, "candidate", name, (name,)), [(one, ("vote", term)) for one in others]
            case "ask again":
                again = server._replace(may_ask_again=False)
                return again, [(one, ("vote", server.term)) for one in others]
            case ("vote", int(term)):
                if term > server.term:
                    server = Server(term)
                if term == server.term and server.voted_for in ("", sender):
                    return server._replace(voted_for=sender), [(sender, ("granted", term))]
                return server, ()
            case ("granted", int(term)) if term == server.term and server.role == "candidate":
                votes = (*server.votes, sender)
                count = len(set(votes)) if is_fixed else len(votes)
                role = "leader" if count * 2 > len(SERVERS) else "candidate"
                return server._replace(votes=votes, role=role), ()
            case _:
                return server, ()

    def wakes(server: Server) -> list[str]:
        found = ["election timeout"] if server.role == "follower" and server.term == 0 else []
        return found + (["ask again"] if server.role == "candidate" and server.may_ask_again else [])

    return Actor(Server(), step, wakes, role="server")


def raft(is_fixed: bool) -> tuple[Program, Monitors]:
    def one_leader(world: ProgramWorld) -> bool:
        leading = [one.term for one in world.states.values() if one.role == "leader"]
        return len(leading) == len(set(leading))

    program = Program({name: steps_of(name, is_fixed) for name in SERVERS})
    return program, [always("No two servers lead in one term", one_leader)]


CASES = [
    Case("raft_two_leaders", "https://github.com/microsoft/coyote, RaftTests: votes counted twice", raft, 11)
]
