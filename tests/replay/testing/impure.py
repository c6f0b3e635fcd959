"""Scenarios whose deciders are pure or not. Other processes import this module: it must import quickly."""

import os
import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, NoReturn

from msgspec.structs import replace

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.events import Event
from callboard.actors.session.step import ActorState, Decision
from callboard.replay.testing.determinism import (
    HASH_SEED,
)
from callboard.replay.testing.monitors import always
from callboard.replay.testing.program import Actor, Posts, Program, Send
from callboard.replay.testing.sessions import memory as session_memory
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import session_monitors
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import Worlds
from callboard.replay.testing.world import MakeWorld, Monitor
from tests.replay.testing.programs import collector
from tests.session_plans import Plan as SessionPlan

Parts = tuple[MakeWorld[Any], Sequence[Monitor[Any]]]

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def set_order() -> object:
    return tuple(set(NAMES))


def address() -> object:
    return id(object())


def clock() -> object:
    return time.time()


def float_sum() -> object:
    """Compute sixty sums: one sum of eight numbers often comes out the same in two orders.

    Added by hand: from Python 3.12 on `sum` makes up for most of the error.
    """
    prices = [{name: 0.1 * ((37 * n + 11 * day) % 101) for n, name in enumerate(NAMES)} for day in range(60)]
    return tuple(reduce(add, [price[name] for name in set(NAMES)]) for price in prices)


PLANTED: dict[str, Callable[[], object]] = {
    "set order": set_order, "id()": address, "clock": clock, "float sum": float_sum,
}  # fmt: skip


def letters() -> Parts:
    return collector(*"xyz").world, []


def failing() -> NoReturn:
    raise ValueError("no luck")


def dying() -> Parts:
    def world() -> NoReturn:
        os._exit(7)

    return world, []


def seeded() -> Parts:
    seed = os.environ.get(HASH_SEED, "none")
    return Program({"c": Actor(seed, lambda state, sender, message: (state, ()))}).world, []


# --- programs -----------------------------------------------------------------------


def program(planted: Callable[[], object] | None, to: str = "") -> Parts:
    """Make a clerk that counts, and a gate.

    planted: makes a part of the clerk's state, or its message if `to` is given.
    """

    def step(state: tuple[int, object], sender: str, message: str) -> tuple[tuple[int, object], Posts]:
        posts = [("gate", f"{planted()}" if to and planted else "done")] if message == "go" else []
        return (state[0] + 1, planted() if planted and not to and state[0] == 1 else 0), posts

    def gate(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state + 1, ()

    starts = [Send("client", "clerk", "go"), Send("other", "clerk", "go"), Send("client", "gate", "go")]
    made = Program({"clerk": Actor((0, 0), step), "gate": Actor(0, gate)}, starts)
    return made.world, [always("The gate gets few", lambda world: world.states["gate"] < 9)]


def sound_program() -> Parts:
    return program(None)


def program_of_set_order() -> Parts:
    return program(set_order)


def program_of_address() -> Parts:
    return program(address)


def program_of_clock() -> Parts:
    return program(clock)


def program_of_float_sum() -> Parts:
    return program(float_sum)


def program_that_posts_set_order() -> Parts:
    return program(set_order, to="gate")


PROGRAMS = {
    "set order": program_of_set_order,
    "id()": program_of_address,
    "clock": program_of_clock,
    "float sum": program_of_float_sum,
}


# --- sessions -----------------------------------------------------------------------


def sound_session() -> Parts:
    scenario = SessionPlan(1).scenario()
    return Worlds(scenario), session_monitors()


def session(planted: Callable[[], object]) -> Parts:
    """Make a session whose agents' decider puts the planted value into their state in their second turn."""
    real: Callable[[ActorState, Event], Decision] = vars(session_memory)["step"]

    def step(state: ActorState, event: Event) -> Decision:
        after, posts = real(state, event)
        if isinstance(after, AgentState) and after.turn == 2 and not after.text:
            return replace(after, text=str(planted())), posts
        return after, posts

    vars(session_memory)["step"] = step
    profiles = [profile("host", ["kid"]), profile("kid", tools=["look"])]
    scenario = Scenario(profiles, delegates, [ask()], faults=faults("error"))
    return Worlds(scenario), ()


def delegates(request: Any) -> Reply:
    if request.turn > 1:
        return Reply("done")
    return calls(task("kid")) if request.profile == "host" else calls(("look", {}))


def session_of_set_order() -> Parts:
    return session(set_order)


def session_of_address() -> Parts:
    return session(address)


def session_of_clock() -> Parts:
    return session(clock)


def session_of_float_sum() -> Parts:
    return session(float_sum)


def session_whose_model_walks_a_set() -> Parts:
    scenario = Scenario([profile("host")], lambda request: Reply(" ".join(set(NAMES))), [ask()])
    return Worlds(scenario), ()


SESSIONS = {
    "set order": session_of_set_order,
    "id()": session_of_address,
    "clock": session_of_clock,
    "float sum": session_of_float_sum,
}
